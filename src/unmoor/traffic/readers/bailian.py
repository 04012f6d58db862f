"""Qwen-Bailian traces: JSON lines with hashes of 16-token blocks, and chats as turns that name their parent.

Source: alibaba-edu/qwen-bailian-usagetraces-anon, whose README defines the fields. A session is named by the first
request of its chain of parents. Where the last, partial block has no hash, nothing is known of it and it is taken to be
like no other. `type` says what kind of request it was; the kinds are counted in a note.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Blocks, Entry
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import FirstLine, RecordFormat
from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.kinds import Kinds
from unmoor.traffic.readers.lines import MOST_TOKENS, in_range
from unmoor.traffic.readers.mooncake import blocks_of

BLOCK_TOKENS = 16
_NO_PARENT = -1
_EXPECTED = (
    '{"chat_id": id, "parent_chat_id": id or -1, "timestamp": s, "input_length": tokens, "output_length": tokens, '
    '"type": kind, "turn": n, "hash_ids": [id, ...]}'
)


class _Row(msgspec.Struct, frozen=True, gc=False):
    chat_id: int | str
    timestamp: float
    input_length: int
    output_length: int
    hash_ids: list[int]
    parent_chat_id: int | str | None = None
    type: str | None = None


class _Reader:
    grain: Grain | None = Grain(by="blocks", tokens=BLOCK_TOKENS)

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Row)
        self._clock = Clock(unit="s")
        self._root: dict[int | str, int | str] = {}  # of a later turn, its session's first; first turns are their own
        self._kinds = Kinds()

    @property
    def notes(self) -> Sequence[Caveat]:
        return self._kinds.notes

    def read(self, record: bytes) -> tuple[Entry, ...]:
        row = decoded(self._decoder, record, expected=_EXPECTED)
        in_range("input_length", row.input_length, least=1, most=MOST_TOKENS)
        in_range("output_length", row.output_length, least=0, most=MOST_TOKENS)
        content = _content(row)
        at_s = self._clock.seconds(row.timestamp)
        self._kinds.count(row.type)
        return (Entry(at_s, row.input_length, row.output_length, content, session=str(self._session(row))),)

    def _session(self, row: _Row) -> int | str:
        parent = row.parent_chat_id
        if parent is None or parent in (_NO_PARENT, str(_NO_PARENT), row.chat_id):
            return row.chat_id
        root = self._root.get(parent, parent)
        self._root[row.chat_id] = root
        return root


def _content(row: _Row) -> Blocks:
    if len(row.hash_ids) == row.input_length // BLOCK_TOKENS:
        return Blocks(ids=row.hash_ids, block_tokens=BLOCK_TOKENS)
    return blocks_of(row.hash_ids, row.input_length, BLOCK_TOKENS)


def _looks_like(first: FirstLine) -> bool:
    return {"timestamp", "input_length", "hash_ids", "chat_id"} <= first.keys.keys()


FORMAT = RecordFormat(name="bailian", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
