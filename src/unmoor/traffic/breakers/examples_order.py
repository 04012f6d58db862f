"""Few-shot examples shuffled: the same examples, as messages or inside one text, in another order each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import structs

from unmoor.traffic.breakers.breaker import Differing, Normalise, Suspicion
from unmoor.traffic.breakers.moved import agreement
from unmoor.traffic.breakers.pieces_of_text import Splitter, splitters
from unmoor.traffic.breakers.remembered import Remembered
from unmoor.traffic.breakers.reorder import LEAST_SEQUENCES, Set, in_one_order, shuffled_sets
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.breakers.units import early_messages
from unmoor.traffic.entry import Part, Prompt

WHAT = "examples_order"
FIX = "give the examples in one fixed order (sort them, or seed the shuffle once) in every request"
LOOKED_AT = 32_768  # characters of a text in which examples are looked for
LEAST_CHARACTERS = 12  # what is shorter is no example


def suspect_messages(scene: Scene) -> Suspicion | None:
    """Suspicion that example dialogues stand before the request in several orders."""
    sets = _sets([_things(_turns(scene.prompts[row])) for row in scene.sample()])
    if not sets:
        return None

    def normalise(prompt: Prompt) -> Prompt:
        turns = _turns(prompt)
        order = in_one_order(_things(turns), sets)
        if order is None or order == sorted(order):
            return prompt
        before = [part for i in order for part in turns[i]]
        return structs.replace(prompt, parts=(*before, *prompt.parts[len(before) :]))

    rows = _two_rows(scene, [_ordered(_things(_turns(prompt)), sets) for prompt in scene.prompts])
    if rows is None:
        return None
    one, other = (scene.prompts[row].parts for row in rows)
    at = next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return Suspicion(
        WHAT, FIX, Differing(rows, "message", (at, at), agreement(one[at].text, other[at].text)), (normalise,)
    )


def _turns(prompt: Prompt) -> list[tuple[Part, ...]]:
    """The messages before the last one of the user's, each user's message together with what answers it."""
    last = max((i for i, part in enumerate(prompt.parts) if part.role == "user"), default=0)
    turns: list[list[Part]] = []
    for part in prompt.parts[:last]:
        if not turns or part.role in {"user", "system", "developer"}:
            turns.append([])
        turns[-1].append(part)
    return [tuple(turn) for turn in turns]


def _things(turns: Sequence[tuple[Part, ...]]) -> list[str]:
    return ["\0".join(f"{part.role}\0{part.text}" for part in turn) for turn in turns]


def _sets(sequences: Sequence[Sequence[str]]) -> list[Set]:
    """Sets of things long enough to be examples, that move about."""
    long = [[thing for thing in sequence if len(thing) >= LEAST_CHARACTERS] for sequence in sequences]
    return shuffled_sets(long)


def _ordered(things: Sequence[str], sets: Sequence[Set]) -> tuple[str, ...]:
    """The things of the first set that is there whole, as they come."""
    present = set(things)
    moving = next((moving for moving in sets if moving <= present), Set())
    return tuple(thing for thing in things if thing in moving)


def _two_rows(scene: Scene, orders: Sequence[tuple[str, ...]]) -> tuple[int, int] | None:
    """The first two prompts that have the same things in different orders."""
    seen: dict[Set, int] = {}
    for row in range(len(scene.prompts)):
        first = seen.setdefault(frozenset(orders[row]), row)
        if orders[first] != orders[row]:
            return first, row
    return None


@dataclass(frozen=True, slots=True)
class _InText:
    """Brings the examples inside a text into one order."""

    split: Splitter
    sets: Sequence[Set]

    def __call__(self, text: str) -> str:
        """The text with its examples in order."""
        pieces = self.split(text)
        things = pieces[1::2]
        order = in_one_order(things, self.sets)
        if order is not None:
            pieces[1::2] = [things[i] for i in order]
        return "".join(pieces)

    def order(self, text: str) -> tuple[str, ...]:
        """The text's examples as they come."""
        return _ordered(self.split(text)[1::2], self.sets)

    def fix(self) -> Normalise:
        """The same for the early messages of a prompt."""
        ordered = Remembered(self.__call__)

        def normalise(prompt: Prompt) -> Prompt:
            early = early_messages(prompt)
            parts = tuple(Part(part.role, ordered(part.text)) for part in prompt.parts[:early])
            return (
                prompt if parts == prompt.parts[:early] else structs.replace(prompt, parts=parts + prompt.parts[early:])
            )

        return normalise


def suspect_text(scene: Scene) -> Suspicion | None:
    """Suspicion that the examples inside an early message stand there in several orders."""
    best: tuple[int, int, _InText] | None = None
    for (unit, at, _), texts in scene.early_texts.items():
        distinct = (
            [told.text[:LOOKED_AT] for told in texts] if unit == "message" and len(texts) >= LEAST_SEQUENCES else []
        )
        for split in splitters(distinct) if distinct else ():
            sets = _sets([split(text)[1::2] for text in distinct])
            size = sum(len(thing) for moving in sets for thing in moving)
            if size and (best is None or size > best[0]):
                best = size, at, _InText(split, sets)
    if best is None:
        return None
    _, at, in_text = best
    orders = [in_text.order(prompt.parts[at].text) if at < len(prompt.parts) else () for prompt in scene.prompts]
    rows = _two_rows(scene, orders)
    if rows is None:
        return None
    one, other = (scene.prompts[row].parts[at].text for row in rows)
    things = next((a, b) for a, b in zip(orders[rows[0]], orders[rows[1]], strict=True) if a != b)
    offset = one.find(things[0])
    offset += agreement(one[offset:], other[other.find(things[1]) :])
    return Suspicion(WHAT, FIX, Differing(rows, "message", (at, at), offset), (in_text.fix(),))
