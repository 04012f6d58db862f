"""Our own format: a header line, then one request a line. `traffic.synthesis.to_jsonl` writes it."""

from __future__ import annotations

from typing import Any

import msgspec

from unmoor.core.traffic import Request
from unmoor.traffic.readers.contract import FirstLine, Reading, TraceFormat
from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.lines import MOST_TIME, MOST_TOKENS, Lines, broken, in_range

VERSION = 1
_HEADER = '{"unmoor_traffic": 1, "overlap_block_tokens": tokens or null}'
_LINE = '{"arrival_s": seconds, "input_tokens": n, "output_tokens": n, "segments": [[name, tokens], ...]}'
_HINT = "`unmoor generate` writes this format; docs/reference/traffic.md describes it"


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line. `made_by` says how the file can be made again; it is not read."""

    unmoor_traffic: int
    overlap_block_tokens: int | None
    made_by: dict[str, Any] | None = None


def _looks_like(first: FirstLine) -> bool:
    return "unmoor_traffic" in first.keys


def _read(lines: Lines) -> Reading:
    filled = lines.filled()
    number, text = next(filled)
    header = decoded(msgspec.json.Decoder(Header), lines, number, text, expected=_HEADER, hint=_HINT)
    _check_header(lines, number, header)
    decoder = msgspec.json.Decoder(Request)
    requests = []
    for place, row in filled:
        request = decoded(decoder, lines, place, row, expected=_LINE, hint=_HINT)
        _check(lines, place, request, told_apart=header.overlap_block_tokens is not None)
        requests.append(request)
    return Reading(requests=tuple(requests), overlap_block_tokens=header.overlap_block_tokens, from_first=False)


def _check_header(lines: Lines, number: int, header: Header) -> None:
    if header.unmoor_traffic != VERSION:
        raise broken(
            lines,
            number,
            "a version of the format that is not known",
            seen=f"unmoor_traffic = {header.unmoor_traffic}",
            expected=f"unmoor_traffic = {VERSION}",
            hint="a newer Unmoor may have written it",
        )
    if header.overlap_block_tokens is not None:
        in_range(
            lines, number, "overlap_block_tokens", header.overlap_block_tokens, least=1, most=MOST_TOKENS, hint=_HINT
        )


def _check(lines: Lines, number: int, request: Request, *, told_apart: bool) -> None:
    in_range(lines, number, "arrival_s", request.arrival_s, least=0, most=MOST_TIME, hint=_HINT)
    in_range(lines, number, "input_tokens", request.input_tokens, least=1, most=MOST_TOKENS, hint=_HINT)
    in_range(lines, number, "output_tokens", request.output_tokens, least=1, most=MOST_TOKENS, hint=_HINT)
    for segment in request.segments:
        in_range(lines, number, "segments[...].tokens", segment.tokens, least=1, most=MOST_TOKENS, hint=_HINT)
    total = sum(segment.tokens for segment in request.segments)
    if total != (request.input_tokens if told_apart else 0):
        expected = (
            f"input_tokens = {request.input_tokens}" if told_apart else "no segments: overlap_block_tokens is null"
        )
        raise broken(
            lines,
            number,
            "the segments do not add up to the prompt",
            seen=f"{total} tokens in {len(request.segments)} segments",
            expected=expected,
            hint=_HINT,
        )


FORMAT = TraceFormat(name="unmoor", expected=_HEADER, looks_like=_looks_like, read=_read)
