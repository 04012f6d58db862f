"""Whether a file's counts, tokens and sums agree with each other and with its requests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unmoor.measure.results.finding import Finding, Severity
from unmoor.measure.results.run import E2E, LATENCIES, TPOT, TTFT, Run

_CLOSE = 0.01
_PLANNED_CLOSE = 0.1
_TOKENS_CLOSE = 0.05
_SHARED = 0.02


def count_findings(run: Run) -> Iterator[Finding]:
    """What the counts, tokens and sums of a run leave in doubt."""
    yield from _completed(run)
    yield from _failures(run)
    yield from _counts(run)
    yield from _sums(run)
    yield from _tokens(run)
    yield from _uncounted(run)
    yield from _lengths(run)
    yield from _sharing(run)


def _completed(run: Run) -> Iterator[Finding]:
    if run.completed == 0:
        yield Finding(
            code="none_completed",
            severity=Severity.VOID,
            figures=LATENCIES,
            text="No request was answered: where a latency stands, nothing was measured.",
            evidence=f"completed is 0; {_mean_words(run)}",
        )
    if run.partial:
        yield Finding(
            code="cut_short",
            severity=Severity.OTHERWISE,
            figures=("requests", "duration_s"),
            text="The run was stopped before its end: what was in flight is not in the latencies, the slow ones first.",
            evidence="the file says that it was stopped",
        )


def _mean_words(run: Run) -> str:
    means = [f"the mean {name} is {stated.mean:g}" for name, stated in run.stated.items() if stated.mean is not None]
    return ", ".join(means[:2]) or "no mean is stated"


def _failures(run: Run) -> Iterator[Finding]:
    if run.failed and run.completed is not None and run.completed + run.failed > 0:
        total = run.completed + run.failed
        yield Finding(
            code="failures_left_out",
            severity=Severity.OTHERWISE,
            figures=LATENCIES,
            text=f"The latencies are of the {run.completed:,} requests that were answered. One that failed meets no "
            f"SLO: of all, at most {run.completed / total:.1%} meet any, and no p99 is met where more than 1 % fail.",
            evidence=f"{run.failed:,} of {total:,} failed",
        )
    if run.failed is None:
        said = "how many requests failed is not in the file"
        if run.completed is not None:
            said += f"; it has {run.completed:,} completed, and not of how many"
        yield Finding(
            code="failures_not_told",
            severity=Severity.OTHERWISE,
            figures=(*LATENCIES, "completed"),
            text="Requests that failed are in no figure, and nothing tells how many did.",
            evidence=said,
        )


def _counts(run: Run) -> Iterator[Finding]:
    planned, completed, failed = run.load.requests, run.completed, run.failed
    if None not in {planned, completed, failed} and not run.partial and planned != (completed or 0) + (failed or 0):
        yield Finding(
            code="counts_disagree",
            severity=Severity.VOID,
            figures=("requests", "completed", "failed"),
            text="Requests are missing from the counts, or counted twice.",
            evidence=f"{planned} were to be sent; {completed} completed and {failed} failed",
        )
    whole = sum(request.ok for request in run.requests)
    if run.requests and completed is not None and whole != completed:
        yield Finding(
            code="requests_disagree",
            severity=Severity.VOID,
            figures=("completed", *LATENCIES),
            text="The file's list of requests is not the one that its figures are of.",
            evidence=f"completed is {completed}; {whole} of the {len(run.requests)} listed were answered",
        )


def _sums(run: Run) -> Iterator[Finding]:
    if run.duration_s and run.completed is not None:
        yield from _rate("request_tput_rps", run.request_tput_rps, run.completed, run.duration_s, "completed")
    if run.duration_s and run.output_tokens is not None:
        yield from _rate("output_tput_tps", run.output_tput_tps, run.output_tokens, run.duration_s, "output tokens")
    known = [request.output_tokens for request in run.requests if request.ok and request.output_tokens is not None]
    if known and run.output_tokens is not None and abs(sum(known) - run.output_tokens) > _CLOSE * run.output_tokens:
        yield Finding(
            code="totals_disagree",
            severity=Severity.VOID,
            figures=("output_tokens", "output_tput_tps"),
            text="The output tokens of the requests do not add up to the total.",
            evidence=f"they add up to {sum(known):,}, the total is {run.output_tokens:,}",
        )


def _rate(name: str, stated: float | None, count: int, duration_s: float, what: str) -> Iterator[Finding]:
    if stated is None or abs(stated - count / duration_s) <= _CLOSE * max(abs(stated), count / duration_s):
        return
    yield Finding(
        code="throughput_disagrees",
        severity=Severity.VOID,
        figures=(name,),
        text="The throughput is not what was done over how long it took.",
        evidence=f"{count:,} {what} / {duration_s:,.4g} s is {count / duration_s:,.4g}; {stated:,.4g} is stated",
    )


def _tokens(run: Run) -> Iterator[Finding]:
    stated, counted = run.output_tokens, run.retokenized
    if not stated or counted is None or abs(stated - counted) <= _TOKENS_CLOSE * stated:
        return
    given = {request.output_tokens for request in run.requests if request.ok}
    asked = run.load.output_tokens
    assumed = asked is not None and (given == {round(asked)} or (not given and stated == asked * (run.completed or 0)))
    yield Finding(
        code="tokens_assumed" if assumed else "tokens_disagree",
        severity=Severity.VOID if assumed else Severity.OTHERWISE,
        figures=("output_tokens", "output_tput_tps", TPOT),
        text="The output tokens are those that were asked for, not those that came: nobody counted them."
        if assumed
        else "Two counts of the same answers differ: figures per token are not to be compared with another engine's.",
        evidence=f"{stated:,} output tokens stand in the file; its client counts {counted:,} in the same texts"
        + (f"; every answer has the {asked:g} asked for" if assumed else ""),
    )


def _uncounted(run: Run) -> Iterator[Finding]:
    """Answers without a token, or without a count of them, in a file that has it of others."""
    tokens = [request.output_tokens for request in run.requests if request.ok]
    without = sum(not one for one in tokens)
    if 0 < without < len(tokens):
        yield Finding(
            code="answers_without_tokens",
            severity=Severity.OTHERWISE,
            figures=("completed", TPOT, "output_tput_tps"),
            text="Requests are counted as answered though no token of theirs is counted: an error in the stream, say.",
            evidence=f"{without:,} of {len(tokens):,} answers",
        )


def _lengths(run: Run) -> Iterator[Finding]:
    parts = (
        ("input_tokens", run.load.input_tokens, [request.input_tokens for request in run.requests]),
        ("output_tokens", run.load.output_tokens, [request.output_tokens for request in run.requests if request.ok]),
    )
    for name, planned, column in parts:
        known = [value for value in column if value is not None]
        if not known or not planned or abs(float(np.mean(known)) / planned - 1) <= _PLANNED_CLOSE:
            continue
        yield Finding(
            code="lengths_not_planned",
            severity=Severity.OTHERWISE,
            figures=(name, TTFT if name == "input_tokens" else E2E),
            text="The lengths are not those that were asked for.",
            evidence=f"{planned:g} {name.replace('_', ' ')} were asked for, {np.mean(known):,.1f} is their mean",
        )


def _sharing(run: Run) -> Iterator[Finding]:
    cached = [request.cached_tokens for request in run.requests if request.ok]
    asked = [request.input_tokens for request in run.requests if request.ok]
    rate = run.hit_rate
    if rate is None and cached and None not in cached and None not in asked and sum(one or 0 for one in asked):
        rate = sum(one or 0 for one in cached) / sum(one or 0 for one in asked)
    if rate is not None and rate > _SHARED:
        yield Finding(
            code="prefix_hits",
            severity=Severity.OTHERWISE,
            figures=(TTFT, E2E, "request_tput_rps"),
            text="Prompts were partly in the engine's cache: that is the speed of this traffic's sharing, or of a "
            "cache warm from a run before.",
            evidence=f"{rate:.1%} of the prompt tokens came from the cache",
        )
