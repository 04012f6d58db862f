"""What is said of a broken record: its kind and its size, never its content."""

from __future__ import annotations

import re

from unmoor.traffic.readers.contract import Broken

MOST_TOKENS = 10**9
MOST_TIME = 10**15  # milliseconds since 1970 fit many times over
_SHOWN = 80
# What may be echoed as it stands: a number or a time. Anything else could be a prompt.
_HARMLESS = re.compile(r"[-+\d.,:/TZ ]*|[-+]?(nan|inf|infinity)|null|true|false|None|True|False", re.IGNORECASE)
_WHOLE = re.compile(r"[-+]?[0-9]{1,18}(\.0*)?")


def cut(text: str) -> str:
    """`text` in at most 80 characters."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def shown(value: str) -> str:
    """`value` as an error may show it: numbers and times as they stand, of any other text only its length."""
    if not value.strip():
        return "nothing"
    return cut(value) if is_harmless(value) else f"a text of {len(value)} characters"


def is_harmless(value: str) -> bool:
    """Whether this is a number or a time, or what stands for none, which an error may show as it is."""
    return _HARMLESS.fullmatch(value.strip()) is not None


def in_range(name: str, value: float, *, least: float, most: float) -> None:
    """Raises Broken when `value` is not a number from `least` to `most`."""
    if not least <= value <= most:  # written so that NaN is out of range too
        raise Broken(f"'{name}' is out of range", seen=cut(repr(value)), expected=f"{least} to {most:,}")


def whole(name: str, text: str, *, least: int = 0, most: int = MOST_TOKENS) -> int:
    """A whole number in a CSV's field; "374.0", as data frames write it, is one. Raises Broken."""
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        raise Broken(f"wrong value for '{name}'", seen=cut(shown(text)), expected="a whole number")
    count = int(text.partition(".")[0])
    in_range(name, count, least=least, most=most)
    return count
