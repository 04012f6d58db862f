"""Prices every suspicion by mending it and looking again, the dearest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unmoor.traffic.breakers.breaker import LEAST_SHARE, Breaker, Differing, Place, Suspicion
from unmoor.traffic.breakers.kinds import KINDS
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.readers.contract import Cutter
from unmoor.traffic.reuse import hit_curve
from unmoor.traffic.tree import TreeBuilder

BATCH = 256  # prompts cut at once
EXCERPT = 40  # characters of a prompt that are shown where text was asked for


@dataclass(frozen=True, slots=True)
class _Priced:
    """A scene, and what a cache could serve of it: without a limit, and at the capacity asked for."""

    scene: Scene
    overlap: float
    hit_rate: float


@dataclass(frozen=True, slots=True)
class _Mended:
    """A suspicion with the fix that shares most, and the scene after it."""

    suspicion: Suspicion
    after: _Priced
    requests: int


def find(scene: Scene, cutter: Cutter, *, capacity: int | None = None, show_text: bool = False) -> tuple[Breaker, ...]:
    """The findings of a scene; `capacity` of the cache at which `gain` is given is in the cutter's unit.

    The dearest is mended first, then the rest is looked at again. Where no one alone is worth LEAST_SHARE but two
    together are, because each stands in the other's way, both are mended and share what that brings: each is given the
    mean of what it adds before the other and after it.
    """
    search = _Search(cutter, capacity)
    if not any(suspect(scene) for ways in KINDS.values() for suspect in ways):
        return ()  # a clean log costs no pricing
    now = search.priced(scene)
    left, found = list(KINDS), list[Breaker]()
    while left:
        step = search.best_step(now, left)
        if not step:
            break
        for mended, share, gain in step:
            left.remove(mended.suspicion.what)
            place = _place(scene, _as_first_seen(scene, mended.suspicion).differing, show_text=show_text)
            found.append(_breaker(mended, place, share, gain))
        now = step[-1][0].after
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Search:
    """Prices scenes with one cutter, at one capacity."""

    cutter: Cutter
    capacity: int | None

    def best_step(self, now: _Priced, kinds: Sequence[str]) -> list[tuple[_Mended, float, float]]:
        """What to mend next, with the share and the gain of each: one, or two that need each other, or nothing."""
        singles = list(self._mended(now, kinds))
        best = max(singles, key=lambda mended: mended.after.overlap, default=None)
        if best is None:
            return []
        if best.after.overlap - now.overlap >= LEAST_SHARE:
            return [(best, *_difference(best.after, now))]
        pairs = [
            (one, other)
            for one in singles
            for other in self._mended(one.after, [kind for kind in kinds if kind != one.suspicion.what])
        ]
        pair = max(pairs, key=lambda pair: pair[1].after.overlap, default=None)
        if pair is None or pair[1].after.overlap - now.overlap < 2 * LEAST_SHARE:
            return []
        return self._shared(now, singles, *pair)

    def _shared(
        self, now: _Priced, singles: Sequence[_Mended], one: _Mended, other: _Mended
    ) -> list[tuple[_Mended, float, float]]:
        """What two bring together, split by what each adds in both orders."""
        alone = next((m.after for m in singles if m.suspicion.what == other.suspicion.what), now)
        both = other.after
        shares = [
            ((a + b) / 2, (c + d) / 2)
            for (a, c), (b, d) in (
                (_difference(one.after, now), _difference(both, alone)),
                (_difference(both, one.after), _difference(alone, now)),
            )
        ]
        return [(one, *shares[0]), (other, *shares[1])]

    def _mended(self, now: _Priced, kinds: Sequence[str]) -> Iterator[_Mended]:
        """Every kind that is suspected, mended in the way that shares most."""
        for kind in kinds:
            ways = [
                (suspicion, self.priced(now.scene.after(fix)))
                for suspect in KINDS[kind]
                if (suspicion := suspect(now.scene)) is not None
                for fix in suspicion.fixes
            ]
            if ways:
                suspicion, after = max(ways, key=lambda way: way[1].overlap)
                changed = sum(a is not b for a, b in zip(now.scene.prompts, after.scene.prompts, strict=True))
                yield _Mended(suspicion, after, changed)

    def priced(self, scene: Scene) -> _Priced:
        """The scene with the overlap of its prompts, cut and put into a tree in the log's order."""
        builder, nodes = TreeBuilder(), list[int]()
        for first in range(0, len(scene.prompts), BATCH):
            for cut in self.cutter.cut(scene.prompts[first : first + BATCH]):
                nodes.append(builder.add(cut.chain, cut.ends))
        tree, ends = builder.build(), np.array(nodes, dtype=np.int32)
        total = int(tree.end[ends].sum())
        if total == 0:
            return _Priced(scene, 0.0, 0.0)
        # Every node was new once; all else was seen before.
        new = int((tree.end[1:] - tree.end[tree.parent[1:]]).sum())
        overlap = 1 - new / total
        if self.capacity is None:
            return _Priced(scene, overlap, overlap)
        curve = hit_curve(tree, ends, block_tokens=None, grain_tokens=1)
        return _Priced(scene, overlap, curve.hit_tokens_at(self.capacity) / total)


def _difference(after: _Priced, before: _Priced) -> tuple[float, float]:
    return after.overlap - before.overlap, after.hit_rate - before.hit_rate


def _breaker(mended: _Mended, place: Place, share: float, gain: float) -> Breaker:
    return Breaker(
        what=mended.suspicion.what,
        where=place,
        share_lost=share,
        gain=gain,
        overlap_after=mended.after.overlap,
        fix=mended.suspicion.fix,
        requests=mended.requests,
        lines=place.lines,
    )


def _as_first_seen(scene: Scene, suspicion: Suspicion) -> Suspicion:
    """The same suspicion in the log as it is, where it can be seen there, so that its place is the log's own."""
    for suspect in KINDS[suspicion.what]:
        first = suspect(scene)
        if first is not None:
            return first
    return suspicion


def _place(scene: Scene, differing: Differing, *, show_text: bool) -> Place:
    texts = []
    for row, index in zip(differing.rows, differing.indices, strict=True):
        prompt = scene.prompts[row]
        texts.append(prompt.tools[index] if differing.unit == "tool" else prompt.parts[index].text)
    role = None if differing.unit == "tool" else scene.prompts[differing.rows[0]].parts[differing.indices[0]].role
    at = differing.offset
    return Place(
        unit=differing.unit,
        index=differing.indices[0],
        role=role or None,
        offset_bytes=len(texts[0][:at].encode(errors="replace")),
        lines=(scene.lines[differing.rows[0]], scene.lines[differing.rows[1]]),
        excerpts=tuple(text[at : at + EXCERPT] for text in texts) if show_text else (),
    )
