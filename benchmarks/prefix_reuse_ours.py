"""Our side of prefix_reuse.py, one job a process."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from prefix_reuse_peers import BLOCK, CAPACITIES, FINE, ONE_CAPACITY, Clock, Job, Told, parsed, run_one, tokens_of

from unmoor.traffic.entry import Blocks
from unmoor.traffic.readers.chains import Chains
from unmoor.traffic.reuse import curve as reuse
from unmoor.traffic.reuse.stack_distance import CacheRule
from unmoor.traffic.tree import TreeBuilder

_BATCH_BLOCKS = 65_536  # as the reader's


def ours_in_blocks(trace: Path) -> Told:
    """The trace's own blocks: every capacity."""
    rows = parsed(trace)
    clock = Clock()
    with clock:
        chains, builder = Chains(), TreeBuilder()
        nodes = array("i")
        for row, (ids, length) in enumerate(rows):
            chains.add_blocks(Blocks(ids, BLOCK), length, unlike_any=row)
            if len(chains) > _BATCH_BLOCKS or row == len(rows) - 1:
                nodes.extend(builder.add(cut.chain, cut.ends) for cut in chains.cuts())
        tree, ends = builder.build(), np.array(nodes)
        curve = reuse.hit_curve(tree, ends, grain_tokens=BLOCK)
    reused = reuse.walked(tree, ends).reuses(curve.rule)
    counted = reuse.line_of(reused.of_rows(reused.row >= len(rows) // 2))
    return clock.told(
        sum(len(ids) for ids, _ in rows),
        hits={str(tokens): curve.hit_tokens_at(tokens) for tokens in CAPACITIES},
        counted={str(tokens): counted.at(tokens // BLOCK) for tokens in CAPACITIES},
        total=curve.prompt_tokens,
        ideal=curve.certain.most,
    )


def ours_in_tokens(trace: Path) -> Told:
    """From token ids, in blocks of 16: hashed, chained, every capacity."""
    keys = np.random.default_rng(1).integers(0, 2**64, FINE, dtype=np.uint64) | np.uint64(1)
    clock, blocks = Clock(), 0
    with clock:
        builder, nodes = TreeBuilder(), array("i")
    for ids, length in parsed(trace):
        tokens = tokens_of(ids, length)
        blocks += length // FINE
        with clock:
            whole = np.frombuffer(tokens, dtype=np.int32)[: length // FINE * FINE].reshape(-1, FINE)
            chain = np.cumsum(_mixed(whole.astype(np.uint64) @ keys + np.arange(1, len(whole) + 1, dtype=np.uint64)))
            nodes.append(builder.add(chain, np.arange(FINE, len(whole) * FINE + 1, FINE)))
    with clock:
        rule = CacheRule(FINE, last_computed=False)
        curve = reuse.curve_by_rule(builder.build(), np.array(nodes), rule)
    return clock.told(blocks, hits=curve.hit_tokens_at(ONE_CAPACITY), ideal=curve.certain.most)


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finisher."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def parents_first(trace: Path) -> Told:
    """A pool that evicts a prompt's beginning before its end, block by block: to explain hits, not for time."""
    pool: OrderedDict[int, None] = OrderedDict()
    clock, hits, blocks = Clock(), 0, 0
    for ids, length in parsed(trace):
        chain = [block * (BLOCK // FINE) + part for block in ids for part in range(BLOCK // FINE)][: length // FINE]
        hits += FINE * next((n for n, block in enumerate(chain) if block not in pool), len(chain))
        for block in chain:
            pool[block] = None
            pool.move_to_end(block)
        own = set(chain)
        while len(pool) > ONE_CAPACITY // FINE and next(iter(pool)) not in own:
            pool.popitem(last=False)
        blocks += len(chain)
    return clock.told(blocks, hits=hits)


OURS: dict[str, Job] = {
    "ours, in blocks": ours_in_blocks,
    "ours, from tokens": ours_in_tokens,
    "parents first": parents_first,
}

if __name__ == "__main__":
    run_one(OURS)
