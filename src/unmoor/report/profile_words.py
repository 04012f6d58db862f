"""How a log's figures read on paper, in the terminal and on the page alike."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.core.plural import plural
from unmoor.report.words import for_the_same_model
from unmoor.traffic.breakers.breaker import Place
from unmoor.traffic.conversion import FEW_UNKNOWN
from unmoor.traffic.profile.report import (
    BreakerFound,
    CurvePoint,
    Expected,
    Lengths,
    Named,
    OverTime,
    ReplicaRate,
    Sessions,
    Structured,
    TrafficReport,
)
from unmoor.traffic.reuse.curve import HitRate

_SCALES = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_LISTED = 4
_ALIKE = 0.0005
"""Rates that read the same to a tenth of a per cent."""
_WORTH_ROUTING = 0.02


def tokens_short(tokens: float) -> str:
    """A number of tokens in three digits: "512", "1.3 M"."""
    for scale, letter in _SCALES:
        if tokens >= scale * 0.9995:
            return f"{tokens / scale:.3g} {letter}"
    return f"{tokens:.3g}"


def percent(share: float | None) -> str:
    """A share as a percentage with a tenth; a dash where it is not known."""
    return "–" if share is None else f"{share:.1%}"


def rate_words(rate: HitRate | CurvePoint | ReplicaRate | None) -> str:
    """A rate, or its range where the source is too coarse for one figure; a dash where nothing is known."""
    if rate is None:
        return "–"
    value = rate.value if isinstance(rate, HitRate) else rate.hit_rate
    if value is not None:
        return percent(value)
    if rate.low is None or rate.high is None:
        return "–"
    if rate.high - rate.low < _ALIKE:
        return percent(rate.low)
    return f"{rate.low * 100:.1f}–{rate.high:.1%}"


def seconds(value_s: float) -> str:
    """A duration in the unit that it is told in: "0.4 s", "3 min", "2.1 h"."""
    minute, hour, day = 60, 3600, 86400
    if value_s < 2 * minute:
        return f"{value_s:.3g} s"
    if value_s < 2 * hour:
        return f"{value_s / minute:.3g} min"
    return f"{value_s / hour:.3g} h" if value_s < 2 * day else f"{value_s / day:.3g} days"


def lengths_words(counts: Lengths) -> str:
    """Lengths in one line; that they are unknown where they are."""
    if counts.total is None:
        return "unknown"
    return (
        f"mean {counts.mean:,.0f}, p50 {counts.p50:,.0f}, p95 {counts.p95:,.0f}, max {counts.max:,}; "
        f"{tokens_short(counts.total)} tokens in all"
    )


def size_words(report: TrafficReport) -> str:
    """How many requests over how long, and what was skipped."""
    over = "" if report.duration_s is None else f" over {seconds(report.duration_s)}"
    skipped = f"; {plural(report.skipped_lines, 'broken line')} skipped" if report.skipped_lines else ""
    return f"{_requests(report.requests)}{over}{skipped}"


def _requests(count: int) -> str:
    return f"{count:,} {'request' if count == 1 else 'requests'}"


def arrivals_words(report: TrafficReport) -> str:
    """The rate, how bursty it is, and who ran at a time."""
    if report.arrivals.rps is None:
        return "no rate: the log has no times" if report.duration_s is None else "all at one moment"
    cv = report.arrivals.interarrival_cv
    burst = "" if cv is None else f", gaps vary by {cv:.2f} of their mean (1 is Poisson)"
    running = report.concurrency
    at_once = "" if running is None else f"; {running.mean:.3g} running at a time, at most {running.peak:,}"
    return f"{report.arrivals.rps:.3g} requests/s{burst}{at_once}"


def sessions_words(sessions: Sessions) -> str:
    """Sessions, their turns, and the time between them."""
    pause = sessions.think_s or sessions.between_turns_s
    kind = "to think" if sessions.think_s else "from turn to turn"
    between = f"; {seconds(pause.p50)} {kind} (median)" if pause else ""
    return (
        f"{sessions.count:,} with {sessions.requests_share:.0%} of requests; {sessions.turns.mean:.3g} turns on "
        f"average, p95 {sessions.turns.p95:.3g}, max {sessions.turns.max:,.0f}{between}"
    )


def structured_words(structured: Structured) -> str:
    """The share of structured output, by kind, and how many schemas there are."""
    if not structured.share:
        return "no structured output"
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in structured.kinds.items())
    return f"{structured.share:.1%} structured output ({kinds}; {plural(structured.schemas, 'schema')})"


def named_words(named: Named, noun: str) -> str:
    """How many different names, on which share of requests, and the first of them."""
    if not named.distinct:
        return f"no {noun}s"
    first = ", ".join(f"{count.name} {count.requests:,}" for count in named.top[:_LISTED])
    more = ", …" if named.distinct > _LISTED else ""
    return f"{plural(named.distinct, noun)} on {named.share:.0%} of requests ({first}{more})"


def asks_words(report: TrafficReport) -> list[str]:
    """What requests ask for besides text, one line each; empty where the log does not say."""
    lines = []
    if report.structured is not None:
        lines.append(structured_words(report.structured))
    for named, noun in (
        (report.tools, "tool"),
        (report.adapters, "adapter"),
        (report.tenants, "tenant"),
        (report.models, "model"),
    ):
        if named is not None:
            lines.append(named_words(named, noun))
    if report.sampling is not None:
        said = ", ".join(f"{name} {sum(values.values()):,}" for name, values in report.sampling.items())
        lines.append(f"sampling set: {said or 'none'}")
    return lines


def overlap_sentence(report: TrafficReport) -> str:
    """Prefix overlap in one sentence, with how finely it is known."""
    if report.prefix_overlap is None:
        return f"Unknown: {partly_hidden(report) or 'the source says nothing of what prompts contain'}."
    blocks = ""
    grain = report.grain
    if grain is not None and grain.tokens > 1:
        blocks = f" ({percent(report.prefix_overlap_blocks)} of blocks of {grain.tokens})"
    need = report.working_set_tokens
    room = f"; all of it needs {tokens_short(need)} tokens of KV" if need else ""
    within = "".join(f"; {percent(share)} within each {name}" for name, share in report.overlap_within.items())
    return (
        f"{percent(report.prefix_overlap)} of prompt tokens repeat the start of an earlier prompt"
        f"{for_the_same_model(report.caveats)}, with an unlimited cache{blocks}{within}{room}."
    )


def partly_hidden(report: TrafficReport) -> str:
    """That the prompts of some requests were redacted or not kept, and of how many; empty where not of some."""
    told = next((caveat.text for caveat in report.caveats if caveat.code == "content_partly_unknown"), "")
    return f"the log's prompts are partly redacted or not kept: {told.partition(': ')[0]}" if told else ""


def breakers_scope(report: TrafficReport) -> str:
    """Of which prompts the habits that ruin sharing are said, where that is not all; else empty."""
    hidden = partly_hidden(report)
    return f"Said only of the requests whose prompts have text: {hidden.partition(': ')[2]}." if hidden else ""


def timeline_words(timeline: OverTime) -> str:
    """What concurrency costs, at the capacity that was looked at."""
    text = (
        f"at {tokens_short(timeline.kv_tokens)} tokens {percent(timeline.one_after_another)} one after another, "
        f"{percent(timeline.hit_rate)} as they came"
    )
    if timeline.still_computing and timeline.still_computing >= _ALIKE:
        text += f" ({percent(timeline.still_computing)} was still being computed when wanted)"
    if timeline.waited:
        text += f"; {_requests(timeline.waited)} waited for memory"
    if timeline.too_large:
        text += f"; {_requests(timeline.too_large)} did not fit at all"
    return text


def routings_of(rows: Sequence[ReplicaRate]) -> tuple[list[str], list[tuple[int, list[ReplicaRate]]]]:
    """The routings in order, and for each number of replicas its rates in that order."""
    names = list(dict.fromkeys(row.routing for row in rows))
    fleets = list(dict.fromkeys((row.n, row.kv_tokens) for row in rows))
    return names, [(n, [row for row in rows if (row.n, row.kv_tokens) == (n, kv)]) for n, kv in fleets]


def any_rate(rows: Sequence[ReplicaRate]) -> bool:
    """Whether the log has content, so that replicas have rates to show."""
    return any(row.low is not None for row in rows)


def size_of_pool(of_n: Sequence[ReplicaRate]) -> str:
    """The KV capacity that rows of one fleet have in common."""
    kv_tokens = of_n[0].kv_tokens
    return "–" if kv_tokens is None else tokens_short(kv_tokens)


def breaker_title(what: str) -> str:
    """A habit's code as words."""
    return what.replace("_", " ")


def place_words(where: Place) -> str:
    """Where two prompts first differ."""
    role = f" ({where.role})" if where.role else ""
    one, other = where.lines
    return f"in {where.unit} {where.index}{role} at byte {where.offset_bytes:,}, lines {one:,} and {other:,}"


def breaker_words(found: BreakerFound) -> str:
    """What a habit costs and what mends it."""
    where = f"; first seen {place_words(found.where)}" if found.where else ""
    fix = f". Fix: {found.fix}" if found.fix else ""
    room = f" with {tokens_short(found.kv_tokens)} tokens of KV" if found.kv_tokens else ""
    return (
        f"costs {percent(found.share_lost)} of prompt tokens with an unlimited cache, mending it gains "
        f"{percent(found.gain)}{room}{where}{fix}."
    )


def expected_words(row: Expected) -> str:
    """What an engine is expected to serve in one layout of the plan, with the KV capacity of a replica.

    Of mended prompts, from what the same requests have as they are.
    """
    if row.kv_tokens is None:
        return "unknown"
    before = "" if row.hit_rate_unmended is None else f"{rate_words(row.hit_rate_unmended)} → "
    return f"{before}{rate_words(row.hit_rate)} ({tokens_short(row.kv_tokens)})"


def next_steps(report: TrafficReport) -> list[str]:
    """What to do next, the most telling first."""
    steps = []
    if report.breakers:
        worst = max(report.breakers, key=lambda found: found.gain)
        steps.append(f"Mend {breaker_title(worst.what)}: {percent(worst.gain)} of prompt tokens are to gain.")
    steps += _routing_step(report.replicas)
    if report.grain is not None and report.grain.by == "bytes":
        steps.append("Give --tokenizer, the model's own tokenizer.json or its folder, to count tokens exactly.")
    if report.prefix_overlap is None and partly_hidden(report):
        steps.append("Profile the requests whose prompts were kept in a log of their own, to know their overlap.")
    elif report.prefix_overlap is None:
        steps.append("Profile a log with prompts, or with hashes of their blocks, to know its overlap.")
    elif report.meaning is None or report.meaning.plan is None:
        steps.append("Give --plan PLAN.toml for the hit rate of each engine on your hardware.")
    elif lacking := _lacking_to_decide(report):
        steps.append(lacking)
    else:
        steps.append("unmoor decide on the same plan weighs it with everything else.")
    return steps


def _lacking_to_decide(report: TrafficReport) -> str:
    """What the log lacks for `unmoor decide`, and what works instead; empty where it can be decided on."""
    if report.duration_s is None:
        return "To decide, bring a log with times: this one has none, and unmoor decide needs them."
    known = sum(one.count for one in report.lengths.output_tokens)
    if report.requests - known > FEW_UNKNOWN * report.requests:
        return (
            "unmoor decide also needs how long answers were, which this log does not say: give its plan a gateway's "
            "log with usage blocks, or state the mean as output_tokens of [traffic.synthetic]."
        )
    return ""


def _routing_step(rows: Sequence[ReplicaRate]) -> list[str]:
    """Whether another way of routing than dealing in turn is worth it, at the most replicas that were looked at."""
    most = max((row.n for row in rows), default=0)
    rates = {row.routing: row for row in rows if row.n == most and row.low is not None}
    if len(rates) < 2:  # noqa: PLR2004 - two routings make a difference
        return []
    plain, best = next(iter(rates)), max(rates, key=lambda name: rates[name].low or 0.0)
    if (rates[best].low or 0.0) - (rates[plain].low or 0.0) < _WORTH_ROUTING:
        return []
    room = size_of_pool([rates[best]])
    gained = f"{rate_words(rates[best])} of prompt tokens from cache instead of {rate_words(rates[plain])} {plain}"
    return [f"Route {best} over {most} replicas of {room} KV tokens each: {gained}."]
