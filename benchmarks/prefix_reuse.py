"""Hit rates of a least-recently-used pool: our curve of every capacity beside two simulators of one capacity at a time.

    python -m venv peers && peers/bin/pip install kvcache-simulator==0.1.3 kvlint==0.1.1
    python benchmarks/prefix_reuse.py mooncake-conversation.jsonl --peers peers/bin/python [--rounds 5] [--json]

Every measurement is a process of its own, held to one core. All begin with the trace parsed: each request's block ids
and length, or (beside kvlint, which hashes token ids itself) its token ids. What is counted is the CPU time, user and
system, of what comes then: ours chains ids or hashes tokens, builds the tree and the curve; kvcache-simulator writes
its binary trace and runs its C++ core, already compiled, at five capacities, LRU alone; kvlint hashes and simulates
one capacity. Rounds alternate and each gives one ratio. Peak memory is what the resident set grew by meanwhile.

Before anything is said of time, hits are compared to the token: with kvcache-simulator at its five capacities over
the requests that it counts (the second half of the trace), with kvlint without a limit.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from prefix_reuse_peers import PEERS, Told

RACES = (("ours, in blocks", "kvcache-simulator"), ("ours, from tokens", "kvlint"))


def measured(job: str, trace: Path, peers: str) -> Told:
    """What one job tells, in a process of its own on one core."""
    side, python = ("peers", peers) if job in PEERS else ("ours", sys.executable)
    script = Path(__file__).with_name(f"prefix_reuse_{side}.py")
    command = [python, str(script), str(trace), job]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - what the caller named
    told: Told = json.loads(done.stdout)
    return told


def profile_cpu_s(trace: Path) -> float:
    """CPU of the whole `unmoor profile --json`, start to end."""
    before = os.times()
    command = [sys.executable, "-m", "unmoor.cli", "profile", str(trace), "--json"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def compared(trace: Path, peers: str) -> Told:
    """Hits to the token, where a peer counts what we count; and what explains the rest."""
    ours, simulator = (measured(name, trace, peers) for name in RACES[0])
    fine, budgeted = (measured(name, trace, peers) for name in RACES[1])
    unlimited, explained = (measured(name, trace, peers) for name in ("kvlint, no limit", "parents first"))
    return {
        "hit_rates": {tokens: hits / ours["total"] for tokens, hits in ours["hits"].items()},
        "ideal": ours["ideal"] / ours["total"],
        "kvcache_simulator_equal": ours["counted"] == simulator["counted"],
        "kvlint_equal_without_a_limit": fine["ideal"] == unlimited["hits"],
        "at_one_capacity": {"ours": fine["hits"], "kvlint": budgeted["hits"], "parents_first": explained["hits"]},
    }


def raced(trace: Path, peers: str, rounds: int) -> Iterator[Told]:
    """Each job's figures over the rounds, then the ratio of a pair's CPU times, round by round."""
    for one, other in RACES:
        pairs = [(measured(one, trace, peers), measured(other, trace, peers)) for _ in range(rounds)]
        for name, all_told in zip((one, other), zip(*pairs, strict=True), strict=True):
            yield {
                "name": name,
                "blocks": all_told[0]["blocks"],
                "cpu_s": _spread([told["cpu_s"] for told in all_told]),
                "blocks_per_s": _spread([told["blocks"] / told["cpu_s"] for told in all_told]),
                "peak_mib_per_million_blocks": _spread([told["peak_mib"] / told["blocks"] * 1e6 for told in all_told]),
            }
        yield {"ratio": f"{other} / {one}", "cpu": _spread([b["cpu_s"] / a["cpu_s"] for a, b in pairs])}


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main() -> None:
    """Runs it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--peers", default=sys.executable, help="a Python that has kvcache-simulator and kvlint")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {
        "exact": compared(options.trace, options.peers),
        "races": list(raced(options.trace, options.peers, options.rounds)),
        "profile_cpu_s": _spread([profile_cpu_s(options.trace) for _ in range(options.rounds)]),
    }
    print(json.dumps(found, indent=None if options.json else 2))


if __name__ == "__main__":
    main()
