"""One kind of finding, explained."""

from __future__ import annotations

from unmoor.leave.finding import Kind
from unmoor.report.layout import wrapped


def render(kind: Kind) -> str:
    """What bites, how it is found, what to do, and who was bitten."""
    lines = [f"{kind.id} {kind.name}", f"  {kind.title}", ""]
    lines += [*wrapped(kind.bites, "  "), "", *wrapped(kind.look, "  found by  "), *wrapped(kind.mend, "  to do     ")]
    for thread in kind.threads:
        lines += wrapped(f"{thread.name}, seen {thread.seen}", "  thread    ")
    return "\n".join(lines)
