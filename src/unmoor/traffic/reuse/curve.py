"""How much of the prompts a cache can serve: without a limit, and at every capacity at once.

Where a log tells content apart in steps of `grain` tokens, a shared prefix is known to be at least c tokens long and
less than c + grain. What is served is bounded by two trees: the one that the log tells, and one in which all prompts
part `grain` - 1 tokens later. Sharing more never pushes a block deeper into the stack of a least-recently-used pool, so
the truth lies between the two curves, at every capacity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.equal_rows import first_equal, last_before, numbered
from unmoor.traffic.log import Names, Traffic
from unmoor.traffic.reuse.parting import parting_later
from unmoor.traffic.reuse.runs import NARROW, Runs, Whole, largest, runs_of
from unmoor.traffic.reuse.stack_distance import CacheRule, Reuses, reused_blocks, reuses_of
from unmoor.traffic.scratch import MEMORY, Growing, Scratch
from unmoor.traffic.tree import PromptTree

_CODE_BITS = 32


class ShareOf(msgspec.Struct, frozen=True, kw_only=True):
    """A share (0-1) of all prompt tokens, and of all prompts' blocks; None where the source says nothing of content."""

    tokens: float | None
    blocks: float | None


class HitRate(msgspec.Struct, frozen=True, kw_only=True):
    """A share (0-1) of prompt tokens served from cache. It lies within `low` to `high`.

    `value` is None where the source tells content apart too coarsely for one figure.
    """

    value: float | None
    low: float
    high: float


def engine_rule(block_tokens: int) -> CacheRule:
    """Engines' own: full blocks only, and at least a prompt's last token is computed."""
    return CacheRule(block_tokens)


def trace_rule(block_tokens: int) -> CacheRule:
    """A block trace's own: a last, partial block counts as a block, and may be served."""
    return CacheRule(block_tokens, partial=True, last_computed=False)


def salt_of(*columns: Names) -> Whole:
    """One number a request, equal where all the columns are: prompts under different salts share nothing.

    No name is a name of its own. At least one column is needed.
    """
    salt: Whole = columns[0].code + np.int32(1)
    for column in columns[1:]:
        pairs = salt.astype(np.uint64) << np.uint64(_CODE_BITS) | (column.code + np.int32(1)).astype(np.uint64)
        salt = numbered(first_equal(pairs))[1]
    return salt


def ideal(traffic: Traffic, *, salt: Whole | None = None) -> ShareOf:
    """What an earlier request also began with, under a cache without a limit, at the source's own granularity.

    Tokens are compared from a prompt's start, and all that agree count. Blocks are of `Grain.tokens`, and a prompt's
    last, partial block is one where an earlier prompt ended with the same. Both None without content, and without a
    token in any prompt.
    """
    if traffic.tree is None or traffic.grain is None:
        return ShareOf(tokens=None, blocks=None)
    walk = walked(traffic.tree, traffic.node, salt, traffic.scratch)
    if not walk.prompt_tokens:
        return ShareOf(tokens=None, blocks=None)
    size = traffic.grain.tokens
    shared = int(walk.runs.end.sum(dtype=np.int64)) - int(walk.runs.begin.sum(dtype=np.int64))
    return ShareOf(
        tokens=shared / walk.prompt_tokens,
        blocks=walk.reused_blocks(trace_rule(size)) / walk.trace_blocks(size),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """Hit tokens against capacity in blocks, linear between the knots and flat after the last."""

    knots: Whole
    tokens: Whole
    slope: Whole

    def at(self, blocks: int) -> int:
        """The tokens that a pool of `blocks` serves."""
        place = int(np.searchsorted(self.knots, blocks, side="right")) - 1
        if place < 0:
            return 0
        return int(self.tokens[place]) + int(self.slope[place]) * (blocks - int(self.knots[place]))

    @property
    def most(self) -> int:
        """The tokens that a pool without a limit serves."""
        return int(self.tokens[-1]) if len(self.tokens) else 0


def line_of(reuses: Reuses, scratch: Scratch = MEMORY) -> Line:
    """The hits of every capacity: a run of blocks adds its tokens a block, from its first place to its last."""
    knots, bends = _bends(reuses, scratch)
    slope, tokens = scratch.zeros(len(knots), np.int64), scratch.zeros(len(knots), np.int64)
    turned = served = last = 0
    for some in scratch.stretches(len(knots)):
        slope[some] = turned + np.cumsum(bends[some])
        widths = np.diff(knots[some], prepend=last)
        before = np.append(turned, slope[some][:-1])  # the slope up to each knot
        tokens[some] = served + np.cumsum(before * widths)
        turned, served, last = int(slope[some][-1]), int(tokens[some][-1]), int(knots[some][-1])
    return Line(knots=knots, tokens=tokens, slope=slope)


def _bends(reuses: Reuses, scratch: Scratch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the slope changes, in order, and by how much.

    Each run's beginning and its end is a whole number that sorts by place and holds its tokens and which it is.
    """
    rows, span = len(reuses.place), 2 * (largest(reuses.tokens, scratch) + 1)
    ends = scratch.zeros(2 * rows, np.int64)
    for some in scratch.stretches(rows):
        place, tokens = reuses.place[some].astype(np.int64), reuses.tokens[some].astype(np.int64)
        ends[some] = place * span + 2 * tokens
        ends[rows + some.start : rows + some.stop] = (place + reuses.count[some]) * span + 2 * tokens + 1
    ends.sort()  # in place, so that it takes no memory beside them
    knots, bends = Growing(np.int64, scratch), Growing(np.int64, scratch)
    at, bend = 0, 0  # the knot that is not complete yet
    for some in scratch.stretches(len(ends)):
        places, coded = np.divmod(ends[some], span)
        turns = np.where(coded & 1, -(coded >> 1), coded >> 1)
        firsts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
        found, sums = np.append(at, places[firsts]), np.append(bend, np.add.reduceat(turns, firsts))
        if found[0] == found[1]:
            found, sums = found[1:], np.append(sums[0] + sums[1], sums[2:])
        at, bend = int(found[-1]), int(sums[-1])
        bent = sums[:-1] != 0
        knots.extend(found[:-1][bent])
        bends.extend(sums[:-1][bent])
    if bend:
        knots.extend(np.array([at]))
        bends.extend(np.array([bend]))
    return knots.rows, bends.rows


@dataclass(frozen=True, slots=True, eq=False)
class HitCurve:
    """The hit rate of a least-recently-used pool against its capacity: every capacity at once.

    One pool, requests one after another; a request touches its blocks from the last to the first. `certain` follows
    from the prefixes that are known to be shared, `possible` from the longest that the source allows; where the source
    is exact at this block size they are one and the same.
    """

    rule: CacheRule
    prompt_tokens: int
    grain_tokens: int
    certain: Line
    possible: Line

    @property
    def working_set_tokens(self) -> int:
        """The smallest capacity in tokens that serves all that is certain without a limit; 0 where that is nothing."""
        return int(self.certain.knots[-1]) * self.rule.block_tokens if len(self.certain.knots) else 0

    @property
    def ideal(self) -> HitRate:
        """The rate of a pool without a limit."""
        return self._rate(self.certain.most, self.possible.most)

    def at(self, kv_tokens: int) -> HitRate:
        """The share of prompt tokens that a pool of `kv_tokens`, in whole blocks, serves.

        `value` is that of the certain prefixes where the block is at least the source's grain, else None; it is None,
        within 0 to 1, where no prompt has a token.
        """
        blocks = kv_tokens // self.rule.block_tokens
        return self._rate(self.certain.at(blocks), self.possible.at(blocks))

    def hit_tokens_at(self, kv_tokens: int) -> int:
        """The prompt tokens that a pool of `kv_tokens` serves for certain."""
        return self.certain.at(kv_tokens // self.rule.block_tokens)

    def _rate(self, certain: int, possible: int) -> HitRate:
        if not self.prompt_tokens:
            return HitRate(value=None, low=0.0, high=1.0)
        low, high = certain / self.prompt_tokens, possible / self.prompt_tokens
        return HitRate(value=low if self.grain_tokens <= self.rule.block_tokens else None, low=low, high=high)


def curve_of(
    traffic: Traffic,
    *,
    block_tokens: int | None = None,
    salt: Whole | None = None,
    members: NDArray[np.bool_] | None = None,
) -> HitCurve | None:
    """`hit_curve` for a log, at its grain; None where the source says nothing of content."""
    if traffic.tree is None or traffic.grain is None:
        return None
    grain = traffic.grain.tokens
    rule = _rule(block_tokens, grain)
    return curve_by_rule(
        traffic.tree,
        traffic.node,
        rule,
        grain_tokens=grain,
        salt=salt,
        members=members,
        scratch=traffic.scratch,
    )


def hit_curve(
    tree: PromptTree,
    nodes: NDArray[np.int32],
    *,
    block_tokens: int | None = None,
    grain_tokens: int = 1,
    salt: Whole | None = None,
    members: NDArray[np.bool_] | None = None,
) -> HitCurve:
    """The whole curve for requests that walk `tree` to `nodes`, one after another.

    `block_tokens` gives an engine's rule; None the trace's own, in blocks of `grain_tokens` (`Grain.tokens`). `members`
    are the requests that this pool sees, as a boolean a row; `salt` is one number a row. Both None: all, and none.
    """
    rule = _rule(block_tokens, grain_tokens)
    return curve_by_rule(tree, nodes, rule, grain_tokens=grain_tokens, salt=salt, members=members)


def curve_by_rule(
    tree: PromptTree,
    nodes: NDArray[np.int32],
    rule: CacheRule,
    *,
    grain_tokens: int = 1,
    salt: Whole | None = None,
    members: NDArray[np.bool_] | None = None,
    scratch: Scratch = MEMORY,
) -> HitCurve:
    """`hit_curve` under any rule; `scratch` is where arrays as long as the log are kept meanwhile."""
    nodes, salt = _of_members(nodes, salt, members)
    walk = walked(tree, nodes, salt, scratch)
    return _curve(walk, lambda: _walked_later(tree, nodes, grain_tokens, salt, scratch), rule, grain_tokens)


def curves_of(
    traffic: Traffic, *, salt: Whole | None = None, members: NDArray[np.bool_] | None = None
) -> Callable[[int | None], HitCurve | None]:
    """`curve_of` as a function of the block size: the requests are walked once, whatever sizes are asked for."""
    tree, grain = traffic.tree, traffic.grain
    if tree is None or grain is None:
        return lambda _: None
    nodes, salt = _of_members(traffic.node, salt, members)
    walk = walked(tree, nodes, salt, traffic.scratch)
    later = cache(lambda: _walked_later(tree, nodes, grain.tokens, salt, traffic.scratch))
    return cache(lambda block_tokens: _curve(walk, later, _rule(block_tokens, grain.tokens), grain.tokens))


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """What requests share with those before them, at every depth; of each its length and where in the tree it ends."""

    runs: Runs
    lengths: Whole
    nodes: NDArray[np.int32]
    salt: Whole | None
    scratch: Scratch = MEMORY

    @property
    def prompt_tokens(self) -> int:
        """All prompts' tokens."""
        return int(self.lengths.sum(dtype=np.int64))

    def reuses(self, rule: CacheRule) -> Reuses:
        """The reused blocks, placed in the stack of a pool."""
        return reuses_of(self.runs, self.lengths, self._same(rule), self._narrowed(rule), self.scratch)

    def reused_blocks(self, rule: CacheRule) -> int:
        """How many blocks are reused, under a cache without a limit."""
        return reused_blocks(self.runs, self.lengths, self._same(rule), self._narrowed(rule), self.scratch)

    def trace_blocks(self, block_tokens: int) -> int:
        """How many blocks all prompts have, by the trace's own rule."""
        size = self._narrowed(trace_rule(block_tokens)).block_tokens
        stretches = self.scratch.stretches(len(self.lengths))
        return sum(int((-(-self.lengths[some] // size)).sum(dtype=np.int64)) for some in stretches)

    def _narrowed(self, rule: CacheRule) -> CacheRule:
        """The same for these prompts, in blocks that their columns can hold: none fills one beyond the longest."""
        beyond = int(self.lengths.max(initial=0)) + 1
        return replace(rule, block_tokens=min(rule.block_tokens, beyond))

    def _same(self, rule: CacheRule) -> NDArray[np.int32]:
        """Who ended where each request does, for a rule that asks."""
        return same_before(self.nodes, self.salt, self.scratch) if rule.partial else np.empty(0, dtype=np.int32)


def walked(tree: PromptTree, nodes: NDArray[np.int32], salt: Whole | None = None, scratch: Scratch = MEMORY) -> Walk:
    """Requests that walk `tree` to `nodes`, one after another."""
    runs = runs_of(tree, nodes, salt, scratch)
    narrow = largest(tree.end, scratch) < NARROW
    lengths: Whole = scratch.taken(tree.end, nodes, np.int32 if narrow else tree.end.dtype)
    return Walk(runs=runs, lengths=lengths, nodes=nodes, salt=salt, scratch=scratch)


def _walked_later(
    tree: PromptTree, nodes: NDArray[np.int32], grain_tokens: int, salt: Whole | None, scratch: Scratch
) -> Walk:
    later, ends = parting_later(tree, nodes, grain_tokens - 1, scratch)
    return walked(later, ends, salt, scratch)


def _of_members(
    nodes: NDArray[np.int32], salt: Whole | None, members: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int32], Whole | None]:
    if members is None:
        return nodes, salt
    return nodes[members], None if salt is None else salt[members]


def _rule(block_tokens: int | None, grain_tokens: int) -> CacheRule:
    return trace_rule(grain_tokens) if block_tokens is None else engine_rule(block_tokens)


def _curve(walk: Walk, later: Callable[[], Walk], rule: CacheRule, grain_tokens: int) -> HitCurve:
    certain = line_of(walk.reuses(rule), walk.scratch)
    possible = line_of(later().reuses(rule), walk.scratch) if rule.block_tokens % grain_tokens else certain
    return HitCurve(
        rule=rule,
        prompt_tokens=walk.prompt_tokens,
        grain_tokens=grain_tokens,
        certain=certain,
        possible=possible,
    )


def same_before(nodes: NDArray[np.int32], salt: Whole | None = None, scratch: Scratch = MEMORY) -> NDArray[np.int32]:
    """For each request the last one before it that ended at the same node under the same salt, or NEVER."""
    if salt is None:
        return last_before(nodes, largest(nodes, scratch) + 1, scratch)
    pairs = scratch.zeros(len(nodes), np.uint64)
    for some in scratch.stretches(len(nodes)):
        pairs[some] = salt[some].astype(np.uint64) << np.uint64(_CODE_BITS) | nodes[some].astype(np.uint64)
    firsts, number = numbered(first_equal(pairs, scratch), scratch)
    return last_before(number, len(firsts), scratch)
