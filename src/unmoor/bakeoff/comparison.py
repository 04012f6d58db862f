"""Two settings compared request by request, and which settings are best. Pure.

Pairs are requests of one index in one repeat: the same prompt at the same place of the same schedule. The interval is
taken over pairs in blocks (`core.resampling`): repeats are drawn first, so that an effect which only one restart of
an engine shows has no separated interval, then runs of neighbours, since a queue makes neighbours alike. With as few
repeats as a bake-off has, that alone would call a machine's mood an effect: so nothing is better or worse on one
repeat, and the repeats must agree, their mean effect being over twice its standard error between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from unmoor.bakeoff.figures import Terms, counted
from unmoor.bakeoff.result import DEFAULTS, Block, Comparison, Finding
from unmoor.core.record import Record, meets, scheduled_e2e_s, scheduled_ttft_s
from unmoor.core.resampling import blocked_draws, interval
from unmoor.core.stats import Interval, mean_of

Pair = tuple[Record, Record]

_FEWEST_REPEATS = 2
_STANDARD_ERRORS = 2.0
_SHORTEST_S = 1e-6  # a duration below the clock's worth; keeps the logarithm finite

DURATIONS: dict[str, Callable[[Record], float | None]] = {
    "scheduled_e2e_s": scheduled_e2e_s,
    "scheduled_ttft_s": scheduled_ttft_s,
}
"""What is compared as a ratio, the one that decides first."""


def compare(before: Sequence[Block], after: Sequence[Block], terms: Terms, *, margin: float) -> tuple[Comparison, ...]:
    """`after` against `before`: SLO attainment as a difference, then each duration as a ratio.

    Swapping the two turns every effect round (difference negated, ratio inverted, better and worse exchanged).
    """
    repeats = _pairs(before, after, terms.left_out)
    flat = [pair for pairs in repeats for pair in pairs]
    names = (_name(before), _name(after))
    gains = [[float(meets(b, terms.slo)) - float(meets(a, terms.slo)) for a, b in pairs] for pairs in repeats]
    attainment = _comparison("slo_attainment", names, flat, _seen(gains, terms.seed), margin=margin, kind="difference")
    durations = [
        _comparison(metric, names, flat, _seen(_log_ratios(repeats, of), terms.seed), margin=margin, kind="ratio")
        for metric, of in DURATIONS.items()
    ]
    return (attainment, *durations)


def beats(comparisons: Sequence[Comparison]) -> bool:
    """Whether `after` stands above `before`: it meets the SLO more often, or as often and is done sooner.

    Attainment comes first; the end-to-end time decides only where attainment did not get worse.
    """
    attainment = next(found for found in comparisons if found.metric == "slo_attainment")
    time = next(found for found in comparisons if found.metric == "scheduled_e2e_s")
    return attainment.finding is Finding.BETTER or (
        attainment.finding is not Finding.WORSE and time.finding is Finding.BETTER
    )


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """Which trial is best, why, and which trials beat the defaults, the best first."""

    best: str
    because: str
    helped: tuple[str, ...]


def standing(trials: Sequence[Sequence[Block]], terms: Terms, *, margin: float) -> Standing:
    """The best of an engine's trials, the first of which is its defaults.

    Of the trials that beat the defaults, highest attainment first, then the lowest mean end-to-end time; one that the
    leader does not beat and that turns fewer knobs takes its place. With none that beats them the defaults stand: a
    tie goes to what needs no flag. A trial with no record is passed over.
    """
    defaults = trials[0]
    rivals = [blocks for blocks in trials[1:] if any(block.records for block in blocks)]
    ahead = [blocks for blocks in rivals if beats(compare(defaults, blocks, terms, margin=margin))]
    ahead.sort(key=lambda blocks: _rank(blocks, terms))
    if not ahead:
        return Standing(best=_name(defaults), because="nothing tried was better by more than the margin", helped=())
    leader = ahead[0]
    for simpler in ahead[1:]:
        fewer = _knobs(simpler) < _knobs(leader)
        if fewer and not beats(compare(simpler, leader, terms, margin=margin)):
            leader = simpler
    return Standing(
        best=_name(leader),
        because="it beat the defaults" if len(ahead) == 1 else f"it led the {len(ahead)} that beat the defaults",
        helped=tuple(_name(blocks) for blocks in ahead),
    )


def _name(blocks: Sequence[Block]) -> str:
    return blocks[0].trial if blocks else ""


def _knobs(blocks: Sequence[Block]) -> int:
    name = _name(blocks)
    return 0 if name == DEFAULTS else name.count(",") + 1


def _rank(blocks: Sequence[Block], terms: Terms) -> tuple[float, float]:
    flat = [record for block in blocks for record in counted(block, terms.left_out)]
    met = sum(meets(record, terms.slo) for record in flat) / len(flat)
    times = [scheduled_e2e_s(record) for record in flat]
    return -met, float(np.mean([math.inf if seen is None else seen for seen in times]))


def _pairs(before: Sequence[Block], after: Sequence[Block], left_out: int) -> list[list[Pair]]:
    """Pairs per repeat that both have, in order of index."""
    there = {block.repeat: {record.index: record for record in counted(block, left_out)} for block in before}
    here = {block.repeat: {record.index: record for record in counted(block, left_out)} for block in after}
    found = []
    for repeat in sorted(there.keys() & here.keys()):
        shared = sorted(there[repeat].keys() & here[repeat].keys())
        found.append([(there[repeat][index], here[repeat][index]) for index in shared])
    return [pairs for pairs in found if pairs]


def _log_ratios(repeats: Sequence[Sequence[Pair]], of: Callable[[Record], float | None]) -> list[list[float]]:
    found = []
    for pairs in repeats:
        both = [(of(a), of(b)) for a, b in pairs]
        found.append(
            [
                math.log(max(b, _SHORTEST_S)) - math.log(max(a, _SHORTEST_S))
                for a, b in both
                if a is not None and b is not None
            ]
        )
    return found


class _Seen(msgspec.Struct, frozen=True):
    """A mean effect with its interval, and whether repeats agree on it."""

    mean: Interval
    agreed: bool


def _seen(values: Sequence[Sequence[float]], seed: int) -> _Seen | None:
    flat = [value for block in values for value in block]
    if not flat:
        return None
    found = interval(flat, mean_of, blocked_draws([len(block) for block in values], seed=seed))
    return _Seen(found, _agreed([float(np.mean(block)) for block in values if block]))


def _agreed(effects: Sequence[float]) -> bool:
    """Whether there are repeats enough, and their mean effect is over twice its standard error between them."""
    if len(effects) < _FEWEST_REPEATS:
        return False
    error = float(np.std(effects, ddof=1)) / math.sqrt(len(effects))
    return abs(float(np.mean(effects))) > _STANDARD_ERRORS * error


def _comparison(
    metric: str, names: tuple[str, str], pairs: Sequence[Pair], seen: _Seen | None, *, margin: float, kind: str
) -> Comparison:
    failed_before = sum(not a.ok for a, _ in pairs)
    failed_after = sum(not b.ok for _, b in pairs)
    found = seen.mean if seen else None
    finding = Finding.NO_EFFECT
    if seen is not None and kind == "difference":
        finding = _finding(seen.mean, margin, agreed=seen.agreed)
    elif seen is not None:
        # A shorter time is better, so the sign turns. A setting that fails more is never faster by that.
        finding = _finding(_negated(seen.mean), math.log1p(margin), agreed=seen.agreed)
        winner_failed_more = {
            Finding.BETTER: failed_after > failed_before,
            Finding.WORSE: failed_before > failed_after,
        }
        if winner_failed_more.get(finding, failed_before != failed_after):
            finding = Finding.NO_EFFECT
    shown = math.exp if kind == "ratio" else float
    return Comparison(
        metric=metric,
        before=names[0],
        after=names[1],
        effect=None if found is None else shown(found.value),
        low=None if found is None else shown(found.low),
        high=None if found is None else shown(found.high),
        kind=kind,
        pairs=0 if found is None else found.n,
        failed_before=failed_before,
        failed_after=failed_after,
        margin=margin,
        finding=finding,
    )


def _negated(found: Interval) -> Interval:
    return Interval(value=-found.value, low=-found.high, high=-found.low, n=found.n)


def _finding(gain: Interval, margin: float, *, agreed: bool) -> Finding:
    """What a gain amounts to.

    Better or worse: the interval leaves out zero, the gain is beyond the margin, and the repeats agree. Tie: the whole
    interval, or a gain that is separated from zero, is within the margin. Else no effect was shown.
    """
    if gain.excludes(0.0) and abs(gain.value) > margin:
        if not agreed:
            return Finding.NO_EFFECT
        return Finding.BETTER if gain.value > 0 else Finding.WORSE
    within = -margin <= gain.low and gain.high <= margin
    return Finding.TIE if within or gain.excludes(0.0) else Finding.NO_EFFECT
