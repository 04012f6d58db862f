"""How tokens are drawn where requests do not say: by the model's own settings, the engine's, or neutral ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unmoor.engines.surface.surface import Source, Surface
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import number
from unmoor.leave.uses import ABSENT, Place, Rows

DEFAULTS = Kind(
    id="UM111",
    name="model-sampling-defaults",
    title="Sampling that requests leave to defaults, which differ",
    bites="Some engines take temperature, top_p and top_k from the model's generation_config.json where a request "
    "names none, some take neutral values, one has its own. The same request is drawn otherwise, and scores move.",
    look="Requests that leave them out are counted. Where the model is brought, the values that each side would take "
    "are compared; else whether both take the model's.",
    mend="Send the values explicitly, or start the target so that it takes the same.",
    threads=threads(
        "NVIDIA-NeMo/RL#3497",
        "vllm-project/vllm#15241",
        "EleutherAI/lm-evaluation-harness#3154",
        "OpenPipe/ART PR#140",
    ),
)
_NEUTRAL: Mapping[str, float] = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
_DRAWN = ("temperature", "top_p", "top_k")


@dataclass(frozen=True, slots=True)
class _Default:
    """What one engine takes for a parameter that a request leaves out; `value` None where the model would say.

    `of_model`: whether what the model's files say goes first; `flag` is what changes that.
    """

    value: float | None
    of_model: bool
    flag: str
    sources: tuple[Source, ...]


def _look(case: Case) -> Iterator[Hit]:
    if case.stays:
        return
    for place in ("chat", "completions"):
        yield from _left_out(case, place)
    if case.uses.which("temperature", ABSENT, places=("responses",)):
        case.skipped("responses without temperature: which default holds is not in the surfaces")


def _left_out(case: Case, place: Place) -> Iterator[Hit]:
    """Parameters that requests of one endpoint leave out, and that the sides fill differently."""
    greedy = case.uses.pair("greedy")
    changed: list[tuple[str, _Default, _Default, Rows]] = []
    for name in _DRAWN:
        rows = case.uses.which(name, ABSENT, places=(place,))
        rows = rows if name == "temperature" else rows.without(greedy)
        if not rows:
            continue
        here, there = _default(case, case.source, place, name), _default(case, case.target, place, name)
        if here is None or there is None:
            title = " and ".join(one.title for one, it in ((case.source, here), (case.target, there)) if it is None)
            case.skipped(f"{place} without {name}: what {title} takes is not known")
        elif here.value != there.value:
            changed.append((name, here, there, rows))
    if changed:
        yield _changed(case, place, changed)


def _default(case: Case, one: Surface, place: Place, name: str) -> _Default | None:
    """What `one` takes for `name` where a request of this endpoint leaves it out; None where that is not known."""
    of_model = one.traits.get("model_sampling_defaults" if place == "chat" else "model_sampling_defaults_completions")
    own = one.traits.get(f"missing_{name}")
    if of_model is None or own is None:
        return None
    sources = tuple(dict.fromkeys((one.source_of(of_model), one.source_of(own))))
    fallback = number(own.value)
    value = _NEUTRAL[name] if fallback is None else float(fallback)
    if of_model.value != "yes":
        return _Default(value, of_model=False, flag=of_model.flag, sources=sources)
    if case.model is None:
        return _Default(None if fallback is None else value, of_model=True, flag=of_model.flag, sources=sources)
    by_model = _plain(case.model.generation.get(name))
    told = value if by_model is None else _off(name, by_model)
    return _Default(told, of_model=True, flag=of_model.flag, sources=sources)


def _plain(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _off(name: str, value: float) -> float:
    """A value, with the ways to switch top_k off made one."""
    return 0.0 if name == "top_k" and value <= 0 else float(value)


def _changed(case: Case, place: Place, changed: list[tuple[str, _Default, _Default, Rows]]) -> Hit:
    source, target = case.source, case.target
    parts = [
        f"{name} {_told(name, here)} on {source.title}, {_told(name, there)} there" for name, here, there, _ in changed
    ]
    known = [f"{name} = {_sent(target, name, here.value)}" for name, here, _, _ in changed if here.value is not None]
    flags = dict.fromkeys(there.flag for _, here, there, _ in changed if there.flag and here.of_model != there.of_model)
    by_model = any(here.value is None for _, here, _, _ in changed)
    send = f"Send {', '.join(known)}" if known else "Send what the model's generation_config.json says"
    if known and by_model:
        send += ", and what the model's generation_config.json says"
    by_flag = f"; or start {target.title} with {' or '.join(flags)}" if flags else ""
    return hit(
        DEFAULTS,
        "translated",
        "warning",
        features=[f"{place}.{name}" for name, *_ in changed],
        rows=Rows.union(rows for *_, rows in changed),
        seen=f"Left out in {place}: {'; '.join(parts)}.",
        fix=f"{send}{by_flag}.",
        sources=tuple(dict.fromkeys(one for _, here, there, _ in changed for one in (*here.sources, *there.sources))),
    )


def _told(name: str, default: _Default) -> str:
    if default.value is None:
        return "as the model says"
    return "off" if name == "top_k" and default.value == 0 else f"{default.value:g}"


def _sent(target: Surface, name: str, value: float) -> str:
    """The value as the target takes it: what switches top_k off is not the same everywhere."""
    domain = target.domains.get(name)
    return str(domain.off[0]) if name == "top_k" and value == 0 and domain and domain.off else f"{value:g}"


CHECK = Check(kinds=(DEFAULTS,), look=_look)
