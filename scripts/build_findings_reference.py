"""Writes docs/reference/findings.md from the kinds of findings themselves; a test fails when the page is another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from unmoor.leave.checks.registry import kinds
from unmoor.leave.finding import Kind

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "findings.md"
HEAD = """\
# Findings

Made by `python scripts/build_findings_reference.py` from the checks themselves; do not edit it by hand. The command
`unmoor explain ID` tells the same.

An id stays what it is, whatever its words become. How a finding is classed (same, translated, lost), and what else it
says, is in [move-check.md](move-check.md). Threads are places in public where somebody was bitten, with the day on
which they were looked at.
"""


def section(kind: Kind) -> Iterator[str]:
    """One kind's part of the page, line by line."""
    yield f"## {kind.id} {kind.name}"
    yield ""
    yield f"**{kind.title}.** {kind.bites}"
    yield ""
    yield f"Found by: {kind.look}"
    yield ""
    yield f"To do: {kind.mend}"
    if kind.threads:
        days = sorted({thread.seen for thread in kind.threads})
        yield ""
        yield f"Threads: {', '.join(thread.name for thread in kind.threads)} (seen {', '.join(days)})."
    yield ""


def page() -> str:
    """The whole page as Markdown, the kinds in the order of their ids."""
    known = kinds()
    listed = [f"| [{kind}](#{kind.lower()}-{known[kind].name}) | {known[kind].title} |" for kind in sorted(known)]
    table = ["| id | what |", "| --- | --- |", *listed, ""]
    return "\n".join([HEAD, *table, *(line for kind in sorted(known) for line in section(known[kind]))])


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
