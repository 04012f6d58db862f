"""SGLang: what is known of it. Written against 0.5.23; checked by goldens, not installed yet."""

from __future__ import annotations

from collections.abc import Mapping

from unmoor.core.errors import UsageError
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

# Its parsers are Python alone. Brought without the kernels and the torch that the whole package asks for; what stands
# here is what their modules import (looked at on 2026-12-01).
OUTPUT_PARSERS = InstallSpec(
    requirements=(
        *("sglang==0.5.23", "xgrammar==0.2.7", "openai==2.8.0", "pydantic==2.14.4", "pydantic_core==2.50.5"),
        *("typing-inspection==0.4.5", "annotated-types==0.8.0", "typing_extensions==4.16.0", "orjson==3.13.0"),
        *("partial-json-parser==0.2.1.1.post7", "msgspec==0.23.0", "regex==2026.11.19", "numpy==2.4.6"),
        *("pybase64==1.5.1", "requests==2.34.2", "urllib3==2.8.0", "certifi==2026.10.19.post1", "idna==3.20"),
        *("charset-normalizer==3.5.3", "tqdm==4.70.1", "httpx==0.28.1", "httpcore==1.0.9", "anyio==4.16.0"),
        *("h11==0.16.0", "sniffio==1.3.1", "distro==1.9.0", "jiter==0.19.0", "Jinja2==3.1.6", "MarkupSafe==3.0.4"),
    ),
    publisher="the SGLang project, and those of the packages that its parsers import",
    licence="Apache-2.0, MIT, BSD-3-Clause, MPL-2.0, PSF-2.0",
    size_mb=340,
    imports="openai",
    distribution="sglang",
    exact=True,
)

KNOBS = (
    max_running("--max-running-requests", None, (4, 16, 1)),  # computed from the memory that is left
    prefix_caching("--disable-radix-cache", default=True),
    max_batch_tokens("--chunked-prefill-size", 2048, (256, 4096)),
    chunked_prefill("--chunked-prefill-size", default=True),
)

RULES = (
    Rule(r"unrecognized arguments?: |ambiguous option: |invalid choice: ", "refuses an option", OPTION_HINT),
    Rule(r"[Aa]ddress already in use|port .* is already in use|is not available", "found its port taken", PORT_HINT),
    Rule(
        r"ModuleNotFoundError: No module named|ImportError: ",
        "misses a module in its environment",
        "make its environment again",
    ),
    Rule(
        r"Not enough memory|[Oo]ut of memory|MemoryError|Cannot allocate memory|std::bad_alloc",
        "ran out of memory",
        MEMORY_HINT,
    ),
    Rule(
        r"does not appear to have a file named|Repo id must|Cannot find any model weights|couldn't connect to",
        "does not find the model's files",
        "bring them again: unmoor engines fetch MODEL --format hf",
    ),
)

KV_TOKENS_PER_GIB = 23_000  # of the demo model in float32 (30 layers x 2 x 3 heads x 64 x 4 bytes = 46 kB a token)


class Sglang:
    """SGLang behind the contract."""

    name = "sglang"
    title = "SGLang"
    known_version = "0.5.23"
    tables_name: str | None = "sglang"
    knobs = KNOBS
    model_format: ModelFormat = "hf"
    cpu_weights = "float32"
    install: InstallSpec | None = None
    absent_reason = (
        "Unmoor cannot install it yet: for a CPU it needs kernels that are on no package index; `unmoor decide` still "
        "weighs it"
    )
    scrape: Mapping[Metric, str] = {
        "running": "sglang:num_running_reqs",
        "waiting": "sglang:num_queue_reqs",
        "kv_use": "sglang:token_usage",
        "prefix_hits": "sglang:cached_tokens_total",
        "prefix_queries": "sglang:prompt_tokens_total",
        "preemptions": "sglang:num_retracted_requests_total",
        "prompt_tokens": "sglang:prompt_tokens_total",
        "generated_tokens": "sglang:generation_tokens_total",
    }
    metrics_path = "/metrics"
    cache_reset_path: str | None = "/flush_cache"
    cache_reset_hint = ""

    def command(self, spec: LaunchSpec, settings: Settings) -> Command:
        """The launcher for a CPU, everything that differs between engines by default said: full names only.

        Raises UsageError for `max_batch_tokens` together with `chunked_prefill` off: one flag carries both.
        """
        refuse_unknown(self.title, self.knobs, settings)
        fixed = (
            *(spec.python, "-m", "sglang.launch_server", "--model-path", f"{spec.model_dir}/{HF_FOLDER}"),
            *("--served-model-name", spec.served_name, "--host", spec.host, "--port", str(spec.port)),
            *("--context-length", str(spec.context_tokens), "--device", "cpu", "--dtype", "float32"),
            *("--attention-backend", "torch_native", "--sampling-backend", "pytorch", "--disable-cuda-graph"),
            *("--max-total-tokens", str(KV_TOKENS_PER_GIB * spec.kv_cache_gib), "--mem-fraction-static", "0.2"),
            *("--sampling-defaults", "openai", "--random-seed", "0"),
            *("--enable-metrics", "--enable-cache-report", "--disable-overlap-schedule"),
        )
        env = {
            **OFFLINE,
            "SGLANG_USE_CPU_ENGINE": "1",
            "OMP_NUM_THREADS": str(spec.threads),
        }
        return Command(argv=fixed + _tuned(settings), env=env)

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        """Its last words as our diagnosis; None when nothing in them is known."""
        return diagnose(log_tail, RULES)

    def scheduler(self, settings: Settings) -> SchedulerModel:
        """Waiting prefills run alone before decodes: mixed chunks are off by default (`enable_mixed_chunk`, 0.5.23).

        Chunked prefill is 8,192 tokens on GPUs under 160 GB, pages hold one token; `max_running_requests` is computed
        from memory, so the bound here is one that memory reaches first.
        """
        refuse_unknown(self.title, self.knobs, settings)
        return SchedulerModel(
            policy="prefill_first",
            max_running=int(settings.get("max_running", 4096)),
            max_batch_tokens=int(settings.get("max_batch_tokens", 8192)),
            kv_block_tokens=1,
            chunked_prefill=bool(settings.get("chunked_prefill", True)),
            prefix_caching=bool(settings.get("prefix_caching", True)),
        )


def _tuned(settings: Settings) -> tuple[str, ...]:
    words: list[str] = []
    if "max_running" in settings:
        words += ["--max-running-requests", str(settings["max_running"])]
    if settings.get("prefix_caching") is False:
        words.append("--disable-radix-cache")
    if settings.get("chunked_prefill") is False:
        if "max_batch_tokens" in settings:
            raise UsageError(
                "SGLang: 'max_batch_tokens' and 'chunked_prefill = false' are one flag",
                seen="both",
                expected="one of the two",
                hint="leave max_batch_tokens out",
            )
        words += ["--chunked-prefill-size", "-1"]
    elif "max_batch_tokens" in settings:
        words += ["--chunked-prefill-size", str(settings["max_batch_tokens"])]
    return tuple(words)


ENGINE = Sglang()
