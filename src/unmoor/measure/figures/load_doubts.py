"""What is doubtful of a load: reasons for which no figure may be used, and caveats that travel with the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from unmoor.core.evidence import Caveat
from unmoor.core.plural import plural
from unmoor.core.quantile_interval import fewest_for, quantile_interval
from unmoor.core.record import Outcome, Record, scheduled_ttft_s, ttft_s
from unmoor.core.slo import Slo
from unmoor.core.stats import quantile
from unmoor.measure.client.load import Pacing, ReplayReport
from unmoor.measure.client.replay import CLIENT_SHARE
from unmoor.measure.headroom.headroom import Headroom, headroom_caveats
from unmoor.measure.server.server_report import ServerReport, hit_rate_doubts, server_caveats

RATE_SHARE = 0.01
"""So far may the rate of sending be from the schedule's; a run beyond it is void."""
GROWTH = 1.5
"""A run whose median time to first token grows by more than this from its first quarter to its last is unsteady."""
_APART_S = 0.05
"""In a run of few seconds one request that is a little late moves the rate: so much in all is no missed rate."""
_MET_SHARE = 0.01
_LATE_S = 0.005
"""So late may the client be without a word: a machine's own noise."""
_FEWEST_FOR_A_RATE = 20
_FEWEST_FOR_A_TREND = 40
_CLIENT_BOUND = "client_bound"
_AT_ITS_LENGTH = frozenset({"length", "max_output_tokens"})


class Beside(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out beside the load itself; each None where nobody looked.

    `server` is its own account. `shared_at_most` is the share of prompt tokens that a cache can know from this load.
    """

    server: ServerReport | None = None
    watched: bool = False
    shared_at_most: float | None = None
    headroom: Headroom | None = None


def void_by(
    replay: ReplayReport, counted: Sequence[Record], records: Sequence[Record], beside: Beside, slo: Slo | None
) -> tuple[Caveat, ...]:
    """Why no figure of this run may be used; `counted` are those of its `records` that are in the window."""
    reasons = [caveat for caveat in replay.caveats if caveat.code == _CLIENT_BOUND]
    bounds = [] if slo is None else [bound for bound in (slo.ttft_s, slo.tpot_s, slo.e2e_s) if bound is not None]
    if bounds:
        reasons += _stood_still(replay, counted, max(CLIENT_SHARE * min(bounds), _LATE_S), code=_CLIENT_BOUND)
    if not counted:
        said = "no request was due between warm-up and cool-down"
        reasons.append(Caveat(code="nothing_measured", text=f"{said}, so there is nothing to say of the target."))
    offered, achieved = replay.offered_rps, replay.achieved_rps
    unsent = any(record.sent_at_ns is None for record in records)  # refused by the server: not the client's doing
    if offered and achieved and replay.requests >= _FEWEST_FOR_A_RATE and not (replay.partial or unsent):
        off = achieved / offered - 1
        apart_s = (replay.requests - 1) * abs(1 / achieved - 1 / offered)
        if abs(off) > RATE_SHARE and apart_s > _APART_S:
            text = f"{achieved:.3g} requests/s were sent where {offered:.3g} were due: {off:+.1%}."
            reasons.append(Caveat(code="rate_missed", text=text))
    void, _ = hit_rate_doubts(beside.shared_at_most, _hit_rate(records, beside))
    return (*reasons, *void)


def load_caveats(
    replay: ReplayReport,
    pacing: Pacing,
    input_tokens: Mapping[int, int],
    counted: Sequence[Record],
    *,
    records: Sequence[Record],
    beside: Beside,
    slo: Slo | None,
) -> tuple[Caveat, ...]:
    """The doubts that stand beside the figures; `input_tokens` are those planned, by index."""
    _, below = hit_rate_doubts(beside.shared_at_most, _hit_rate(records, beside))
    ok = [record for record in counted if record.ok]
    return (
        *(caveat for caveat in replay.caveats if caveat.code != _CLIENT_BOUND),
        *_late(replay, counted),
        *([] if slo is not None else _stood_still(replay, counted, _noticeable_s(counted), code="client_stalled")),
        *_closed_loop(pacing),
        *_cancelled(records),
        *_few(ok),
        *_of_counts(ok, input_tokens),
        *_cut_short(ok),
        *_unsteady(counted),
        *below,
        *_of_the_server(records, beside),
        *(_headroom(counted) if beside.headroom is None else headroom_caveats(beside.headroom)),
    )


def hit_rate_of(records: Sequence[Record]) -> float | None:
    """The cached share of the prompt tokens of whole answers, as the server tells it; None where it does not of one."""
    counts = [(record.cached_tokens, record.input_tokens) for record in records if record.ok]
    cached = [tokens for tokens, _ in counts if tokens is not None]
    asked = [tokens for _, tokens in counts if tokens is not None]
    if not sum(asked) or not len(cached) == len(asked) == len(counts):
        return None
    return sum(cached) / sum(asked)


def _hit_rate(records: Sequence[Record], beside: Beside) -> float | None:
    """Of the whole load, not of the window: what the window found may be of its warm-up."""
    told = hit_rate_of(records)
    return told if told is not None or beside.server is None else beside.server.prefix_hit_rate


def _of_the_server(records: Sequence[Record], beside: Beside) -> tuple[Caveat, ...]:
    if beside.server is not None:
        return server_caveats(beside.server, records)
    if not beside.watched:
        return ()
    text = "The server has no metrics of an engine that is known, or did not give them: its queue was not seen."
    return (Caveat(code="no_server_metrics", text=text),)


def _noticeable_s(counted: Sequence[Record]) -> float:
    """What error of the client's is to be told where no SLO says: 5 % of what was measured, and more than noise."""
    median_s = quantile([found for record in counted if (found := ttft_s(record)) is not None], 0.5)
    return max(CLIENT_SHARE * (median_s or 0.0), _LATE_S)


def _late(replay: ReplayReport, counted: Sequence[Record]) -> tuple[Caveat, ...]:
    """That the client was late for what it measured, whatever the SLO bounds, or where there is none."""
    median_s = quantile([found for record in counted if (found := ttft_s(record)) is not None], 0.5)
    p99_s = replay.send_lag_p99_s
    if median_s is None or p99_s is None or p99_s <= max(CLIENT_SHARE * median_s, _LATE_S):
        return ()
    text = (
        f"The client itself sent late, by {1000 * p99_s:,.1f} ms in its p99: more than {CLIENT_SHARE:.0%} of the "
        f"{1000 * median_s:,.0f} ms in which half of the first tokens came. Latencies from due have that in them."
    )
    return (Caveat(code="client_late", text=text),)


def _stood_still(replay: ReplayReport, counted: Sequence[Record], longer_than_s: float, *, code: str) -> list[Caveat]:
    """That the client itself did nothing for a while, more than once in a hundred answers.

    What came meanwhile on one connection was read at once, and has the time of its last byte: a first token may be
    told too late, and the gaps after it too short.
    """
    long = [(start, end) for start, end in replay.stood_still_ns if end - start > longer_than_s * 1e9]
    if not long:
        return []
    starts, ends = np.array([start for start, _ in long]), np.array([end for _, end in long])
    answers = [
        (one.sent_at_ns, one.closed_at_ns)
        for one in counted
        if one.sent_at_ns is not None and one.closed_at_ns is not None
    ]
    met = sum(int(np.searchsorted(starts, end)) > int(np.searchsorted(ends, start)) for start, end in answers)
    if met <= _MET_SHARE * len(answers):
        return []
    most_ms = float((ends - starts).max()) / 1e6
    text = (
        f"The client itself stood still, up to {most_ms:,.0f} ms, while {met:,} of {plural(len(answers), 'answer')} "
        "came: of what came meanwhile only the last has its own time, so that first tokens may be told too late and "
        "gaps too short."
    )
    return [Caveat(code=code, text=text)]


def _closed_loop(pacing: Pacing) -> tuple[Caveat, ...]:
    if pacing.concurrency is None:
        return ()
    text = (
        f"{plural(pacing.concurrency, 'user')} waited for {'their answers' if pacing.concurrency > 1 else 'answers'}: "
        "a slower engine is asked less often, so these latencies are not those of traffic that comes at its own rate."
    )
    return (Caveat(code="closed_loop", text=text),)


def _cancelled(records: Sequence[Record]) -> tuple[Caveat, ...]:
    count = sum(record.outcome is Outcome.CANCELLED for record in records)
    if not count:
        return ()
    text = (
        f"{plural(count, 'request')} in flight when it was stopped are in no figure: slow ones are likelier among them."
    )
    return (Caveat(code="cancelled_in_flight", text=text),)


def _few(ok: Sequence[Record]) -> tuple[Caveat, ...]:
    if not ok or len(ok) >= fewest_for(0.95):
        return ()
    text = (
        f"{plural(len(ok), 'answer')} are too few for an upper bound of a p95: it takes {fewest_for(0.95)}, "
        f"of a p99 {fewest_for(0.99)}."
    )
    return (Caveat(code="few_requests", text=text),)


def _of_counts(ok: Sequence[Record], input_tokens: Mapping[int, int]) -> list[Caveat]:
    found = []
    if any(record.output_tokens is None for record in ok):
        text = "The server did not count the tokens of some answers: figures that need them are left out."
        found.append(Caveat(code="usage_not_reported", text=text))
    recounted = sum(record.tokens_from == "tokenizer" for record in ok)
    if recounted:
        text = (
            f"The server did not count the tokens of {plural(recounted, 'answer')}: the tokenizer named here counted "
            "their text, in which marks that are not text are missing."
        )
        found.append(Caveat(code="tokens_recounted", text=text))
    odd = sum(record.input_tokens not in {None, input_tokens.get(record.index)} for record in ok)
    if odd:
        text = (
            f"By the server's own count {plural(odd, 'prompt')} of {len(ok):,} were not as long as planned: its "
            "tokenizer splits some of the words in two, its template adds other tokens to each, or a prompt's last "
            "part is shorter than what the template adds."
        )
        found.append(Caveat(code="prompt_lengths_differ", text=text))
    silent = sum(not record.chunk_at_ns and bool(record.output_tokens) for record in ok)
    if silent:
        text = (
            f"{plural(silent, 'answer')} had tokens by the server's count and none that was seen: they have no time to "
            "first token, and miss an SLO that bounds it."
        )
        found.append(Caveat(code="no_content", text=text))
    several = sum((record.output_tokens or 0) > len(record.chunk_at_ns) > 0 for record in ok)
    if 2 * several > len(ok):
        text = "Most answers had several tokens in a chunk: itl_s is between chunks, tpot_s between tokens."
        found.append(Caveat(code="tokens_share_chunks", text=text))
    return found


def _cut_short(ok: Sequence[Record]) -> tuple[Caveat, ...]:
    """That answers have not the form asked for because they came to their length: no fault of the server's."""
    amiss = [record for record in ok if record.valid is False]
    cut = sum(record.finish_reason in _AT_ITS_LENGTH for record in amiss)
    if not cut:
        return ()
    text = (
        f"Of {plural(len(amiss), 'answer')} without the form asked for {cut:,} ended at their length: longer ones "
        "(--output-tokens, or the log's own) would tell what the server makes of it."
    )
    return (Caveat(code="form_cut_short", text=text),)


def _unsteady(counted: Sequence[Record]) -> tuple[Caveat, ...]:
    """That time to first token grew during the run: a queue that builds up has no quantile of its own."""
    timed = [(record.scheduled_at_ns, scheduled_ttft_s(record)) for record in counted]
    in_order = [ttft for _, ttft in sorted(timed, key=lambda pair: pair[0]) if ttft is not None]
    if len(in_order) < _FEWEST_FOR_A_TREND:
        return ()
    quarters = np.array_split(np.array(in_order), 4)
    first, last = (quantile_interval(list(quarters[place]), 0.5) for place in (0, -1))
    if first is None or last is None or first.high is None or last.low is None:
        return ()
    if last.value <= GROWTH * first.value or last.low <= first.high:
        return ()
    text = (
        f"The median time to first token grew from {1000 * first.value:,.0f} ms in the first quarter to "
        f"{1000 * last.value:,.0f} ms in the last: the target could not keep up, and a longer run would say more."
    )
    return (Caveat(code="unsteady", text=text),)


def _headroom(counted: Sequence[Record]) -> tuple[Caveat, ...]:
    if not counted:
        return ()
    text = "How much more this machine's client could have carried was not measured."
    return (Caveat(code="headroom_unknown", text=text),)
