"""Names as people write them on a command line: text, and some of it."""

from __future__ import annotations

import click

_SHOWN = 40


def plain_text(written: str) -> str:
    """The text. Raises BadParameter for an empty one, as a variable that is not set leaves it, and for no text.

    An option's `type`.
    """
    if not written.strip():
        raise click.BadParameter("an empty name; a variable that is not set leaves one")
    try:
        written.encode()
    except UnicodeEncodeError:
        raise click.BadParameter(f"{ascii(written)[:_SHOWN]} is no text in UTF-8") from None
    if not written.isprintable():
        raise click.BadParameter(f"{ascii(written)[:_SHOWN]} has characters that cannot be printed")
    return written
