"""What content as text is told apart by: bytes under a key of this run's own, or a tokenizer from the user's disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unmoor.traffic.readers import Cutter


def cutter_for(tokenizer: Path | None) -> Cutter | None:
    """The cutter for a log's text."""
    return None
