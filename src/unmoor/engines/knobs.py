"""The neutral knobs, each defined once, and their way into an engine's own words."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.core.errors import UsageError
from unmoor.core.nearest import did_you_mean
from unmoor.core.plan import Setting
from unmoor.engines.contract import Knob, Settings


def max_running(flag: str, default: int | None, try_values: tuple[int, ...]) -> Knob:
    """How many requests are decoded together; `default` None is computed by the engine from the memory left."""
    trades = "requests decoded together: throughput against the speed of each"
    return Knob(
        name="max_running", flag=flag, default=default, try_values=try_values, trades=trades, bears_on="concurrency"
    )


def max_batch_tokens(flag: str, default: int, try_values: tuple[int, ...]) -> Knob:
    """How many tokens one iteration holds."""
    trades = "prefill in large pieces against short pauses for those who decode"
    return Knob(
        name="max_batch_tokens", flag=flag, default=default, try_values=try_values, trades=trades, bears_on="prefill"
    )


def prefix_caching(flag: str, *, default: bool) -> Knob:
    """Whether KV of a prompt's beginning is kept for later prompts that begin alike."""
    trades = "memory and bookkeeping against prefill that need not be repeated"
    return Knob(
        name="prefix_caching",
        flag=flag,
        default=default,
        try_values=(not default,),
        trades=trades,
        bears_on="prefix_overlap",
    )


def chunked_prefill(flag: str, *, default: bool) -> Knob:
    """Whether a prompt is read in pieces."""
    trades = "prompts cut into pieces beside decodes, against whole prompts that make others wait"
    return Knob(
        name="chunked_prefill",
        flag=flag,
        default=default,
        try_values=(not default,),
        trades=trades,
        bears_on="prefill",
    )


def refuse_unknown(title: str, knobs: Sequence[Knob], settings: Settings) -> None:
    """Raises UsageError, with the nearest knob, for a setting that is no knob, or of another type than the knob's."""
    by_name = {knob.name: knob for knob in knobs}
    for name, value in settings.items():
        if name not in by_name:
            raise UsageError(
                f"{title} has no knob '{name}'",
                seen=name,
                expected=f"one of {', '.join(by_name)}",
                hint=did_you_mean(name, by_name),
            )
        _refuse_type(title, by_name[name], value)


def flag_words(knobs: Sequence[Knob], settings: Settings) -> tuple[str, ...]:
    """The settings as words of a command line whose yes-or-no flags have a `--no-` form, in the order of the knobs."""
    words: list[str] = []
    for knob in knobs:
        value = settings.get(knob.name)
        if isinstance(value, bool):
            words.append(knob.flag if value else f"--no-{knob.flag.removeprefix('--')}")
        elif value is not None:
            words += [knob.flag, str(value)]
    return tuple(words)


def _refuse_type(title: str, knob: Knob, value: Setting) -> None:
    wanted = type(knob.try_values[0])
    if type(value) is not wanted or (wanted is int and int(value) < 1):
        raise UsageError(
            f"{title}: '{knob.name}' cannot be {value!r}",
            seen=repr(value),
            expected="true or false" if wanted is bool else "a whole number from 1",
            hint=f"for example {knob.try_values[0]!r}",
        )
