"""One JSON record into one struct, with an error that says where it broke and never what it holds."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from unmoor.traffic.readers.contract import Broken

_Row = TypeVar("_Row")


def decoded(decoder: msgspec.json.Decoder[_Row], record: bytes, *, expected: str) -> _Row:
    """The record as the decoder's type. Raises Broken for malformed JSON, a missing key or a wrong type.

    msgspec names the key and the types in its messages and quotes no value, so they can be shown.
    """
    try:
        return decoder.decode(record)
    except msgspec.ValidationError as error:
        raise _wrong_value(error, expected=expected) from None
    except RecursionError:
        raise Broken("not one request", seen="deep nesting", expected=expected) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        seen = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error).removesuffix(".")
        raise Broken("not a JSON object", seen=seen, expected=expected) from None


def _wrong_value(error: msgspec.ValidationError, *, expected: str) -> Broken:
    said, _, at = str(error).partition(" - at `$.")
    missing = re.search(r"missing required field `(\w+)`", said)
    if missing:
        return Broken(f"missing key '{missing[1]}'", seen=f"no '{missing[1]}'", expected=expected)
    return Broken(f"wrong value for '{at.rstrip('`')}'" if at else "wrong value", seen=said, expected=expected)
