"""Qwen-Bailian traces: JSON lines with hashes of 16-token blocks, and chats as turns that name their parent.

Source: alibaba-edu/qwen-bailian-usagetraces-anon, whose README defines the fields. A session is named by the first
request of its chain of parents. Where the last, partial block has no hash, nothing is known of it and it is taken to be
like no other. `type` says what kind of request it was; the kinds are counted in a note.
"""

from __future__ import annotations

from array import array
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
_FIRST_IDS, _MOST_ID = 100_000, 2**62
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
        self._roots = _Roots()
        self._kinds = Kinds(("text", "search", "image", "file", "video", "audio", "thinking", "coder"))

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
        root = self._roots.of(parent)
        self._roots.keep(row.chat_id, root)
        return root


class _Roots:
    """Of a later turn, its session's first; a first turn is its own. Ids that count up, as published, cost 8 bytes."""

    def __init__(self) -> None:
        self._dense = array("q")
        self._others: dict[int | str, int | str] = {}

    def of(self, chat: int | str) -> int | str:
        if isinstance(chat, int) and 0 <= chat < len(self._dense) and self._dense[chat] != _NO_PARENT:
            return self._dense[chat]
        return self._others.get(chat, chat)

    def keep(self, chat: int | str, root: int | str) -> None:
        size = len(self._dense)
        if not (isinstance(chat, int) and isinstance(root, int)) or not (
            0 <= chat < 2 * size + _FIRST_IDS and 0 <= root < _MOST_ID
        ):
            self._others[chat] = root
            return
        if chat >= size:
            self._dense.extend([_NO_PARENT] * (chat + 1 - size))
        self._dense[chat] = root


def _content(row: _Row) -> Blocks:
    if len(row.hash_ids) == row.input_length // BLOCK_TOKENS:
        return Blocks(ids=row.hash_ids, block_tokens=BLOCK_TOKENS)
    return blocks_of(row.hash_ids, row.input_length, BLOCK_TOKENS)


def _looks_like(first: FirstLine) -> bool:
    return {"timestamp", "input_length", "hash_ids", "chat_id"} <= first.keys.keys()


FORMAT = RecordFormat(name="bailian", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
