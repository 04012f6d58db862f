"""Azure LLM inference traces: CSV with a clock time and two lengths a line; nothing is said of content.

Source: Azure/AzurePublicDataset, AzureLLMInferenceTrace (Patel et al., Splitwise, ISCA 2024). Times carry seven
decimals (0.1 us), of which six are kept; published files end their lines with CRLF and others were seen with LF.
"""

from __future__ import annotations

import datetime as dt
import re

from unmoor.core.traffic import Request
from unmoor.traffic.readers.contract import FirstLine, Reading, TraceFormat
from unmoor.traffic.readers.lines import MOST_TOKENS, Lines, broken, cut, in_range, shown

_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_EXPECTED = ",".join(_COLUMNS)
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_HINT = "an Azure trace is a CSV with these three columns; docs/reference/traffic.md describes it"


def _looks_like(first: FirstLine) -> bool:
    return first.columns == _COLUMNS


def _read(lines: Lines) -> Reading:
    filled = lines.filled()
    number, header = next(filled)
    if _fields(header) != _COLUMNS:
        count = len(_fields(header))
        raise broken(
            lines, number, "not the header of an Azure trace", seen=f"{count} columns", expected=_EXPECTED, hint=_HINT
        )
    return Reading(requests=tuple(_request(lines, n, text) for n, text in filled), overlap_block_tokens=None)


def _fields(text: str) -> tuple[str, ...]:
    return tuple(field.strip() for field in text.split(","))


def _request(lines: Lines, number: int, text: str) -> Request:
    fields = _fields(text)
    if len(fields) != len(_COLUMNS):
        raise broken(
            lines, number, "wrong number of columns", seen=f"{len(fields)} columns", expected=_EXPECTED, hint=_HINT
        )
    return Request(
        arrival_s=_clock_s(lines, number, fields[0]),
        input_tokens=_count(lines, number, _COLUMNS[1], fields[1]),
        output_tokens=_count(lines, number, _COLUMNS[2], fields[2]),
    )


def _clock_s(lines: Lines, number: int, text: str) -> float:
    """Seconds since 1970; a time without a zone is read as UTC."""
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise broken(
            lines,
            number,
            "wrong value for 'TIMESTAMP'",
            seen=shown(text),
            expected="a date and time like 2023-11-16 18:15:46.6805900",
            hint=_HINT,
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp()


def _count(lines: Lines, number: int, name: str, text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise broken(
            lines,
            number,
            f"wrong value for '{name}'",
            seen=cut(shown(text)),
            expected="a whole number of tokens",
            hint=_HINT,
        )
    count = int(text)
    in_range(lines, number, name, count, least=1, most=MOST_TOKENS, hint=_HINT)
    return count


FORMAT = TraceFormat(name="azure", expected=_EXPECTED, looks_like=_looks_like, read=_read)
