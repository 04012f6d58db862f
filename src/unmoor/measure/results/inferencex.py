"""InferenceX's (formerly InferenceMAX's) aggregated file, made of a file of vLLM's `benchmark_serving`.

Keys as of utils/process_result.py at commit 00e51cc7 of SemiAnalysisAI/InferenceX, read 2026-12-01: latencies in
seconds, `*_intvty` the inverse of the TPOT of the same name, throughputs per GPU. No count of requests, of failures or
of tokens is in it, nor a duration.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from unmoor.measure.results.finding import Finding, Severity
from unmoor.measure.results.open_file import Content, Document
from unmoor.measure.results.run import E2E, ITL, TPOT, TTFT, Load, Run, Stated

MARKS = frozenset({"hw", "conc", "tput_per_gpu"})
_NAMES = {"ttft": TTFT, "tpot": TPOT, "itl": ITL, "e2el": E2E}
_WORDS = {"median": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}
_OFF = 0.01

Number = float | None


class _File(msgspec.Struct, frozen=True):
    conc: int | None = None
    model: str | None = None
    framework: str | None = None
    isl: Number = None
    osl: Number = None


def read(content: Content) -> tuple[Run, ...]:
    """The runs of the file. Raises UsageError, naming line and key."""
    return tuple(_run(document) for document in content.documents)


def _run(document: Document) -> Run:
    file = document.read(_File)
    numbers = _numbers(document)
    return Run(
        place="" if document.line is None else f"line {document.line}",
        model=file.model,
        endpoint=file.framework,
        load=Load(concurrency=file.conc, input_tokens=file.isl, output_tokens=file.osl),
        stated={name: stated for short, name in _NAMES.items() if (stated := _stated(numbers, short)).said()},
        own=tuple(_interactivity(numbers)),
    )


def _numbers(document: Document) -> dict[str, float]:
    found = {}
    for key, raw in document.read(dict[str, msgspec.Raw]).items():
        try:
            found[key] = msgspec.json.decode(raw, type=float)
        except msgspec.DecodeError:
            continue
    return found


def _stated(numbers: dict[str, float], short: str) -> Stated:
    quantiles = {share: numbers[key] for word, share in _WORDS.items() if (key := f"{word}_{short}") in numbers}
    return Stated(mean=numbers.get(f"mean_{short}"), quantiles=quantiles)


def _interactivity(numbers: dict[str, float]) -> Iterator[Finding]:
    for key, tpot_s in numbers.items():
        name = key.replace("_tpot", "_intvty")
        if key.endswith("_tpot") and name in numbers and tpot_s and abs(numbers[name] * tpot_s - 1) > _OFF:
            yield Finding(
                code="interactivity_disagrees",
                severity=Severity.VOID,
                figures=(name,),
                text="The interactivity is not the inverse of the TPOT of its name.",
                evidence=f"{name} is {numbers[name]:.4g}, and 1 / {key} is {1 / tpot_s:.4g}",
            )
    if "p99_intvty" in numbers:
        yield Finding(
            code="interactivity_inverted",
            severity=Severity.OTHERWISE,
            figures=("p99_intvty",),
            text="It is the inverse of p99_tpot: what the slowest hundredth of the users get, not what the fastest do.",
            evidence=f"p99_intvty is {numbers['p99_intvty']:.4g} tokens/s",
        )
