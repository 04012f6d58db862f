# How the engine of today is started.
VLLM_NO_USAGE_STATS=1 vllm serve /models/llama-3.1-70b \
  --served-model-name llama-3.1-70b \
  --tensor-parallel-size 4 \
  --max-num-seqs 128 \
  --max-model-len 8192 \
  --gpu-memory-utilization 0.9 \
  --enable-lora --max-loras 4 --max-lora-rank 32 \
  --scheduling-policy priority \
  --enable-auto-tool-choice --tool-call-parser llama3_json \
  --enable-prompt-tokens-details --enforce-eager --swap-space 4
