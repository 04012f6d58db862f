"""Mooncake traces: JSON lines with chained hashes of 512-token blocks.

Source: the FAST '25 release of kvcache-ai/Mooncake, whose README defines the fields. Hashes are chained, so equal
ids mean equal prefixes. An answer of 0 tokens is kept: a request that was cut short, or failed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Blocks, Entry
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat
from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.lines import MOST_TIME, MOST_TOKENS, in_range

BLOCK_TOKENS = 512
_EXPECTED = '{"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [id, ...]}'


class _Row(msgspec.Struct, frozen=True, gc=False):
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]


def blocks_of(hash_ids: Sequence[int], input_tokens: int, block_tokens: int) -> Blocks:
    """The prompt as blocks. Raises Broken when there is not one hash for each, the last of which may be partial."""
    count = -(-input_tokens // block_tokens)
    if len(hash_ids) != count:
        raise Broken(
            "the hashes do not cover the prompt",
            seen=f"{len(hash_ids)} hash_ids for input_length = {input_tokens}",
            expected=f"{count} hash_ids, one for each block of {block_tokens} tokens",
        )
    return Blocks(ids=hash_ids, block_tokens=block_tokens)


class _Reader:
    grain: Grain | None = Grain(by="blocks", tokens=BLOCK_TOKENS)
    notes: Sequence[Caveat] = ()

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Row)

    def read(self, record: bytes) -> tuple[Entry, ...]:
        row = decoded(self._decoder, record, expected=_EXPECTED)
        in_range("timestamp", row.timestamp, least=0, most=MOST_TIME)
        in_range("input_length", row.input_length, least=1, most=MOST_TOKENS)
        in_range("output_length", row.output_length, least=0, most=MOST_TOKENS)
        content = blocks_of(row.hash_ids, row.input_length, BLOCK_TOKENS)
        return (Entry(row.timestamp / 1000, row.input_length, row.output_length, content),)


def _looks_like(first: FirstLine) -> bool:
    # Bailian traces have the same fields with blocks of 16 tokens, and a chat_id beside them.
    return {"timestamp", "input_length", "hash_ids"} <= first.keys.keys() and "chat_id" not in first.keys


FORMAT = RecordFormat(name="mooncake", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
