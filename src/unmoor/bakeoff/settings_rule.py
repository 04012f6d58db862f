"""Which settings of an engine are tried: a stated rule, from the traffic's own shape. Pure.

1. The engine's own defaults, nothing set (but what the plan pins).
2. One knob at a time, away from its default, the knob that bears most on this traffic first; each knob's first value
   before any knob's second.
3. After that screen: the best value of every knob that helped, together, when more than one did (`combined`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from unmoor.bakeoff.result import DEFAULTS, Trial
from unmoor.core.plan import Setting
from unmoor.core.slo import Slo
from unmoor.core.traffic import TrafficProfile
from unmoor.engines.contract import Engine, Knob

FEWEST = 3
"""At least so many settings of every engine are tried, whatever the plan says."""

_ASSUMED_SERVICE_S = 2.0  # where the SLO bounds nothing that a service time follows from


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What the rule reads of the traffic: shares 0-1, requests in flight, tokens of a long prompt."""

    prefix_overlap: float | None
    concurrency: float
    prompt_tokens: float
    prefill_share: float


def shape_of(profile: TrafficProfile, slo: Slo) -> Shape:
    """The traffic's shape. Requests in flight = offered rate x the service time that the SLO would still allow.

    (Little's law; the service time is the SLO's e2e bound, else TTFT + TPOT x output tokens.) One request without a
    rate is one in flight.
    """
    service_s = slo.e2e_s or (slo.ttft_s or 0.0) + (slo.tpot_s or 0.0) * profile.output_tokens.mean
    rate = profile.offered_rps
    return Shape(
        prefix_overlap=profile.prefix_overlap,
        concurrency=1.0 if rate is None else rate * (service_s or _ASSUMED_SERVICE_S),
        prompt_tokens=profile.input_tokens.p95,
        prefill_share=profile.input_tokens.total / max(1, profile.input_tokens.total + profile.output_tokens.total),
    )


def weight(knob: Knob, shape: Shape) -> float:
    """How much the knob bears on this traffic, 0-1.

    Prefix: the share of all tokens that an earlier prompt also began with. Concurrency: the share of requests in flight
    that are not alone. Prefill: a long prompt as a share of the knob's smallest size worth trying, times the share of
    tokens that are prompt, less what a prefix cache may spare.
    """
    overlap = shape.prefix_overlap or 0.0
    if knob.bears_on == "prefix_overlap":
        return overlap * shape.prefill_share
    if knob.bears_on == "concurrency":
        return max(0.0, 1 - 1 / max(shape.concurrency, 1.0))
    sizes = [float(value) for value in knob.try_values if not isinstance(value, str | bool)]
    fill = min(1.0, shape.prompt_tokens / min(sizes)) if sizes else 1.0
    return fill * shape.prefill_share * (1 - overlap)


def screen(engine: Engine, pinned: Mapping[str, Setting], shape: Shape, *, at_least: int = FEWEST) -> tuple[Trial, ...]:
    """The trials of the screen, defaults first; fewer than `at_least` only where the knobs' values run out.

    A knob that the plan pins is not tried, nor is a value that is the engine's own default.
    """
    trials = [
        Trial(
            engine=engine.name,
            name=DEFAULTS,
            settings=dict(pinned),
            why=f"what {engine.title} does when nobody tunes it{_pinned_words(pinned)}",
        )
    ]
    free = [knob for knob in engine.knobs if knob.name not in pinned]
    ordered = sorted(free, key=lambda knob: -weight(knob, shape))
    for knob, value in _rounds(ordered):
        if len(trials) >= max(at_least, FEWEST):
            break
        trials.append(
            Trial(
                engine=engine.name,
                name=spell({knob.name: value}),
                settings={**pinned, knob.name: value},
                why=_why(knob, value, shape),
                knobs=(knob.name,),
            )
        )
    return tuple(trials)


def _rounds(knobs: Sequence[Knob]) -> Iterator[tuple[Knob, Setting]]:
    values = {knob.name: [value for value in knob.try_values if value != knob.default] for knob in knobs}
    for turn in range(max((len(tried) for tried in values.values()), default=0)):
        yield from ((knob, values[knob.name][turn]) for knob in knobs if turn < len(values[knob.name]))


def combined(trials: Sequence[Trial], helped: Sequence[str]) -> Trial | None:
    """The trial that puts together what helped alone; None unless two knobs or more did.

    `helped` names trials, the best first: of two values of one knob the first stands.
    """
    by_name = {trial.name: trial for trial in trials}
    chosen: dict[str, Setting] = {}
    for trial in (by_name[name] for name in helped):
        if len(trial.knobs) == 1:
            chosen.setdefault(trial.knobs[0], trial.settings[trial.knobs[0]])
    if len(chosen) < 2:  # noqa: PLR2004 - one knob is no combination
        return None
    first = trials[0]
    return Trial(
        engine=first.engine,
        name=spell(chosen),
        settings={**first.settings, **chosen},
        why="each of these helped alone; together they may help more, or stand in each other's way",
        knobs=tuple(chosen),
    )


def spell(settings: Mapping[str, Setting]) -> str:
    """Settings in words that name them: "prefix_caching=true, max_running=4"; "defaults" for none."""
    said = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()]
    return ", ".join(said) or DEFAULTS


def _pinned_words(pinned: Mapping[str, Setting]) -> str:
    return f", beside what the plan pins ({spell(pinned)})" if pinned else ""


def _why(knob: Knob, value: Setting, shape: Shape) -> str:
    default = "its own choice" if knob.default is None else spell({knob.name: knob.default})
    if knob.bears_on == "prefix_overlap":
        share = "an unknown share" if shape.prefix_overlap is None else f"{shape.prefix_overlap:.0%}"
        because = f"{share} of the prompt tokens repeat how an earlier prompt began"
    elif knob.bears_on == "concurrency":
        because = f"about {shape.concurrency:.1f} requests are in flight at once within the SLO"
    else:
        because = (
            f"a long prompt is {shape.prompt_tokens:.0f} tokens, {shape.prefill_share:.0%} of all tokens are prompt"
        )
    return f"{spell({knob.name: value})} instead of {default}: {because}; {knob.trades}"
