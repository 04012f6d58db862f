"""What prefix reuse means for a choice: each engine's hit rate on a plan's hardware, and how far they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import msgspec

from unmoor.choose.dealt_rates import Prompts, all_mended, prompts_of, unmended
from unmoor.choose.prediction.kernel_tables import NoTable, TableFinder, find_table
from unmoor.core.evidence import Caveat
from unmoor.core.hardware import THIS_MACHINE, layouts
from unmoor.core.plan import CandidatePlan, Plan
from unmoor.engines.registry import engine, engine_names
from unmoor.traffic.breakers.mended import Mended
from unmoor.traffic.log import Traffic
from unmoor.traffic.profile.question import EngineBlocks, Fleet
from unmoor.traffic.profile.report import EngineReuse, Expected, Meaning, TrafficReport
from unmoor.traffic.reuse.curve import HitRate

MARGIN = 0.05
"""The share within which a difference is a tie, where no plan says: a plan's own default."""

_LEAST_SAID = 0.001


def engine_blocks(names: Sequence[str] = ()) -> dict[str, EngineBlocks]:
    """What the prefix cache of each engine is made of, as its own file says; of every engine unless named."""
    models = {name: engine(name).scheduler({}) for name in names or engine_names()}
    return {
        name: EngineBlocks(block_tokens=model.kv_block_tokens, prefix_caching=model.prefix_caching)
        for name, model in models.items()
    }


def plan_fleets(plan: Plan, tables: TableFinder) -> tuple[Fleet, ...]:
    """The layouts of the plan's devices, with the KV capacities of the first candidate that has any.

    Empty where nobody knows one.
    """
    for candidate in plan.candidates:
        name = engine(candidate.engine).tables_name or ""
        fleets = []
        for layout in layouts(plan.hardware.count):
            table = tables(plan.model.name, plan.model.weights, plan.hardware.device, name, layout.tp)
            if not isinstance(table, NoTable):
                fleets.append(Fleet(replicas=layout.replicas, kv_tokens=table.kv_tokens))
        if fleets:
            return tuple(fleets)
    return ()


def with_meaning(
    report: TrafficReport,
    traffic: Traffic,
    plan: Plan | None,
    *,
    tables: TableFinder = find_table,
    mended: Mended | None = None,
) -> TrafficReport:
    """The report with what it means: on the plan's hardware, else for the engines at the report's own capacities.

    `mended` are the prompts in which breakers were found, of which the same is asked as they would be without. Without
    content nothing is said. A candidate of unknown KV capacity has None there, and a caveat says why.
    """
    prompts = prompts_of(traffic)
    if prompts is None or report.prefix_overlap is None:
        return report
    if plan is None:
        meaning = meaning_of((), _rates_of_report(report.engines), plan=None, margin=MARGIN, requests=len(prompts))
        if mended is not None:
            meaning = _with_mended(meaning, (), _rates_if_mended(report.engines, all_mended(mended)), len(mended))
        return msgspec.structs.replace(report, meaning=meaning)
    expected = _expected(plan, prompts, tables)
    margin = plan.bakeoff.equivalence_margin
    meaning = meaning_of(expected, _by_layout(expected), plan=plan.name, margin=margin, requests=len(prompts))
    if mended is not None:
        after = _beside_unmended(_expected(plan, all_mended(mended), tables), _expected(plan, unmended(mended), tables))
        meaning = _with_mended(meaning, after, _by_layout(after), len(mended))
    return msgspec.structs.replace(report, meaning=meaning, caveats=(*report.caveats, *_unknowns(expected)))


def _with_mended(
    meaning: Meaning, expected: tuple[Expected, ...], by_layout: Sequence[Mapping[str, HitRate]], requests: int
) -> Meaning:
    """With the same asked of mended prompts, which are the first `requests` of the log."""
    after = meaning_of(expected, by_layout, plan=meaning.plan, margin=meaning.margin, requests=requests)
    of = "" if requests == meaning.requests else f" in the first {requests:,} requests"
    sentence = f"With all that breaks sharing mended{of}, {after.sentence[:1].lower()}{after.sentence[1:]}"
    return msgspec.structs.replace(meaning, mended=msgspec.structs.replace(after, sentence=sentence))


def _beside_unmended(after: tuple[Expected, ...], before: tuple[Expected, ...]) -> tuple[Expected, ...]:
    return tuple(
        msgspec.structs.replace(row, hit_rate_unmended=as_is.hit_rate) for row, as_is in zip(after, before, strict=True)
    )


def _unknowns(expected: Sequence[Expected]) -> list[Caveat]:
    """Where no KV capacity is known: one doubt a layout and reason, with all the engines it holds for."""
    engines: dict[tuple[str, str], list[str]] = {}
    for row in expected:
        if row.reason:
            engines.setdefault((row.layout, row.reason), []).append(engine(row.engine).title)
    return [
        Caveat(
            code="kv_capacity_unknown",
            text=f"KV capacity is not known of {' and '.join(dict.fromkeys(titles))} as {layout}: {reason}.",
        )
        for (layout, reason), titles in engines.items()
    ]


def meaning_of(
    expected: tuple[Expected, ...],
    by_layout: Sequence[Mapping[str, HitRate]],
    *,
    plan: str | None,
    margin: float,
    requests: int,
) -> Meaning:
    """How far engines differ in prompt tokens to compute, over all layouts, against `margin`.

    Two engines are compared within a layout only, where both rates are known.
    """
    differences = [_difference(rates[a], rates[b]) for rates in by_layout for a, b in permutations(rates, 2)]
    least = max((low for low, _ in differences), default=None)
    most = max((high for _, high in differences), default=None)
    could = None if least is None or most is None else True if least > margin else False if most <= margin else None
    return Meaning(
        plan=plan,
        margin=margin,
        expected=expected,
        differ_at_least=least,
        differ_at_most=most,
        could_move_choice=could,
        sentence=_sentence(least, most, could, margin),
        requests=requests,
    )


def _difference(more: HitRate, less: HitRate) -> tuple[float, float]:
    """By how much `less` computes more prompt tokens than `more`, at least and at most; 0 where it does not.

    Both are compared under one reading of the log at a time: that prompts part where it tells blocks apart, which is
    where no block size loses anything, and that they part as late as it allows, where every one loses most.
    """
    pairs = ((1 - less.low, 1 - more.low), (1 - less.high, 1 - more.high))
    ratios = [max(0.0, a / b - 1) if b > 0 else 0.0 if a <= 0 else float("inf") for a, b in pairs]
    return min(ratios), max(ratios)


def _sentence(least: float | None, most: float | None, could: bool | None, margin: float) -> str:  # noqa: FBT001 - three-valued
    if least is None or most is None:
        return "How much prefix reuse could move the choice is not known: no two engines can be compared."
    small = "less than 0.1%" if most < _LEAST_SAID else f"at most {most:.1%}"
    by = small if could is False or least == 0 else f"{least:.1%} to {most:.1%}"
    held = f"in the prompt tokens left to compute, against a margin of {margin:.0%}"
    if could is False:
        return f"Prefix reuse alone cannot move the choice: the engines differ by {by} {held}."
    if could:
        by = f"{most:.1%}" if round(least, 3) == round(most, 3) else by
        return f"Prefix reuse alone could move the choice: the engines differ by {by} {held}."
    return (
        f"Prefix reuse alone may or may not move the choice: the engines differ by {by} {held}; finer data would tell."
    )


def _rates_of_report(engines: Mapping[str, EngineReuse]) -> list[dict[str, HitRate]]:
    """The engines that reuse prefixes, each at its own block size, over the same capacities."""
    on = {name: reuse for name, reuse in engines.items() if reuse.prefix_caching}
    places = range(min((len(reuse.hit_rate_curve) for reuse in on.values()), default=0))
    by_capacity = []
    for place in places:
        at = {name: reuse.hit_rate_curve[place] for name, reuse in on.items()}
        by_capacity.append(
            {
                name: HitRate(value=point.hit_rate, low=point.low, high=point.high)
                for name, point in at.items()
                if point.low is not None and point.high is not None
            }
        )
    return by_capacity


def _rates_if_mended(engines: Mapping[str, EngineReuse], prompts: Prompts) -> list[dict[str, HitRate]]:
    """The same engines over the same capacities, of other prompts."""
    on = {name: reuse for name, reuse in engines.items() if reuse.prefix_caching}
    sizes = [point.kv_tokens for point in next(iter(on.values())).hit_rate_curve] if on else []
    dealt = {name: prompts.dealt(reuse.block_tokens, 1) for name, reuse in on.items()}
    return [{name: one.at(size) for name, one in dealt.items()} for size in sizes]


def _by_layout(expected: Sequence[Expected]) -> list[dict[str, HitRate]]:
    return [_rates_in(expected, layout) for layout in dict.fromkeys(row.layout for row in expected)]


def _rates_in(expected: Sequence[Expected], layout: str) -> dict[str, HitRate]:
    """Candidates of one engine and version are one; of several versions the last stands."""
    return {row.engine: row.hit_rate for row in expected if row.layout == layout and row.hit_rate is not None}


def _expected(plan: Plan, prompts: Prompts, tables: TableFinder) -> tuple[Expected, ...]:
    return tuple(row for candidate in plan.candidates for row in _expected_of(candidate, plan, prompts, tables))


def _expected_of(candidate: CandidatePlan, plan: Plan, prompts: Prompts, tables: TableFinder) -> tuple[Expected, ...]:
    known = engine(candidate.engine)
    model = known.scheduler(candidate.settings)
    hardware, weights = plan.hardware, plan.model.weights
    if hardware.device == THIS_MACHINE:
        reason = "on this machine's processor it is a setting of the bake-off"
        return (_unknown(candidate, model.kv_block_tokens, hardware.device, 1, reason),)
    rows = []
    one_pool = prompts.dealt(model.kv_block_tokens, 1)
    for layout in layouts(hardware.count):
        table = tables(plan.model.name, weights, hardware.device, known.tables_name or "", layout.tp)
        if isinstance(table, NoTable):
            rows.append(_unknown(candidate, model.kv_block_tokens, str(layout), layout.replicas, table.text))
            continue
        dealt = prompts.dealt(model.kv_block_tokens, layout.replicas)
        none = HitRate(value=0.0, low=0.0, high=0.0)
        rows.append(
            Expected(
                engine=candidate.engine,
                block_tokens=model.kv_block_tokens,
                layout=str(layout),
                replicas=layout.replicas,
                kv_tokens=table.kv_tokens,
                hit_rate=dealt.at(table.kv_tokens) if model.prefix_caching else none,
                hit_rate_one_pool=one_pool.at(table.kv_tokens) if model.prefix_caching else none,
            )
        )
    return tuple(rows)


def _unknown(candidate: CandidatePlan, block: int, layout: str, replicas: int, reason: str) -> Expected:
    return Expected(
        engine=candidate.engine,
        block_tokens=block,
        layout=layout,
        replicas=replicas,
        kv_tokens=None,
        hit_rate=None,
        hit_rate_one_pool=None,
        reason=reason,
    )
