"""The peers' side of prefix_reuse.py, for a Python that has them and nothing of ours; and what both sides share."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

BLOCK, FINE = 512, 16
CAPACITIES = (500_000, 1_300_000, 3_000_000, 10_000_000, 30_000_000)
ONE_CAPACITY = 1_300_000

Told = dict[str, Any]
Job = Callable[[Path], Told]
Rows = list[tuple[list[int], int]]
"""Each request's block ids and its length in tokens."""


def parsed(trace: Path) -> Rows:
    """A trace in Mooncake's format."""
    rows = (json.loads(line) for line in trace.read_text().splitlines())
    return [(row["hash_ids"], row["input_length"]) for row in rows]


def tokens_of(ids: Sequence[int], length: int) -> array[int]:
    """Token ids that are equal exactly where block ids are: block n has the tokens 512 n and on."""
    tokens = array("i")
    for block in ids:
        tokens.extend(range(BLOCK * block, BLOCK * (block + 1)))
    return tokens[:length]


class Clock:
    """CPU time of this process and its children, and what the resident set grew to, between start and stop."""

    def __init__(self) -> None:
        self.cpu_s = 0.0
        self._peak_before = _peak_kib()

    def __enter__(self) -> None:
        self._start = _cpu_s()

    def __exit__(self, *_: object) -> None:
        self.cpu_s += _cpu_s() - self._start

    def told(self, blocks: int, **more: object) -> Told:
        """What was measured, as it is printed."""
        grown = max(_peak_kib() - self._peak_before, _peak_kib(resource.RUSAGE_CHILDREN))
        return {"cpu_s": self.cpu_s, "blocks": blocks, "peak_mib": grown / 1024, **more}


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _peak_kib(who: int = resource.RUSAGE_SELF) -> int:
    return resource.getrusage(who).ru_maxrss


def kvcache_simulator(trace: Path) -> Told:
    """Its C++ core at five capacities."""
    simulator = importlib.import_module("kvcache_sim.cpp_backend")
    data = importlib.import_module("kvcache_sim.trace").parse_trace_file(trace, block_size=BLOCK)
    simulator.ensure_cpp_simulator()
    clock = Clock()
    capacities = [tokens // BLOCK for tokens in CAPACITIES]
    with clock:
        result = simulator.run_cpp_sweep(
            data, capacities=capacities, policies=["lru"], warmup_requests=data.request_count // 2
        )
    core = resource.getrusage(resource.RUSAGE_CHILDREN)
    return clock.told(
        len(data.ids),
        core_cpu_s=core.ru_utime + core.ru_stime,
        counted={str(tokens): result.results["lru", tokens // BLOCK].hitTokens for tokens in CAPACITIES},
    )


def kvlint_at_one_capacity(trace: Path) -> Told:
    """Its simulator of one engine's cache, as it feeds itself, with a budget."""
    return _kvlint(trace, ONE_CAPACITY // FINE)


def kvlint_without_a_limit(trace: Path) -> Told:
    """The same with no budget: what its hits are compared by."""
    return _kvlint(trace, None)


def _kvlint(trace: Path, budget: int | None) -> Told:
    simulator = importlib.import_module("kvlint.sim.vllm_blocks").VLLMBlockSimulator(FINE, budget)
    clock, hits, blocks = Clock(), 0, 0
    for row, (ids, length) in enumerate(parsed(trace)):
        tokens = tokens_of(ids, length)
        blocks += length // FINE
        with clock:
            hits += simulator.feed_tokens(str(row), tokens).cached_tokens
    return clock.told(blocks, hits=hits)


PEERS: dict[str, Job] = {
    "kvcache-simulator": kvcache_simulator,
    "kvlint": kvlint_at_one_capacity,
    "kvlint, no limit": kvlint_without_a_limit,
}


def run_one(jobs: dict[str, Job]) -> None:
    """Does the job that the command line names, on one core, and prints what it tells."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("job", choices=[*jobs])
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(json.dumps(jobs[options.job](options.trace)))


if __name__ == "__main__":
    run_one(PEERS)
