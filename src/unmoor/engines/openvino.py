"""OpenVINO GenAI: the embedded engine, for a machine that has none. Written against 2026.4.1.

Its package has no HTTP server; ours (`launch/servers/openvino`) runs in its environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from unmoor.engines.contract import (
    GGUF_FILE,
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

# Defaults as openvino_genai.SchedulerConfig() of 2026.4.1 tells them: prefix caching is off, a step holds 256 tokens.
KNOBS = (
    prefix_caching("--prefix-caching", default=False),
    max_running("--max-running", 256, (4, 16, 1)),
    max_batch_tokens("--max-batch-tokens", 256, (1024, 64, 4096)),
    chunked_prefill("--dynamic-split-fuse", default=True),
)

RULES = (
    Rule(r"error: (unrecognized arguments|argument .*|the following arguments)", "refuses an option", OPTION_HINT),
    Rule(r"cannot listen on .*: Address already in use", "found its port taken", PORT_HINT),
    Rule(
        r"no model file at|[Ff]ailed to open .* with gguf_open",
        "does not find the model's file, or cannot read it",
        "bring it again: unmoor engines fetch MODEL",
    ),
    Rule(
        r"a context of \d+ tokens is more than",
        "cannot serve so long a context: the model's own is shorter",
        "lower the plan's context, or choose a model with a longer one",
    ),
    Rule(
        r"ModuleNotFoundError: No module named|ImportError: ",
        "misses a module in its environment",
        "make the environment again: unmoor engines install openvino",
    ),
    Rule(
        r"MemoryError|std::bad_alloc|larger than available memory size"
        r"|[Oo]ut of memory|[Cc]annot allocate memory|[Ff]ailed to allocate",
        "ran out of memory",
        MEMORY_HINT,
    ),
)


class OpenVino:
    """OpenVINO GenAI behind the contract."""

    name = "openvino"
    title = "OpenVINO GenAI"
    known_version = "2026.4.1"
    tables_name: str | None = None
    knobs = KNOBS
    model_format: ModelFormat = "gguf"
    cpu_weights = "q4_1"
    absent_reason = ""
    scrape: Mapping[Metric, str] = {
        "running": "openvino_requests_running",
        "waiting": "openvino_requests_waiting",
        "kv_use": "openvino_kv_cache_usage",
        "prompt_tokens": "openvino_prompt_tokens_total",
        "generated_tokens": "openvino_generation_tokens_total",
    }
    metrics_path = "/metrics"
    cache_reset_path: str | None = None
    cache_reset_hint = ""
    install: InstallSpec | None = InstallSpec(
        requirements=("openvino-genai==2026.4.1.0",),
        publisher="Intel, the OpenVINO developers",
        licence="Apache-2.0",
        size_mb=300,
        # Its converter tools ask for leave to send usage data; serving needs neither them nor this.
        remove_after=("openvino-telemetry",),
        imports="openvino_genai",
    )

    def command(self, spec: LaunchSpec, settings: Settings) -> Command:
        """Our own server over it, in its environment; all that matters is said, defaults of the engine stay its own."""
        refuse_unknown(self.title, self.knobs, settings)
        server = files("unmoor") / "launch" / "servers" / "openvino" / "server.py"
        fixed = (
            *(spec.python, str(server), "--model", f"{spec.model_dir}/{GGUF_FILE}"),
            *("--served-model-name", spec.served_name, "--host", spec.host, "--port", str(spec.port)),
            *("--threads", str(spec.threads), "--context-tokens", str(spec.context_tokens)),
            *("--cache-gib", str(spec.kv_cache_gib)),
        )
        tuned = flag_words(self.knobs, settings)
        return Command(argv=fixed + tuned, env={"DO_NOT_TRACK": "1", "PYTHONUNBUFFERED": "1"})

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        """Its last words as our diagnosis; None when nothing in them is known."""
        return diagnose(log_tail, RULES)

    def scheduler(self, settings: Settings) -> SchedulerModel:
        """Dynamic split fuse mixes prompt pieces and decodes in one step; blocks of 32 tokens on a CPU.

        For completeness: it has no kernel tables, and prediction does not ask for it.
        """
        refuse_unknown(self.title, self.knobs, settings)
        chunked = bool(settings.get("chunked_prefill", True))
        return SchedulerModel(
            policy="mixed" if chunked else "prefill_first",
            max_running=int(settings.get("max_running", 256)),
            max_batch_tokens=int(settings.get("max_batch_tokens", 256)),
            kv_block_tokens=32,
            chunked_prefill=chunked,
            prefix_caching=bool(settings.get("prefix_caching", False)),
        )


ENGINE = OpenVino()
