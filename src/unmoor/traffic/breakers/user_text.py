"""Text of one user or request in front of text that all share: inside an early message, or as a message before one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import takewhile

from msgspec import structs

from unmoor.traffic.breakers.breaker import Differing, Suspicion
from unmoor.traffic.breakers.moved import agreement, suspect_moved
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.breakers.slots import SHARED_BEHIND
from unmoor.traffic.entry import Part, Prompt

WHAT = "user_text_first"
FIX = "put the text that all requests share first, and what belongs to one user or request behind it"
LEAST_SEEN = 4
RARER = 4  # times rarer than the shared message must the one in front of it be


def suspect_inside(scene: Scene) -> Suspicion | None:
    """Suspicion that an early message holds a user's own text in front of shared text."""
    return suspect_moved(scene, kind="user_text", what=WHAT, fix=FIX)


def suspect_messages(scene: Scene) -> Suspicion | None:
    """Suspicion that a shared instruction stands behind a message that only one user or request has."""
    rows = scene.sample()
    often = Counter(part for row in rows for part in set(_opening(scene.prompts[row])))
    shared = frozenset(
        part for part in often if often[part] >= LEAST_SEEN and len(part.text) >= SHARED_BEHIND and _may_lead(part)
    )
    behind = frozenset(part for row in rows for part in _behind_rarer(scene.prompts[row], shared, often))
    differing = _first_differing(scene, behind) if behind else None
    if differing is None:
        return None

    def normalise(prompt: Prompt) -> Prompt:
        opening = _opening(prompt)
        parts = (*sorted(opening, key=lambda part: part not in shared), *prompt.parts[len(opening) :])
        return prompt if parts == prompt.parts else structs.replace(prompt, parts=parts)

    return Suspicion(WHAT, FIX, differing, (normalise,))


def _opening(prompt: Prompt) -> tuple[Part, ...]:
    """The messages before the first answer, without the last of them: that is a request."""
    before = tuple(takewhile(lambda part: part.role not in {"assistant", "tool"}, prompt.parts))
    return before[:-1]


def _may_lead(part: Part) -> bool:
    return part.role in {"system", "developer", "user"}


def _behind_rarer(prompt: Prompt, shared: frozenset[Part], often: Counter[Part]) -> Iterator[Part]:
    rarest: int | None = None
    for part in _opening(prompt):
        if part in shared and rarest is not None and often[part] >= RARER * rarest:
            yield part
        rarest = often[part] if rarest is None else min(rarest, often[part])


def _first_differing(scene: Scene, behind: frozenset[Part]) -> Differing | None:
    """The first two prompts that lead to the same shared message by different ones, and where those differ."""
    seen: dict[Part, int] = {}
    for row, prompt in enumerate(scene.prompts):
        for part in _opening(prompt):
            if part not in behind:
                continue
            first = seen.setdefault(part, row)
            one, other = scene.prompts[first].parts, prompt.parts
            at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
            if at is not None and one[at] != part:
                return Differing((first, row), "message", (at, at), agreement(one[at].text, other[at].text))
    return None
