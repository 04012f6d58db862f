"""A server's log with `--enable-log-requests`: its lines about requests, among others that are passed over.

Read in the sources of vLLM 0.32: prompts are only in it at the level of debugging, as "Request ID details: prompt:
TEXT", before "Received request ID: params: ..."; older versions have both in one line. The text is that after the chat
template. Times have no year, and the answers' lengths are not in it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Entry, Part, Prompt
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat
from unmoor.traffic.readers.python_repr import end_of_text, text_at

_EXPECTED = "lines of a server's log, some of them 'Received request ID: ...', with prompts (--log-level DEBUG)"
_LINE = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[")
_TIME = re.compile(r"\b(\d\d)-(\d\d) (\d\d:\d\d:\d\d)\b")
_DETAILS = re.compile(r"\] Request (\S+) details: prompt: ")
_RECEIVED = re.compile(r"\] Received request (\S+?): (prompt: |params: )")
_CUT = re.compile(r"\] (?:non-default )?args: .*\bmax_log_len(?:': |=)(\d+)")
_IDS = re.compile(r"prompt_token_ids: \[([\d, ]*)\]")
_ADAPTER = re.compile(r"lora_request: LoRARequest\(.*?lora_name='([^']*)'")
_STRUCTURED = re.compile(r"StructuredOutputsParams\((.*?)\)(?:, extra_args=|\)|$)")
_CONSTRAINTS = ("json", "regex", "choice", "grammar", "json_object")
_NUMBER = r"=(-?[\d.]+|None|True|False)\b"
_SAMPLING = {
    name: re.compile(rf"\b{name}{_NUMBER}")
    for name in ("n", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "max_tokens")
}
_YEAR = "2024"  # the log names none; a leap year has every day


class _Reader:
    grain: Grain | None = None

    def __init__(self) -> None:
        self._clock = Clock()
        self._prompts: dict[str, tuple[str, int | None]] = {}
        self._longest: int | None = None  # prompts are cut there, and nothing in their lines shows it

    @property
    def notes(self) -> Sequence[Caveat]:
        return (self._clock.note,) if self._clock.note else ()

    def read(self, record: bytes) -> tuple[Entry, ...]:
        line = record.decode()
        if details := _DETAILS.search(line):
            self._prompts[details[1]] = (self._prompt(line, details.end()), _count(line))
            return ()
        received = _RECEIVED.search(line)
        if received is None:
            cut = _CUT.search(line)
            self._longest = int(cut[1]) if cut else self._longest
            return ()
        if "params: PoolingParams(" in line:
            return ()
        if received[2] == "prompt: ":
            text, count = self._prompt(line, received.end()), _count(line)
            told = line[end_of_text(line, received.end()) :]
        elif received[1] in self._prompts:
            (text, count), told = self._prompts.pop(received[1]), line
        else:
            raise Broken(
                "a request without its prompt",
                seen="no prompt logged",
                expected="a log with prompts, which VLLM_LOGGING_LEVEL=DEBUG makes",
            )
        return (self._entry(line, told, text, count),)

    def _prompt(self, line: str, place: int) -> str:
        text = text_at(line, place)
        if text is None:
            raise Broken("a prompt that is no whole text", seen="no quoted text", expected="a prompt as text")
        if self._longest is not None and len(text) >= self._longest:
            seen = f"max_log_len = {self._longest}"
            raise Broken("a prompt that is cut off", seen=seen, expected="no --max-log-len")
        return text

    def _entry(self, line: str, told: str, text: str, count: int | None) -> Entry:
        adapter = _ADAPTER.search(told)
        time = _TIME.search(line)
        if time is None:
            raise Broken("a request without a time", seen="no time", expected="MM-DD HH:MM:SS")
        return Entry(
            at_s=self._clock.seconds(f"{_YEAR}-{time[1]}-{time[2]}T{time[3]}"),
            input_tokens=count,
            output_tokens=None,
            content=Prompt(parts=(Part("", text),)),
            adapter=adapter[1] if adapter else None,
            schema=_schema(told),
            sampling=_sampling(told),
        )


def _count(line: str) -> int | None:
    ids = _IDS.search(line)
    return ids[1].count(",") + 1 if ids and ids[1] else None


def _schema(told: str) -> str | None:
    """The structured output that is asked for, as its kind and a hash of how it is written."""
    found = _STRUCTURED.search(told)
    for name in _CONSTRAINTS if found else ():
        written = re.search(rf"\b{name}=(?!None\b|False\b)(.*?)(?:, \w+=|$)", found[1]) if found else None
        if written:
            kind = "json_schema" if name == "json" else name
            return f"{kind}:{hashlib.blake2b(written[1].encode(), digest_size=6).hexdigest()}"
    return None


def _sampling(told: str) -> dict[str, object]:
    values = {name: found[1] for name, pattern in _SAMPLING.items() if (found := pattern.search(told))}
    return {name: float(value) if value[-1].isdigit() else value for name, value in values.items() if value != "None"}


def _looks_like(first: FirstLine) -> bool:
    return _LINE.search(first.text) is not None


FORMAT = RecordFormat(name="vllm-log", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
