"""Logs with and without habits that ruin prefix sharing, made from a seed: nothing in them is anybody's text.

A log is a stack of choices: how its system prompt is written, how its requests look, and which habits it has, each at a
strength and a place. Styles held out are others than those on which the thresholds of the kinds were set: other
languages, layouts, formats of dates and ids, ways to list examples, and clean logs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from breakers_clean import CLEAN, CLEAN_HELD_OUT
from breakers_habits import Habits, Log, Maker
from breakers_text import Writer


@dataclass(frozen=True)
class Case:
    """One log, by name, with the codes of the habits that were put into it; `held_out` where its style is."""

    name: str
    kinds: frozenset[str]
    log: Log
    held_out: bool


_VALUES: tuple[tuple[str, Habits], ...] = tuple(
    (f"{kind} {place} {strength:g}", Habits(frozenset({kind}), strength=strength, place=place))
    for kind in ("date_in_prefix", "id_in_prefix")
    for place in ("start", "middle")
    for strength in (1.0, 0.4)
)
_OTHERS: tuple[tuple[str, Habits], ...] = (
    ("tools_order 1", Habits(frozenset({"tools_order"}))),
    ("tools_order 0.3", Habits(frozenset({"tools_order"}), strength=0.3)),
    ("json_key_order tools 1", Habits(frozenset({"json_key_order"}))),
    ("json_key_order tools 0.3", Habits(frozenset({"json_key_order"}), strength=0.3)),
    ("json_key_order text 1", Habits(frozenset({"json_key_order"}), keys_in="text")),
    ("examples_order text 1", Habits(frozenset({"examples_order"}))),
    ("examples_order text 0.4", Habits(frozenset({"examples_order"}), strength=0.4)),
    ("examples_order messages 1", Habits(frozenset({"examples_order"}), examples_as="messages")),
    ("user_text_first inside start", Habits(frozenset({"user_text_first"}))),
    ("user_text_first inside middle", Habits(frozenset({"user_text_first"}), place="middle")),
    ("user_text_first message", Habits(frozenset({"user_text_first"}), user_text="message")),
    ("user_text_first single", Habits(frozenset({"user_text_first"}), user_text="single")),
)
SINGLES = _VALUES + _OTHERS
COMBINED: tuple[tuple[str, Habits], ...] = tuple(
    (" + ".join(kinds), Habits(frozenset(kinds), place=place, examples_as=examples_as))
    for kinds, place, examples_as in (
        (("date_in_prefix", "id_in_prefix"), "start", "text"),
        (("date_in_prefix", "tools_order"), "start", "text"),
        (("json_key_order", "tools_order"), "start", "text"),
        (("date_in_prefix", "examples_order"), "middle", "text"),
        (("id_in_prefix", "examples_order"), "start", "messages"),
        (("id_in_prefix", "json_key_order"), "middle", "text"),
        (("date_in_prefix", "user_text_first"), "middle", "text"),
        (("date_in_prefix", "json_key_order", "tools_order"), "start", "text"),
        (("date_in_prefix", "examples_order", "id_in_prefix", "json_key_order", "tools_order"), "start", "text"),
    )
)


def cases(seed: int, *, held_out: bool, repeats: int = 1) -> list[Case]:
    """Every kind of log once per repeat, with habits and without, from one seed."""
    found = []
    for repeat in range(repeats):
        for at, (name, habits) in enumerate(SINGLES + COMBINED):
            maker = Maker(seed * 10_007 + repeat * 1_009 + at, held_out, habits)
            found.append(Case(name, habits.kinds, maker.log(), held_out))
        for at, clean in enumerate(CLEAN_HELD_OUT if held_out else CLEAN):
            rng = random.Random(seed * 20_011 + repeat * 2_003 + at)  # noqa: S311 - the same log from the same seed
            writer = Writer(rng, rng.choice(("es", "none") if held_out else ("en", "de")))
            found.append(Case(clean.__name__.replace("_", " "), frozenset(), clean(writer), held_out))
    return found
