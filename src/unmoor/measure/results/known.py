"""What the tools are known to do, each with where and when it was seen: it holds for the version named there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from unmoor.measure.results.finding import Basis, Finding, Severity
from unmoor.measure.results.run import E2E, ITL, TPOT, TTFT, Run

_SEEN = "run against unmoor.fake.engine with the fault error_mid"
_DAY = "2026-12-01"


class _Behaviour(NamedTuple):
    format: str
    code: str
    figures: tuple[str, ...]
    text: str
    source: str
    as_of: str = _DAY
    holds: Callable[[Run], bool] = lambda _: True
    severity: Severity = Severity.OTHERWISE


def _chat(run: Run) -> bool:
    return "chat" in (run.endpoint or "")


_KNOWN = (
    _Behaviour(
        "vllm-bench",
        "first_chunk_is_first_token",
        (TTFT, TPOT, ITL),
        "Its chat client stops the clock of TTFT at the first chunk that has choices, one with a role and no text too.",
        "vLLM 0.32.0, vllm/benchmarks/lib/endpoint_request_func.py",
        holds=_chat,
    ),
    _Behaviour(
        "vllm-bench",
        "error_counted_as_answer",
        ("failed", TTFT, E2E),
        "An error that comes after HTTP 200, in the stream, is counted as an answer.",
        f"vLLM 0.32.0, {_SEEN}",
    ),
    _Behaviour(
        "vllm-bench",
        "tokens_server_or_client",
        ("output_tput_tps", TPOT),
        "Tokens are the server's count where it sent one, else those of the client's tokenizer; the file does not say.",
        "vLLM 0.32.0, vllm/benchmarks/serve.py",
        severity=Severity.NOTE,
    ),
    _Behaviour(
        "sglang-bench",
        "tokens_assumed_without_usage",
        ("output_tput_tps", TPOT),
        "Where the server sends no usage, the output tokens asked for are taken to have come; it asks for usage only "
        "where --extra-request-body does.",
        "SGLang 0.5.23, sglang/benchmark/serving.py",
        holds=_chat,
        severity=Severity.NOTE,
    ),
    _Behaviour(
        "sglang-bench",
        "error_counted_as_answer",
        ("completed", TTFT, E2E),
        "An error that comes after HTTP 200, in the stream, is counted as an answer.",
        f"SGLang 0.5.23, {_SEEN}",
    ),
    _Behaviour(
        "sglang-bench",
        "ends_at_last_line",
        (E2E, TPOT),
        "The end of a chat answer is its last line, which may be the usage or [DONE], not its last token.",
        "SGLang 0.5.23, sglang/benchmark/serving.py",
        holds=_chat,
    ),
    _Behaviour(
        "sglang-bench",
        "pacing_drifts",
        ("requested_rps",),
        "Requests are paced by one sleep after the other, so that the lateness of each adds up; when each was sent is "
        "not in the file.",
        "SGLang 0.5.23, sglang/benchmark/serving.py",
        holds=lambda run: run.load.requested_rps is not None,
    ),
    _Behaviour(
        "guidellm",
        "wall_clock",
        (TTFT, E2E),
        "Times are of the wall clock, which may be set while it runs.",
        "GuideLLM 0.8.1, guidellm/backends/openai/http.py",
        severity=Severity.NOTE,
    ),
    _Behaviour(
        "guidellm",
        "tpot_has_first_token",
        ("time_per_output_token_ms",),
        "Its time_per_output_token_ms is end to end / tokens, with the first token in it; what is tpot_s here is its "
        "inter_token_latency_ms.",
        "GuideLLM 0.8.1, its JSON",
        severity=Severity.NOTE,
    ),
    _Behaviour(
        "aiperf",
        "itl_is_tpot",
        ("inter_token_latency",),
        "Its inter_token_latency is a mean for each answer, what is tpot_s here: its quantiles are of answers, and "
        "say nothing of a stall between two tokens.",
        "AIPerf 0.13.0, its JSON",
        severity=Severity.NOTE,
    ),
    _Behaviour(
        "aiperf",
        "error_counted_as_answer",
        ("request_count", TTFT, E2E),
        "An error that comes after HTTP 200, in the stream, is counted as an answer.",
        f"AIPerf 0.13.0, {_SEEN}",
    ),
    _Behaviour(
        "aiperf",
        "two_durations",
        ("request_tput_rps", "output_tput_tps"),
        "Its throughputs are over the time from start_time to end_time, which is longer than its benchmark_duration.",
        "AIPerf 0.13.0, its JSON",
        severity=Severity.NOTE,
    ),
    _Behaviour(
        "inferencex",
        "from_capped_load",
        (TTFT, E2E),
        "It is made of a run whose requests wait in the client for one of `conc` places: none of that wait is in a "
        "latency.",
        "SemiAnalysisAI/InferenceX at 00e51cc7, utils/process_result.py: conc is max_concurrency",
        severity=Severity.NOTE,
    ),
)


def known_of(format_name: str, run: Run) -> list[Finding]:
    """What the tool that wrote this format is known to do, and concerns this run."""
    return [
        Finding(
            code=one.code,
            severity=one.severity,
            figures=one.figures,
            text=one.text,
            evidence="known of the tool, whether the file shows it or not",
            basis=Basis.TOOL,
            source=one.source,
            as_of=one.as_of,
        )
        for one in _KNOWN
        if format_name in {one.format, f"{one.format}-records"} and one.holds(run)
    ]
