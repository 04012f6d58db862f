"""Prices every suspicion by mending it and looking again, the dearest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from unmoor.traffic.breakers.breaker import LEAST_SHARE, Breaker, Differing, Normalise, Place, Suspicion
from unmoor.traffic.breakers.kinds import KINDS
from unmoor.traffic.breakers.mended import PromptsInTree
from unmoor.traffic.breakers.scene import Scene
from unmoor.traffic.breakers.spelled import spelled
from unmoor.traffic.entry import Prompt
from unmoor.traffic.readers.contract import Cutter
from unmoor.traffic.reuse.curve import hit_curve
from unmoor.traffic.tree import TreeBuilder

BATCH = 256  # prompts cut at once
EXCERPT = 40  # characters of a prompt that are shown where text was asked for


@dataclass(frozen=True, slots=True)
class _Price:
    """What a cache could serve of a scene: without a limit, and at the capacity asked for."""

    overlap: float
    hit_rate: float
    prompts: PromptsInTree

    def above(self, other: _Price) -> tuple[float, float]:
        """By how much both are above another scene's."""
        return self.overlap - other.overlap, self.hit_rate - other.hit_rate


@dataclass(frozen=True, slots=True)
class _Mended:
    """A suspicion with the fix that shares most, and what a cache could serve after it."""

    suspicion: Suspicion
    fix: Normalise
    price: _Price

    @property
    def what(self) -> str:
        return self.suspicion.what


@dataclass(frozen=True, slots=True)
class Found:
    """Findings, and the prompts before any of them is mended and after all are; None where there is no finding."""

    breakers: tuple[Breaker, ...] = ()
    before: PromptsInTree | None = None
    after: PromptsInTree | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    """What to mend next, and what of the bettering is its own."""

    mended: _Mended
    share: float
    gain: float


def find(scene: Scene, cutter: Cutter, *, capacity: int | None = None, show_text: bool = False) -> Found:
    """The findings of a scene; `capacity` of the cache at which `gain` is given is in the cutter's unit.

    The dearest is mended first, then the rest is looked at again. Where no one alone is worth LEAST_SHARE but two
    together are, because each stands in the other's way, both are mended and share what that brings: each is given the
    mean of what it adds before the other and after it.
    """
    search = _Search(cutter, capacity)
    if not any(suspect(scene) for ways in KINDS.values() for suspect in ways):
        return Found()  # a clean log costs no pricing
    now, price = scene, search.price(scene)
    before_all = price.prompts
    left, found = list(KINDS), list[Breaker]()
    while left:
        steps = search.next_steps(now, price, left)
        if not steps:
            break
        for step in steps:
            mended, before = step.mended, now
            now, price = now.after(mended.fix), mended.price
            place = _place(scene, _as_first_seen(scene, mended.suspicion).differing, show_text=show_text)
            requests = sum(a is not b for a, b in zip(before.prompts, now.prompts, strict=True))
            found.append(_breaker(step, place, requests))
            left.remove(mended.what)
    return Found(tuple(found), before_all, price.prompts) if found else Found()


@dataclass(frozen=True, slots=True)
class _Search:
    """Prices scenes with one cutter, at one capacity."""

    cutter: Cutter
    capacity: int | None

    def next_steps(self, now: Scene, price: _Price, kinds: Sequence[str]) -> list[_Step]:
        """What to mend next: one kind, or two that need each other, or nothing."""
        singles = list(self._mended(now, kinds))
        best = max(singles, key=lambda mended: mended.price.overlap, default=None)
        if best is None:
            return []
        if best.price.overlap - price.overlap >= LEAST_SHARE:
            return [_Step(best, *best.price.above(price))]
        pairs = [
            (one, other)
            for one in singles
            for other in self._mended(now.after(one.fix), [kind for kind in kinds if kind != one.what])
        ]
        pair = max(pairs, key=lambda pair: pair[1].price.overlap, default=None)
        if pair is None or pair[1].price.overlap - price.overlap < 2 * LEAST_SHARE:
            return []
        one, other = pair
        alone = next((single.price for single in singles if single.what == other.what), price)
        return [
            _Step(one, *_mean(one.price.above(price), other.price.above(alone))),
            _Step(other, *_mean(other.price.above(one.price), alone.above(price))),
        ]

    def _mended(self, now: Scene, kinds: Sequence[str]) -> Iterator[_Mended]:
        """Every kind that is suspected, mended in the way that shares most."""
        for kind in kinds:
            ways = [
                _Mended(suspicion, fix, self.price(now, fix))
                for suspect in KINDS[kind]
                if (suspicion := suspect(now)) is not None
                for fix in suspicion.fixes
            ]
            if ways:
                yield max(ways, key=lambda way: way.price.overlap)

    def price(self, scene: Scene, fix: Normalise | None = None) -> _Price:
        """What a cache could serve of the prompts, with a fix applied, in the log's order, of each adapter apart."""
        builder, nodes = TreeBuilder(), list[int]()
        for first in range(0, len(scene.prompts), BATCH):
            batch: Sequence[Prompt] = scene.prompts[first : first + BATCH]
            if fix is not None:
                batch = [fix(prompt) for prompt in batch]
            if self.cutter.by == "tokens":
                batch = [spelled(prompt) for prompt in batch]
            for cut in self.cutter.cut(batch):
                nodes.append(builder.add(cut.chain, cut.ends))
        tree, ends = builder.build(), np.array(nodes, dtype=np.int32)
        total = int(tree.end[ends].sum())
        if total == 0:
            return _Price(0.0, 0.0, PromptsInTree(tree, ends))
        curve = hit_curve(tree, ends, block_tokens=None, grain_tokens=1, salt=scene.salt)
        overlap = curve.certain.most / total
        served = overlap if self.capacity is None else curve.hit_tokens_at(self.capacity) / total
        return _Price(overlap, served, PromptsInTree(tree, ends))


def _mean(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return (one[0] + other[0]) / 2, (one[1] + other[1]) / 2


def _breaker(step: _Step, place: Place, requests: int) -> Breaker:
    return Breaker(
        what=step.mended.what,
        where=place,
        share_lost=step.share,
        gain=step.gain,
        overlap_after=step.mended.price.overlap,
        fix=step.mended.suspicion.fix,
        requests=requests,
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
        offset_bytes=len(texts[0][:at].encode(errors="surrogatepass")),
        lines=(scene.lines[differing.rows[0]], scene.lines[differing.rows[1]]),
        excerpts=tuple(_excerpt(text, at) for text in texts) if show_text else (),
    )


def _excerpt(text: str, at: int) -> str:
    """A few words from there on; half of a broken pair, which no file can hold, is a question mark."""
    return text[at : at + EXCERPT].encode(errors="replace").decode()
