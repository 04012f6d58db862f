"""When a predicted figure may carry a value, and when only a range marked unvalidated: one small rule per reason."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from unmoor.core.evidence import Caveat

RATE = "max_rate_at_slo_rps"
TPUT = "output_tput_tps"
TPOT = "tpot_mean_s"
TTFT = "ttft_p95_s"
HIT_RATE = "prefix_hit_rate"
_EVERY = (RATE, TPUT, TPOT, TTFT, HIT_RATE)
_FIRST_TOKEN = (RATE, TTFT)

SHORT_PROMPT_TOKENS = 4000
HIGH_HIT_RATE = 0.5
MINORS_APART = 3


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules look at.

    `measured_rows` are others' measured runs of this model, device and engine against which the error is known.
    `version` is the engine's in question, `tables_version` the one whose kernels were timed. `uncached_tokens` is the
    mean of prompt tokens not taken from the cache. `saturated` is whether KV memory ran out at the traffic's own rate.
    """

    title: str
    device: str
    measured_rows: int
    version: str
    tables_version: str
    uncached_tokens: float
    hit_rate: float
    saturated: bool


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Takes the value from `metrics` where `applies`; `reason` is one sentence that says why."""

    code: str
    metrics: tuple[str, ...]
    applies: Callable[[Case], bool]
    reason: Callable[[Case], str]


def minors_apart(one: str, other: str) -> int | None:
    """How many minor releases lie between two versions; None across a major release, or where either says none."""
    found = [re.match(r"v?(\d+)\.(\d+)", version) for version in (one, other)]
    if found[0] is None or found[1] is None or found[0][1] != found[1][1]:
        return None
    return abs(int(found[0][2]) - int(found[1][2]))


def _always(_: Case) -> bool:
    return True


def _nobody_measured(case: Case) -> bool:
    return case.measured_rows == 0


def too_far(case: Case) -> bool:
    """Whether the tables' version is too far from the one in question for any figure to count as validated."""
    apart = minors_apart(case.version, case.tables_version)
    return apart is None or apart > MINORS_APART


def _short_prompts(case: Case) -> bool:
    return case.uncached_tokens < SHORT_PROMPT_TOKENS


def _high_hit_rate(case: Case) -> bool:
    return case.hit_rate > HIGH_HIT_RATE


def _saturated(case: Case) -> bool:
    return case.saturated


RULES = (
    Rule(
        code="tail_unmeasured",
        metrics=_FIRST_TOKEN,
        applies=_always,
        reason=lambda _: (
            "No public measurement of tail latency under open-loop traffic of this kind was found: the error of a "
            "predicted tail, and of the rate that a tail allows, is not known, and only ranges are given."
        ),
    ),
    Rule(
        code="hit_rate_unmeasured",
        metrics=(HIT_RATE,),
        applies=_always,
        reason=lambda _: (
            "The error of the simulated cache hit rate is not known; it depends on the router and on KV memory."
        ),
    ),
    Rule(
        code="tput_is_offered",
        metrics=(TPUT,),
        applies=_always,
        reason=lambda _: (
            "Output throughput at the traffic's own rate is what the traffic asks for, as long as it is carried: it "
            "says nothing of the engine."
        ),
    ),
    Rule(
        code="no_error_rows",
        metrics=_EVERY,
        applies=_nobody_measured,
        reason=lambda case: (
            f"No public measured run of this model with {case.title} on {case.device} was found to compare with: every "
            "predicted figure is a range without validation."
        ),
    ),
    Rule(
        code="tables_lag",
        metrics=_EVERY,
        applies=too_far,
        reason=lambda case: (
            f"The kernel times are those of {case.title} {case.tables_version}, more than {MINORS_APART} minor "
            f"releases from {case.version}: no figure counts as validated."
        ),
    ),
    Rule(
        code="short_prompts",
        metrics=_FIRST_TOKEN,
        applies=_short_prompts,
        reason=lambda case: (
            f"After the cache {case.uncached_tokens:,.0f} tokens of a prompt remain on average; below "
            f"{SHORT_PROMPT_TOKENS:,} the host's own work, which no table holds, is a large part of TTFT."
        ),
    ),
    Rule(
        code="high_hit_rate",
        metrics=_FIRST_TOKEN,
        applies=_high_hit_rate,
        reason=lambda case: (
            f"{case.hit_rate:.0%} of prompt tokens come from the cache: TTFT is then in large part host work, which no "
            "table holds."
        ),
    ),
    Rule(
        code="kv_saturated",
        metrics=_EVERY,
        applies=_saturated,
        reason=lambda _: (
            "KV memory runs out at the traffic's own rate; past that point measured runs were several times slower "
            "than predicted ones."
        ),
    ),
)


def unvalidated(metric: str, case: Case) -> tuple[Rule, ...]:
    """The rules that take the value from `metric`; none means that it may carry one."""
    return tuple(rule for rule in RULES if metric in rule.metrics and rule.applies(case))


def doubts(metrics: tuple[str, ...], case: Case) -> tuple[Caveat, ...]:
    """One caveat for each rule that takes a value from any of `metrics`, in the order of the rules."""
    return tuple(
        Caveat(code=rule.code, text=rule.reason(case))
        for rule in RULES
        if set(metrics) & set(rule.metrics) and rule.applies(case)
    )
