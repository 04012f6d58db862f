"""TensorRT-LLM: what is known of it, from its own command line's reference file (mid-2026). It needs an NVIDIA GPU."""

from __future__ import annotations

import json
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
from unmoor.engines.knobs import chunked_prefill, max_batch_tokens, max_running, prefix_caching, refuse_unknown

CONFIG = "trtllm_config.yaml"

KNOBS = (
    max_running("--max_batch_size", 2048, (256, 512, 64)),
    prefix_caching("kv_cache_config.enable_block_reuse", default=True),
    max_batch_tokens("--max_num_tokens", 8192, (2048, 16384)),
    chunked_prefill("--enable_chunked_prefill", default=False),
)

RULES = (
    Rule(r"No such option: |Error: Invalid value for |Got unexpected extra argument", "refuses an option", OPTION_HINT),
    Rule(r"[Aa]ddress already in use", "found its port taken", PORT_HINT),
    Rule(
        r"libcuda\.so|no CUDA-capable device|Found no NVIDIA driver|CUDA driver version is insufficient",
        "finds no NVIDIA GPU",
        "it runs on NVIDIA GPUs only",
    ),
    Rule(
        r"ModuleNotFoundError: No module named|ImportError: ", "misses a module in its environment", "install it again"
    ),
    Rule(r"CUDA out of memory|[Oo]ut of memory|OutOfMemory|std::bad_alloc", "ran out of memory", MEMORY_HINT),
    Rule(
        r"Repo id must|does not appear to have a file named|No such file or directory.*(config\.json|safetensors)",
        "does not find the model's files",
        "bring them again: unmoor engines fetch MODEL --format hf",
    ),
)


class TensorRtLlm:
    """TensorRT-LLM behind the contract."""

    name = "tensorrt-llm"
    title = "TensorRT-LLM"
    known_version = "1.3.0rc3"
    tables_name: str | None = "trtllm"
    knobs = KNOBS
    model_format: ModelFormat = "hf"
    cpu_weights = ""
    install: InstallSpec | None = None
    absent_reason = "it needs an NVIDIA GPU; nothing of it runs on a CPU"
    scrape: Mapping[Metric, str] = {
        "running": "trtllm_num_requests_running",
        "waiting": "trtllm_num_requests_waiting",
        "kv_use": "trtllm_kv_cache_utilization",
        "preemptions": "trtllm_num_paused_requests",
    }
    metrics_path = "/prometheus/metrics"
    cache_reset_path: str | None = None
    cache_reset_hint = ""

    def command(self, spec: LaunchSpec, settings: Settings) -> Command:
        """`trtllm-serve serve` by its module; what has no flag is a file beside the log, named on the command line."""
        refuse_unknown(self.title, self.knobs, settings)
        config = {
            "return_perf_metrics": True,
            "enable_iter_perf_stats": True,
            "kv_cache_config": {"enable_block_reuse": bool(settings.get("prefix_caching", True))},
        }
        fixed = (
            *(spec.python, "-m", "tensorrt_llm.commands.serve", "serve", f"{spec.model_dir}/{HF_FOLDER}"),
            *("--served_model_name", spec.served_name, "--host", spec.host, "--port", str(spec.port)),
            *("--max_seq_len", str(spec.context_tokens), "--generation-config", "trtllm", "--no-telemetry"),
            *("--config", CONFIG),
        )
        # JSON is YAML, and needs no third library to write.
        return Command(argv=fixed + _tuned(settings), env=OFFLINE, files={CONFIG: json.dumps(config, indent=1) + "\n"})

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        """Its last words as our diagnosis; None when nothing in them is known."""
        return diagnose(log_tail, RULES)

    def scheduler(self, settings: Settings) -> SchedulerModel:
        """In-flight batching under GUARANTEED_NO_EVICT: a request enters only when its whole answer fits the KV pool.

        Defaults of trtllm-serve (trtllm_serve_cli.yaml, mid-2026): 2,048 sequences, 8,192 tokens, chunked prefill off,
        blocks of 32 tokens with reuse.
        """
        refuse_unknown(self.title, self.knobs, settings)
        return SchedulerModel(
            policy="mixed",
            max_running=int(settings.get("max_running", 2048)),
            max_batch_tokens=int(settings.get("max_batch_tokens", 8192)),
            kv_block_tokens=32,
            chunked_prefill=bool(settings.get("chunked_prefill", False)),
            prefix_caching=bool(settings.get("prefix_caching", True)),
            reserve_output=True,
        )


def _tuned(settings: Settings) -> tuple[str, ...]:
    words: list[str] = []
    for name, flag in (("max_running", "--max_batch_size"), ("max_batch_tokens", "--max_num_tokens")):
        if name in settings:
            words += [flag, str(settings[name])]
    if settings.get("chunked_prefill") is True:
        words.append("--enable_chunked_prefill")
    return tuple(words)


ENGINE = TensorRtLlm()
