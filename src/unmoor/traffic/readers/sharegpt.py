"""ShareGPT dialogues: a JSON array, or one a line; each answer is one request, whose prompt is all that came before.

A dialogue has no times, so requests keep the order of the file, and their lengths are derived from the text. A dialogue
is a session. Turns before which nothing was said, and whatever follows the last answer, ask for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Entry, Part, Prompt
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat
from unmoor.traffic.readers.json_lines import decoded

_EXPECTED = '{"id": name, "conversations": [{"from": "human" or "gpt", "value": text}, ...]}'
_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
    "function_call": "assistant",
    "observation": "tool",
}


class _Turn(msgspec.Struct, frozen=True):
    speaker: str = msgspec.field(name="from", default="")
    value: str = ""
    role: str = ""
    content: str = ""


class _Dialogue(msgspec.Struct, frozen=True):
    conversations: list[_Turn] | None = None
    conversation: list[_Turn] | None = None
    items: list[_Turn] | None = None
    id: str | int | None = None
    model: str | None = None


class _Reader:
    grain: Grain | None = None
    notes: Sequence[Caveat] = ()

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Dialogue)
        self._count = 0

    def read(self, record: bytes) -> list[Entry]:
        dialogue = decoded(self._decoder, record, expected=_EXPECTED)
        turns = dialogue.conversations or dialogue.conversation or dialogue.items
        if turns is None:
            raise Broken("missing key 'conversations'", seen="no 'conversations'", expected=_EXPECTED)
        self._count += 1
        session = str(self._count) if dialogue.id is None else f"{dialogue.id}/{self._count}"
        return list(_entries(turns, session, dialogue.model or None))


def _entries(turns: Sequence[_Turn], session: str, model: str | None) -> Iterator[Entry]:
    parts: list[Part] = []
    for turn in turns:
        role = _ROLES.get((turn.speaker or turn.role).casefold())
        if role is None:
            raise Broken("a speaker that is not known", seen="a name of another kind", expected=", ".join(_ROLES))
        text = turn.value or turn.content
        if role == "assistant" and parts:
            messages = tuple({"role": part.role, "content": part.text} for part in parts)
            prompt = Prompt(parts=tuple(parts), messages=messages)
            yield Entry(None, None, None, prompt, session=session, model=model, answer_bytes=len(text.encode()))
        parts.append(Part(role=role, text=text))


def _looks_like(first: FirstLine) -> bool:
    said = first.keys.get("conversations") or first.keys.get("conversation") or first.keys.get("items")
    if not isinstance(said, list) or not said or not isinstance(said[0], dict):
        return False
    return bool({"from", "value"} <= said[0].keys() or {"role", "content"} <= said[0].keys())


FORMAT = RecordFormat(name="sharegpt", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
