"""What content as text is told apart by: bytes under a key of this run's own, or a tokenizer from the user's disk."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from unmoor.core.errors import UsageError

if TYPE_CHECKING:
    from unmoor.traffic.readers import Cutter
    from unmoor.traffic.text.tokens import TokenCutter

_KEY_BYTES = 32
_EXPECTED = "a Hugging Face tokenizer.json, or a folder with one"
_HINT = "nothing is fetched: the file comes with the model"


def cutter_for(tokenizer: Path | None) -> Cutter:
    """The cutter for a log's text; the key of one by bytes is made here and kept nowhere.

    Of a model's folder the tokenizer, its configuration and its chat template are read; of a file named by itself the
    tokenizer alone. Raises UsageError for a path that holds none.
    """
    if tokenizer is None:
        from unmoor.traffic.text.pieces import BytesCutter

        return BytesCutter(secrets.token_bytes(_KEY_BYTES))
    return token_cutter_for(tokenizer)


def token_cutter_for(tokenizer: Path) -> TokenCutter:
    """The cutter by a tokenizer. Raises as `cutter_for`, and where the `tokens` extra is not installed."""
    from unmoor.cli.plan_files import read_file, shown
    from unmoor.traffic.text.tokens import tokenizer_cutter

    folder = tokenizer.is_dir()
    file = tokenizer / "tokenizer.json" if folder else tokenizer
    content = read_file(file, error=UsageError, expected=_EXPECTED, hint=_HINT)
    config, template = tokenizer / "tokenizer_config.json", tokenizer / "chat_template.jinja"
    return tokenizer_cutter(
        content,
        config=config.read_bytes() if folder and config.is_file() else None,
        template=template.read_text("utf-8") if folder and template.is_file() else None,
        where=shown(file),
    )
