"""What cannot be trusted in a result file: a doubt with its code, its figures, its evidence and its source."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Severity(StrEnum):
    """What a finding does to the figures it names."""

    VOID = "void"  # they cannot be used
    OTHERWISE = "read_otherwise"  # they say something else than their name does
    NOTE = "note"  # to know, beside them


class Basis(StrEnum):
    """How a finding is known."""

    FILE = "file"  # the file itself shows it
    TOOL = "tool"  # the tool is known to do so, in the version named


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One doubt. `code` is stable; `figures` are what it concerns; `evidence` is what the file has of it.

    `source` and `as_of` say where and when a behaviour of the tool was seen; both None for what the file shows.
    """

    code: str
    severity: Severity
    figures: tuple[str, ...]
    text: str
    evidence: str
    basis: Basis = Basis.FILE
    source: str | None = None
    as_of: str | None = None
