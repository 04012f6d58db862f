"""Neutral knobs to an engine's own words."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.core.errors import UsageError
from unmoor.core.nearest import did_you_mean
from unmoor.core.plan import Setting
from unmoor.engines.contract import Knob, Settings


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
