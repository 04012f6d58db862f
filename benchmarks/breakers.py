"""How often `unmoor.traffic.breakers` finds what is wrong with a log, and how often it cries wolf, on generated logs.

    python benchmarks/breakers.py [--seed 41 42 43] [--json]

Each seed makes every kind of log of breakers_logs.py once in the styles that the kinds were tuned on and once in styles
held out. A log counts as right where exactly its kinds are found. The CPU time is that of `findings` alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from breakers_logs import Case, cases

from unmoor.traffic.breakers import Watch
from unmoor.traffic.breakers.kinds import KINDS
from unmoor.traffic.entry import Prompt
from unmoor.traffic.text.pieces import BytesCutter

KEY = bytes(32)  # the same for every log: the figures are to come out the same again


@dataclass
class Score:
    """What was found in some logs, against what is in them."""

    logs: int = 0
    right: int = 0
    clean: int = 0
    clean_with_findings: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    misses: Counter[str] = field(default_factory=Counter)
    false_alarms: Counter[str] = field(default_factory=Counter)
    confusion: Counter[tuple[str, str]] = field(default_factory=Counter)
    text_bytes: int = 0
    cpu_s: float = 0.0

    def add(self, case: Case) -> None:
        """Looks at one more log."""
        watch, cutter = Watch(), BytesCutter(KEY)
        for line, entry in enumerate(case.log, 1):
            watch(line, entry)
        started = time.process_time()
        found = {breaker.what for breaker in watch.findings(cutter) or ()}
        self.cpu_s += time.process_time() - started
        self.text_bytes += sum(_size(entry.content) for entry in case.log if isinstance(entry.content, Prompt))
        self.logs += 1
        self.right += found == case.kinds
        if not case.kinds:
            self.clean += 1
            self.clean_with_findings += bool(found)
        self.hits.update(found & case.kinds)
        self.misses.update(case.kinds - found)
        self.false_alarms.update(found - case.kinds)
        # What was found beside the right kinds stands in the row of what was missed, if anything was.
        rows = sorted(case.kinds - found) or sorted(case.kinds) or ["clean"]
        self.confusion.update((kind, kind) for kind in found & case.kinds)
        self.confusion.update((row, what) for row in rows for what in found - case.kinds)
        self.confusion.update((kind, "nothing") for kind in case.kinds - found if not found - case.kinds)
        if not case.kinds and not found:
            self.confusion["clean", "nothing"] += 1

    def precision(self) -> float:
        """The share of findings that are right."""
        found = self.hits.total() + self.false_alarms.total()
        return self.hits.total() / found if found else 1.0

    def recall(self, kind: str | None = None) -> float:
        """The share of what is there that is found, of one kind or of all."""
        hits = self.hits[kind] if kind else self.hits.total()
        there = hits + (self.misses[kind] if kind else self.misses.total())
        return hits / there if there else 1.0


def score(logs: Iterable[Case]) -> Score:
    """The score of some logs together."""
    total = Score()
    for case in logs:
        total.add(case)
    return total


def _size(prompt: Prompt) -> int:
    return sum(len(text.encode()) for text in (*prompt.tools, *(part.text for part in prompt.parts)))


def _as_table(name: str, total: Score) -> str:
    """The score as Markdown."""
    columns = [*KINDS, "nothing"]
    lines = [
        f"## {name}",
        "",
        f"{total.logs} logs, {total.clean} of them clean. Exactly right: {total.right}.",
        f"Precision {total.precision():.3f}, recall {total.recall():.3f}.",
        f"Clean logs with a finding: {total.clean_with_findings}.",
        "",
        "| kind | logs with it | found | recall | false alarms |",
        "| --- | --- | --- | --- | --- |",
    ]
    for kind in KINDS:
        there = total.hits[kind] + total.misses[kind]
        lines.append(
            f"| {kind} | {there} | {total.hits[kind]} | {total.recall(kind):.3f} | {total.false_alarms[kind]} |"
        )
    lines += ["", "| in the log | " + " | ".join(columns) + " |", "| --- " * (len(columns) + 1) + "|"]
    lines += [
        f"| {row} | " + " | ".join(str(total.confusion[row, column]) for column in columns) + " |"
        for row in (*KINDS, "clean")
    ]
    return "\n".join(lines)


def main() -> None:
    """Prints both scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, nargs="+", default=[41, 42, 43])
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    scores = {
        name: score(case for seed in asked.seed for case in cases(seed, held_out=held_out))
        for name, held_out in (("Styles tuned on", False), ("Styles held out", True))
    }
    if asked.json:
        print(json.dumps({name: {"precision": s.precision(), "recall": s.recall()} for name, s in scores.items()}))
        return
    print("\n\n".join(_as_table(name, total) for name, total in scores.items()))
    text, cpu = (sum(getattr(s, of) for s in scores.values()) for of in ("text_bytes", "cpu_s"))
    print(f"\nCPU: {cpu:.0f} s for {text / 1e6:.0f} MB of prompts in {sum(s.logs for s in scores.values())} logs.")


if __name__ == "__main__":
    main()
