"""Whether a file's latencies are what their names say, and how sure its quantiles are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from unmoor.core.plural import plural
from unmoor.core.quantile_interval import fewest_for, quantile_interval
from unmoor.measure.results.finding import Finding, Severity
from unmoor.measure.results.run import E2E, ITL, LATENCIES, TPOT, TTFT, Request, Run, Stated, Values, values_of

_CLOSE = 0.01
_MOST = 0.5
_FAR = 2.0
_AT_ONCE = 0.1
_MS = 1000
_NONE = 1e-9
_TAILS = (0.9, 0.95, 0.99, 0.999)


def latency_findings(run: Run) -> Iterator[Finding]:
    """What the latencies of a run leave in doubt."""
    yield from _zeros(run)
    yield from _impossible(run)
    yield from _chunks(run)
    yield from _ends(run)
    yield from _sample(run)
    yield from _few(run)
    for name in LATENCIES:
        stated, values = run.stated.get(name, Stated()), values_of(run, name)
        yield from _recomputed(run, name, stated, values)
        yield from _far_mean(name, stated)


def _zeros(run: Run) -> Iterator[Finding]:
    answered = sum(request.ok and request.ttft_s == 0 for request in run.requests)
    if answered:
        yield Finding(
            code="zero_ttft",
            severity=Severity.VOID,
            figures=(TTFT, TPOT),
            text="Requests that gave no first token stand in TTFT with 0, and pull its mean and quantiles down.",
            evidence=f"{plural(answered, 'request')} counted as answered with a TTFT of 0",
        )
    failed = sum(not request.ok and (request.ttft_s == 0 or request.e2e_s == 0) for request in run.requests)
    if failed:
        yield Finding(
            code="zero_for_failed",
            severity=Severity.NOTE,
            figures=(TTFT, E2E),
            text="The lists of the file have 0 for requests that failed: leave them out of what you compute of it.",
            evidence=f"{failed} zeros, one for each request that failed",
        )
    if not run.requests and run.completed != 0 and _is_zero(run.stated.get(TTFT)):
        yield Finding(
            code="zero_ttft",
            severity=Severity.VOID,
            figures=(TTFT, TPOT),
            text="TTFT is 0: it was not measured, as where answers are not streamed.",
            evidence="mean and quantiles of TTFT are 0",
        )


def _is_zero(stated: Stated | None) -> bool:
    return stated is not None and stated.mean == 0 and not any(stated.quantiles.values())


def _impossible(run: Run) -> Iterator[Finding]:
    negative = sum(
        any(value is not None and value < 0 for value in (one.ttft_s, one.e2e_s, one.queued_s)) for one in run.requests
    )
    later = sum(
        one.ok and one.ttft_s is not None and one.e2e_s is not None and one.ttft_s > one.e2e_s * (1 + _NONE)
        for one in run.requests
    )
    for count, what in ((negative, "a negative time"), (later, "a first token after the end")):
        if count:
            yield Finding(
                code="impossible_times",
                severity=Severity.VOID,
                figures=(TTFT, E2E, TPOT),
                text=f"Requests have {what}.",
                evidence=f"{plural(count, 'request')} of {len(run.requests):,}",
            )


def _chunks(run: Run) -> Iterator[Finding]:
    """More gaps than tokens have between them, or fewer: then a gap is not the time of a token."""
    told = [one for one in run.requests if one.ok and one.gaps_s is not None and (one.output_tokens or 0) > 1]
    if not told:
        return
    extra = [len(one.gaps_s) - ((one.output_tokens or 0) - 1) for one in told if one.gaps_s is not None]
    more, fewer = sum(one > 0 for one in extra), sum(one < 0 for one in extra)
    if more > _MOST * len(told):
        yield from _empty_chunks(told, more)
    elif fewer > _MOST * len(told):
        gaps = sum(len(one.gaps_s) for one in told if one.gaps_s is not None)
        tokens = sum(one.output_tokens or 0 for one in told)
        yield Finding(
            code="tokens_share_chunks",
            severity=Severity.OTHERWISE,
            figures=(ITL,),
            text="ITL is between chunks, not between tokens: most answers have several tokens in a chunk, or the "
            "tokens that the file counts did not all come.",
            evidence=f"{gaps:,} gaps for {tokens:,} tokens in {plural(len(told), 'answer')}",
        )


def _empty_chunks(told: Sequence[Request], more: int) -> Iterator[Finding]:
    """More gaps than tokens: a chunk without one came first where the first gap is long and no finish explains it."""
    firsts = [float(one.gaps_s[0]) for one in told if one.gaps_s is not None and len(one.gaps_s) > 1]
    others = np.concatenate([one.gaps_s[1:] for one in told if one.gaps_s is not None])
    first_ms, other_ms = np.median(firsts or [0]) * _MS, np.median(others if len(others) else [0]) * _MS
    evidence = f"{more:,} of {len(told):,} answers have more gaps than their tokens have between them"
    in_front = sum(_extra_in_front(one, float(other_ms) / _MS) > 0 for one in told)
    if in_front > _MOST * len(told) and first_ms > _FAR * max(other_ms, _NONE):
        ttfts = [one.ttft_s for one in told if one.ttft_s is not None and one.gaps_s is not None and len(one.gaps_s)]
        later = [float(one.gaps_s[0]) + (one.ttft_s or 0) for one in told if one.gaps_s is not None and len(one.gaps_s)]
        yield Finding(
            code="ttft_of_an_empty_chunk",
            severity=Severity.VOID,
            figures=(TTFT, TPOT, ITL),
            text="Chunks without a token were timed as tokens, and the wait for the first token is in the first gap: "
            "TTFT is that of a chunk with a role and no text.",
            evidence=f"{evidence}; the median first gap is {first_ms:,.1f} ms, the others {other_ms:,.1f} ms: the "
            f"median TTFT is {np.median(ttfts) * _MS:,.1f} ms, with the first gap {np.median(later) * _MS:,.1f} ms",
        )
        return
    yield Finding(
        code="gaps_of_empty_chunks",
        severity=Severity.OTHERWISE,
        figures=(ITL, TTFT),
        text="Chunks without a token were timed as tokens: ITL has gaps that no token ended, and TTFT may be that of "
        "such a chunk.",
        evidence=evidence,
    )


def _extra_in_front(one: Request, usual_s: float) -> int:
    """Gaps beyond those that tokens have between them, without a last one at once after the last token: its finish."""
    if one.gaps_s is None or not len(one.gaps_s):
        return 0
    finish = int(one.gaps_s[-1] < _AT_ONCE * usual_s)
    return len(one.gaps_s) - finish - ((one.output_tokens or 0) - 1)


def _ends(run: Run) -> Iterator[Finding]:
    told = [
        (last, one.e2e_s)
        for one in run.requests
        if one.ok and one.e2e_s is not None and (last := _last_token_s(one)) is not None
    ]
    beyond = sum(last > end * (1 + _CLOSE) for last, end in told)
    if beyond:
        yield Finding(
            code="time_lines_disagree",
            severity=Severity.VOID,
            figures=(TTFT, ITL, E2E),
            text="TTFT and the gaps add up to more than the whole request took.",
            evidence=f"{plural(beyond, 'request')} of {len(told):,}",
        )
    after = [end - last for last, end in told if end > last * (1 + _CLOSE)]
    if len(after) > _MOST * len(told):
        yield Finding(
            code="ends_after_last_token",
            severity=Severity.OTHERWISE,
            figures=(E2E, TPOT),
            text="A request's end is later than its last token, so that TPOT has in it what came after that.",
            evidence=f"by {np.median(after) * _MS:,.1f} ms in the median of {plural(len(after), 'request')}",
        )


def _last_token_s(one: Request) -> float | None:
    """When the last token came, from the sending, by the file's own time of it or by its gaps; None without either."""
    if one.last_token_s is not None or not one.ttft_s or one.gaps_s is None or not len(one.gaps_s):
        return one.last_token_s
    return one.ttft_s + float(one.gaps_s.sum())


def _recomputed(run: Run, name: str, stated: Stated, ordered: Values) -> Iterator[Finding]:
    """Whether what is stated is what the file's own requests give; a TTFT with zeros has its own finding."""
    if not len(ordered) or not stated.said() or any(one.ok and one.ttft_s == 0 for one in run.requests):
        return
    wrong = []
    mean = float(ordered.mean())
    if stated.mean is not None and abs(stated.mean - mean) > _CLOSE * max(abs(mean), _NONE):
        wrong.append(f"mean {_ms(stated.mean)} stated, {_ms(mean)} recomputed")
    for share, value in sorted(stated.quantiles.items()):
        at = share * (len(ordered) - 1)
        reach = 0 if run.interpolated else 1
        low = ordered[max(0, math.floor(at) - reach)]
        high = ordered[min(len(ordered) - 1, math.ceil(at) + reach)]
        if not low * (1 - _CLOSE) <= value <= high * (1 + _CLOSE):
            wrong.append(f"p{share * 100:g} {_ms(value)} stated, {_ms(float(np.quantile(ordered, share)))} recomputed")
    if wrong:
        yield Finding(
            code="statistics_disagree",
            severity=Severity.VOID,
            figures=(name,),
            text=f"What is stated of {name} is not what the file's own requests give.",
            evidence="; ".join(wrong),
        )


def _sample(run: Run) -> Iterator[Finding]:
    """Quantiles of who knows how many answers."""
    figures = [f"{name}.p{q * 100:g}" for name, stated in run.stated.items() for q in stated.quantiles if q in _TAILS]
    if run.completed is None and not run.requests and figures:
        yield Finding(
            code="sample_not_told",
            severity=Severity.OTHERWISE,
            figures=tuple(figures),
            text="How many answers these quantiles are of is not in the file: nothing bounds them.",
            evidence="no count of requests",
        )


def _few(run: Run) -> Iterator[Finding]:
    """Quantiles that the sample is too small to bound from above; gaps of one answer are alike, so not for ITL."""
    figures, bounds, counts, shares = [], [], set(), set()
    for name in (TTFT, TPOT, E2E):
        stated, values = run.stated.get(name, Stated()), values_of(run, name)
        count = len(values) or run.completed or 0
        missing = [share for share in _TAILS if share in _shown(stated, values) and 0 < count < fewest_for(share)]
        figures += [f"{name}.p{share * 100:g}" for share in missing]
        counts |= {count} if missing else set()
        shares |= set(missing)
        interval = quantile_interval(values.tolist(), missing[0]) if missing and len(values) else None
        if interval is not None and interval.low is not None:
            bounds.append(f"{name}.p{missing[0] * 100:g} is {_ms(interval.low)} or more")
    if not figures:
        return
    takes = [f"a p{share * 100:g} takes {fewest_for(share):,}" for share in sorted(shares)]
    yield Finding(
        code="few_requests",
        severity=Severity.OTHERWISE,
        figures=tuple(figures),
        text="Too few answers for an upper bound at 95 %, whatever the distribution: the next ones could move these "
        "quantiles anywhere.",
        evidence="; ".join([f"{plural(min(counts), 'answer')}, where {', '.join(takes)}", *bounds]),
    )


def _shown(stated: Stated, values: Values) -> set[float]:
    """The quantiles that are stated, or that are recomputed where none is."""
    return set(stated.quantiles) or (set(_TAILS[:3]) if len(values) else set())


def _far_mean(name: str, stated: Stated) -> Iterator[Finding]:
    median = stated.quantiles.get(0.5)
    if stated.mean is None or not median or name == ITL or stated.mean <= _FAR * median:
        return
    yield Finding(
        code="mean_far_from_median",
        severity=Severity.OTHERWISE,
        figures=(f"{name}.mean",),
        text="The mean is of a few slow requests, or of two kinds of them: it is what no request took.",
        evidence=f"mean {_ms(stated.mean)}, median {_ms(median)}",
    )


def _ms(value_s: float) -> str:
    return f"{value_s * _MS:,.1f} ms"
