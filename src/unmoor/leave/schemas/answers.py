"""What a grammar library, or the table, says of one constraint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import msgspec

Verdict = Literal["enforced", "leaks", "blocks", "refused", "unknown"]


class Keyword(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one keyword of a schema; `at` is the JSON pointer of the place ("/properties/age/multipleOf").

    No name of a property is in `at` beyond what `--show-text` allows: places are numbered ("/properties/2/multipleOf").
    """

    keyword: str
    at: str
    verdict: Verdict
    note: str = ""


class SchemaAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one side makes of one constraint.

    `verdict` is the worst of its keywords. `by` is the library that was asked, with its version ("xgrammar 0.2.8"), or
    "table". `strict_objects`: whether properties that the schema does not name are kept out; None: it has no such
    place, or it could not be told. `backend` is what the server gives it to. `too_large` is set where it is more than
    is tried here, or its library took more time or memory than one constraint may.
    """

    verdict: Verdict
    by: str
    keywords: tuple[Keyword, ...] = ()
    strict_objects: bool | None = None
    note: str = ""
    backend: str = ""
    too_large: bool = False


@dataclass(frozen=True, slots=True)
class SchemaAnswers:
    """The answers of both sides, by `Constraint.key`; `not_asked` says in words what could not be asked, and why."""

    source: Mapping[str, SchemaAnswer]
    target: Mapping[str, SchemaAnswer]
    not_asked: tuple[str, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)
