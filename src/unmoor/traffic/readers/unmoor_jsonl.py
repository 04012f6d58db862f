"""Our own format: a header line, then one request a line. `traffic.synthesis.to_jsonl` writes it.

It describes traffic that can be replayed, so an answer has at least one token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.core.traffic import Request
from unmoor.traffic.entry import Entry, Segments
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat, Unreadable
from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.lines import MOST_TIME, MOST_TOKENS, in_range

VERSION = 1
_HEADER = '{"unmoor_traffic": 1, "overlap_block_tokens": tokens or null}'
_LINE = '{"arrival_s": seconds, "input_tokens": n, "output_tokens": n, "segments": [[name, tokens], ...]}'
_MARK = b'"unmoor_traffic"'


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line. `made_by` says how the file can be made again; it is not read."""

    unmoor_traffic: int
    overlap_block_tokens: int | None
    made_by: dict[str, Any] | None = None


class _Reader:
    notes: Sequence[Caveat] = ()

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(Request)
        self._header: Header | None = None

    @property
    def grain(self) -> Grain | None:
        tokens = self._header.overlap_block_tokens if self._header else None
        return Grain(by="segments", tokens=tokens) if tokens else None

    def read(self, record: bytes) -> tuple[Entry, ...]:
        if self._header is None or _MARK in record:
            self._take(_header(record))
            return ()
        request = decoded(self._decoder, record, expected=_LINE)
        told_apart = self._header.overlap_block_tokens is not None
        _check(request, told_apart=told_apart)
        return (
            Entry(
                at_s=request.arrival_s,
                input_tokens=request.input_tokens,
                output_tokens=request.output_tokens,
                content=Segments(request.segments) if told_apart else None,
                session=request.session,
                adapter=request.adapter,
                schema=request.schema,
            ),
        )

    def _take(self, header: Header) -> None:
        """Keeps the header; in a folder each file has one, and all must tell content apart alike."""
        if self._header and self._header.overlap_block_tokens != header.overlap_block_tokens:
            raise Unreadable(
                "another file of the folder tells content apart otherwise",
                seen=f"overlap_block_tokens = {header.overlap_block_tokens}",
                expected=f"overlap_block_tokens = {self._header.overlap_block_tokens}",
            )
        self._header = header


def _header(record: bytes) -> Header:
    try:
        header = decoded(msgspec.json.Decoder(Header), record, expected=_HEADER)
        if header.overlap_block_tokens is not None:
            in_range("overlap_block_tokens", header.overlap_block_tokens, least=1, most=MOST_TOKENS)
    except Broken as error:
        raise Unreadable(error.message, seen=error.seen, expected=error.expected) from None
    if header.unmoor_traffic != VERSION:
        raise Unreadable(
            "a version of the format that is not known",
            seen=f"unmoor_traffic = {header.unmoor_traffic}",
            expected=f"unmoor_traffic = {VERSION}; a newer Unmoor may have written it",
        )
    return header


def _check(request: Request, *, told_apart: bool) -> None:
    in_range("arrival_s", request.arrival_s, least=0, most=MOST_TIME)
    in_range("input_tokens", request.input_tokens, least=1, most=MOST_TOKENS)
    in_range("output_tokens", request.output_tokens, least=1, most=MOST_TOKENS)
    for segment in request.segments:
        in_range("segments[...].tokens", segment.tokens, least=1, most=MOST_TOKENS)
    total = sum(segment.tokens for segment in request.segments)
    if total != (request.input_tokens if told_apart else 0):
        raise Broken(
            "the segments do not add up to the prompt",
            seen=f"{total} tokens in {len(request.segments)} segments",
            expected=f"input_tokens = {request.input_tokens}"
            if told_apart
            else "no segments: overlap_block_tokens is null",
        )


def _looks_like(first: FirstLine) -> bool:
    return "unmoor_traffic" in first.keys


FORMAT = RecordFormat(name="unmoor", expected=_HEADER, looks_like=_looks_like, start=_Reader)
