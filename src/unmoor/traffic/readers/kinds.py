"""What kinds of request a log says it holds, counted for a note."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from unmoor.core.evidence import Caveat

_OTHER = "other kinds"


class Kinds:
    """Counts requests by the kind that the log gives them; kinds that are not `known`, as others."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self._counts: Counter[str] = Counter()

    def count(self, kind: str | None) -> None:
        """Counts one request; None and an empty name count nothing."""
        if not kind:
            return
        self._counts[kind if kind in self._known else _OTHER] += 1

    @property
    def notes(self) -> tuple[Caveat, ...]:
        """One note (`request_kinds`) where the log holds more than one kind, the most frequent first."""
        if len(self._counts) < 2:  # noqa: PLR2004 - one kind is nothing to tell apart
            return ()
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self._counts.most_common())
        return (Caveat(code="request_kinds", text=f"The log holds requests of several kinds: {counts}."),)
