"""What content as text is told apart by: bytes under a key of this run's own, or a tokenizer from the user's disk."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from unmoor.core.errors import UsageError

if TYPE_CHECKING:
    from unmoor.traffic.readers import Cutter

_KEY_BYTES = 32


def cutter_for(tokenizer: Path | None) -> Cutter:
    """The cutter for a log's text; the key of one by bytes is made here and kept nowhere."""
    if tokenizer is None:
        from unmoor.traffic.pieces import BytesCutter

        return BytesCutter(secrets.token_bytes(_KEY_BYTES))
    raise UsageError(
        "no tokenizer is read yet",
        where=f"--tokenizer {tokenizer}",
        seen="--tokenizer",
        expected="the log without it, told apart by bytes",
        hint="leave --tokenizer out",
    )
