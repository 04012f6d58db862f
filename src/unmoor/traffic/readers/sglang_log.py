"""Requests as SGLang logs them with `--log-requests` at a level with their text, as JSON or as Python writes them.

A request is one line when it is finished, with its usage and how long it took; lines about anything else, its arrival
among them, are passed over. `--log-requests-format json` gives {"timestamp", "event": "request.finished", "rid", "obj",
"out"}; else a line is "[TIME] Finish: obj=GenerateReqInput(...), out={...}". Folders of pickled dumps are not read: a
pickle runs what is in it. At level 2, which it starts with, a text beyond 2,048 characters loses its middle, and a
request with such a prompt is broken (read in sglang 0.5.23, srt/utils/request_logger.py). A request that came as token
ids has no text until they are decoded; where only the ids are there, they are read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Blocks, Entry, Part, Prompt
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat
from unmoor.traffic.readers.docker_lines import Unwrapper, in_docker
from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.openai_body import Bodies
from unmoor.traffic.readers.python_repr import QUOTED, braces_at, end_of_text, ids_at, literal, text_at

_EXPECTED = '{"timestamp": time, "event": "request.finished", "obj": {"text": prompt}, "out": {"meta_info": {...}}}'
_STAMP = r"^\[[\d-]{10} [\d:]{8}[^\]]*\] "
_EVENT = re.compile(r'\{"timestamp": ?"[^"]*", ?"event": ?"request')
_LINE = re.compile(_STAMP + r"(?:server_args=|Receive: obj=|Finish: obj=|\{.*?\"event\": ?\"request)")
_JSON = re.compile(rb"^\s*(?:\[[\d-]{10} [\d:]{8}[^\]]*\] )?(?={)")  # JSON lines have the logger's time before them too
_FINISHED = re.compile(r"^\[([\d-]{10} [\d:]{8})[^\]]*\] Finish: obj=\w*\(")
_VALUE = rf"(?:[\w.+-]+|{QUOTED}|\[[^\]]*\]|\{{[^}}]*\}})"
_TEXT = re.compile(rf"(?:\w+={_VALUE}, )*?text=", re.DOTALL)  # before it stand names that a client may have chosen
_IDS = "None, input_ids="
_SAMPLING = re.compile(r"\bsampling_params=(?={)")
_ADAPTER = re.compile(r"\blora_path='([^']+)'")
_GAP, _GAP_AT, _CUT_TO = "...", 1024, 2051  # characters of a text in JSON that lost its middle
_OUT = re.compile(r", out=(\{.*\})\s*$", re.DOTALL)


class _Reader:
    def __init__(self) -> None:
        self._docker = Unwrapper()
        self._by_ids = False
        self._clock = Clock()
        self._bodies = Bodies()
        self._decoder = msgspec.json.Decoder(dict[str, Any])

    @property
    def grain(self) -> Grain | None:
        """Token ids are exact; of text the cutter decides."""
        return Grain(by="tokens", tokens=1) if self._by_ids else None

    @property
    def notes(self) -> Sequence[Caveat]:
        return (self._clock.note,) if self._clock.note else ()

    def read(self, record: bytes) -> tuple[Entry, ...]:
        line = self._docker.line(record)
        if line is None:
            return ()
        json = _JSON.sub(b"", line)
        if json.startswith(b"{"):
            tree: dict[str, Any] = decoded(self._decoder, json, expected=_EXPECTED)
            return self._of_json(tree)
        return self._of_text(line.decode())

    def _of_json(self, tree: Mapping[str, Any]) -> tuple[Entry, ...]:
        if tree.get("event") not in {None, "request.finished"} or not isinstance(tree.get("out"), dict):
            return ()
        asked = tree.get("obj")
        if not isinstance(asked, dict):
            raise _without_text()
        text, ids = asked.get("text"), asked.get("input_ids")
        if isinstance(text, str):
            if len(text) == _CUT_TO and text.startswith(_GAP, _GAP_AT):
                raise _cut_off()
            content: Prompt | Blocks = _prompt(text)
        elif text is None and isinstance(ids, list) and ids:
            if _GAP in ids:
                raise _cut_off()
            if not all(type(token) is int for token in ids):
                raise _without_text()
            content = Blocks(ids, 1)
        else:
            raise _without_text()
        sampling = asked.get("sampling_params")
        return (self._entry(tree.get("timestamp"), content, sampling, tree["out"], asked.get("lora_path")),)

    def _of_text(self, line: str) -> tuple[Entry, ...]:
        finished = _FINISHED.match(line)
        if finished is None:
            return ()
        found = _TEXT.match(line, finished.end())
        place = found.end() if found else finished.end()
        text, after = text_at(line, place), end_of_text(line, place)
        ids: list[int] = []
        if found and line.startswith(_IDS, place):
            ids, after = ids_at(line, place + len(_IDS))
        out = _OUT.search(line, after)  # what a prompt says of itself is not looked at
        if found is None or (text is None and not ids) or out is None:
            raise _without_text()
        if line.startswith(f" {_GAP} ", after):
            raise _cut_off()
        sampling, adapter = _SAMPLING.search(line, after), _ADAPTER.search(line, after)
        told = literal(out[1])
        return (
            self._entry(
                finished[1].replace(" ", "T"),
                Blocks(ids, 1) if text is None else _prompt(text),
                literal(braces_at(line, sampling.end()) or "") if sampling else None,
                told if isinstance(told, dict) else {},
                adapter[1] if adapter else None,
            ),
        )

    def _entry(
        self, at: object, content: Prompt | Blocks, sampling: object, out: Mapping[str, Any], adapter: object
    ) -> Entry:
        """A request at its arrival: the line's time less how long it took."""
        usage = out.get("meta_info")
        usage = usage if isinstance(usage, dict) else {}
        asked = sampling if isinstance(sampling, dict) else {}
        settings = self._bodies.asked_of({**asked, "max_tokens": asked.get("max_new_tokens")})
        took = usage.get("e2e_latency")
        took_s = float(took) if isinstance(took, int | float) and took >= 0 else None
        self._by_ids |= isinstance(content, Blocks)
        return Entry(
            at_s=None if at is None else self._clock.seconds(at) - (took_s or 0.0),
            input_tokens=len(content.ids) if isinstance(content, Blocks) else _count(usage.get("prompt_tokens")),
            output_tokens=_count(usage.get("completion_tokens")),
            content=content,
            adapter=adapter if isinstance(adapter, str) else None,
            schema=settings.schema,
            took_s=took_s,
            sampling=settings.sampling,
        )


def _prompt(text: str) -> Prompt:
    return Prompt(parts=(Part("", text),))


def _without_text() -> Broken:
    seen = "neither a text nor token ids"
    return Broken("a request without its prompt", seen=seen, expected="one prompt, and --log-requests-level 2 or 3")


def _cut_off() -> Broken:
    return Broken("a prompt that is cut off", seen="a prompt without its middle", expected="--log-requests-level 3")


def _count(tokens: object) -> int | None:
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def _looks_like(first: FirstLine) -> bool:
    if isinstance(first.keys.get("obj"), dict):
        return str(first.keys.get("event", "request.")).startswith("request.")
    wrapped = in_docker(first.keys)
    if wrapped and _EVENT.match(wrapped):
        return True
    return _LINE.match(wrapped or first.text) is not None


FORMAT = RecordFormat(name="sglang-log", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
