"""Mooncake traces: JSON lines with chained hashes of 512-token blocks.

Source: the FAST '25 release of kvcache-ai/Mooncake, whose README defines the fields. Hashes are chained, so equal
ids mean equal prefixes.
"""

from __future__ import annotations

import msgspec

from unmoor.core.traffic import Request, Segment
from unmoor.traffic.readers.contract import FirstLine, Reading, TraceFormat
from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.lines import MOST_TIME, MOST_TOKENS, Lines, broken, in_range

BLOCK_TOKENS = 512
_EXPECTED = '{"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [id, ...]}'
_HINT = "a Mooncake trace has one such object a line; docs/reference/traffic.md describes it"


class _Row(msgspec.Struct, frozen=True):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


def _looks_like(first: FirstLine) -> bool:
    # Bailian traces have the same fields with blocks of 16 tokens, and a chat_id beside them.
    return {"timestamp", "input_length", "hash_ids"} <= first.keys.keys() and "chat_id" not in first.keys


def _read(lines: Lines) -> Reading:
    decoder = msgspec.json.Decoder(_Row)
    requests = []
    for number, text in lines.filled():
        row = decoded(decoder, lines, number, text, expected=_EXPECTED, hint=_HINT)
        _check(lines, number, row)
        requests.append(
            Request(
                arrival_s=row.timestamp / 1000,
                input_tokens=row.input_length,
                output_tokens=row.output_length,
                segments=_segments(row),
            )
        )
    return Reading(requests=tuple(requests), overlap_block_tokens=BLOCK_TOKENS)


def _check(lines: Lines, number: int, row: _Row) -> None:
    in_range(lines, number, "timestamp", row.timestamp, least=0, most=MOST_TIME, hint=_HINT)
    in_range(lines, number, "input_length", row.input_length, least=1, most=MOST_TOKENS, hint=_HINT)
    in_range(lines, number, "output_length", row.output_length, least=1, most=MOST_TOKENS, hint=_HINT)
    blocks = -(-row.input_length // BLOCK_TOKENS)
    if len(row.hash_ids) != blocks:
        raise broken(
            lines,
            number,
            "the hashes do not cover the prompt",
            seen=f"{len(row.hash_ids)} hash_ids for input_length = {row.input_length}",
            expected=f"{blocks} hash_ids, one for each block of {BLOCK_TOKENS} tokens",
            hint="a trace with blocks of another size is another format; docs/reference/traffic.md lists them",
        )


def _segments(row: _Row) -> tuple[Segment, ...]:
    last = len(row.hash_ids) - 1
    remainder = row.input_length - last * BLOCK_TOKENS
    return tuple(
        Segment(name=str(name), tokens=BLOCK_TOKENS if place < last else remainder)
        for place, name in enumerate(row.hash_ids)
    )


FORMAT = TraceFormat(name="mooncake", expected=_EXPECTED, looks_like=_looks_like, read=_read)
