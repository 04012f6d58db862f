"""One JSON line into one struct, with an error that says where it broke and never what it holds."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from unmoor.core.errors import TrafficError
from unmoor.traffic.readers.lines import Lines, broken

_Row = TypeVar("_Row")


def decoded(
    decoder: msgspec.json.Decoder[_Row], lines: Lines, number: int, text: str, *, expected: str, hint: str
) -> _Row:
    """The line as the decoder's type. Raises TrafficError for malformed JSON, a missing key or a wrong type.

    msgspec names the key and the types in its messages and quotes no value, so they can be shown.
    """
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise _wrong_value(error, lines, number, expected=expected, hint=hint) from None
    except RecursionError:
        raise broken(lines, number, "not one request", seen="deep nesting", expected=expected, hint=hint) from None
    except msgspec.DecodeError as error:
        raise broken(
            lines, number, "not a JSON object", seen=str(error).removesuffix("."), expected=expected, hint=hint
        ) from None


def _wrong_value(
    error: msgspec.ValidationError, lines: Lines, number: int, *, expected: str, hint: str
) -> TrafficError:
    said, _, at = str(error).partition(" - at `$.")
    missing = re.search(r"missing required field `(\w+)`", said)
    if missing:
        message, seen = f"missing key '{missing[1]}'", f"no '{missing[1]}'"
    else:
        message, seen = (f"wrong value for '{at.rstrip('`')}'" if at else "wrong value"), said
    return broken(lines, number, message, seen=seen, expected=expected, hint=hint)
