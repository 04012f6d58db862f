"""A server's log with `--enable-log-requests`: its lines about requests, among others that are passed over.

Read in the sources of vLLM 0.32: prompts are only in it at the level of debugging, as "Request ID details: prompt:
TEXT", before "Received request ID: params: ..."; older versions have both in one line. The text is that after the chat
template; a prompt that came as token ids has none, and its ids are read. Times have no year, and the answers' lengths
are not in it. A line is known by its head: what follows may quote a prompt, and a prompt another log.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Blocks, Entry, Part, Prompt
from unmoor.traffic.log import Grain
from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat
from unmoor.traffic.readers.docker_lines import Unwrapper, in_docker
from unmoor.traffic.readers.python_repr import end_of_text, ids_at, text_at

_EXPECTED = "lines of a server's log, some of them 'Received request ID: ...', with prompts (--log-level DEBUG)"
_COLOUR = r"(?:\x1b\[[\d;]*m)*"
_HEAD = re.compile(
    r"[^'\"]*?(?<![A-Z])(?:DEBUG|INFO|WARNING|ERROR)"
    rf"{_COLOUR} {_COLOUR}(\d\d-\d\d) (\d\d:\d\d:\d\d){_COLOUR} {_COLOUR}\[[^\]]*\]{_COLOUR} "
)
_DETAILS = re.compile(r"Request (\S+) details: prompt: ")
_RECEIVED = re.compile(r"Received request (\S+?): (prompt: |params: )")
_CUT = re.compile(r"(?:non-default )?args: .*\bmax_log_len(?:': |=)(\d+)")
_NO_TEXT = "None"
_IDS = ", prompt_token_ids: "
_POOLING = "PoolingParams("
_ADAPTER = re.compile(r"lora_request: LoRARequest\(.*?lora_name='([^']*)'")
_STRUCTURED = re.compile(r"StructuredOutputsParams\((.*?)\)(?:, extra_args=|\)|$)")
_CONSTRAINTS = ("json", "regex", "choice", "grammar", "json_object")
_NUMBER = r"=(-?[\d.]+|None|True|False)\b"
_SAMPLING = {
    name: re.compile(rf"\b{name}{_NUMBER}")
    for name in ("n", "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "max_tokens")
}
_DAY_S = 86_400
_YEAR = "2023"  # the log names none; this one has no 29th of February
_LEAP_DAY, _DAY_BEFORE = "02-29", "02-28"


class _Days:
    """A clock without years: a step back by more than half of one is the next, and one is a leap year if it shows."""

    def __init__(self) -> None:
        self._clock = Clock()
        self._before_s: float | None = None
        self._year = 0
        self._leap_years: set[int] = set()
        self._before_day = ""
        self._past_february = False

    def seconds(self, day: str, time: str) -> float:
        """Seconds from the log's first time. Raises Broken."""
        in_year_s = self._clock.seconds(f"{_YEAR}-{_DAY_BEFORE if day == _LEAP_DAY else day}T{time}")
        step_s = 0.0 if self._before_s is None else in_year_s - self._before_s
        if abs(step_s) > 365 * _DAY_S / 2:
            self._year = max(0, self._year + (1 if step_s < 0 else -1))  # back again: a line that came late
        elif self._before_day and self._before_day <= _DAY_BEFORE < day:
            self._past_february = True
        self._before_s, self._before_day = in_year_s, day
        if day == _LEAP_DAY:
            self._leap_years.add(self._year)
        leap_days = sum(year < self._year or (year == self._year and day >= _LEAP_DAY) for year in self._leap_years)
        return in_year_s + (365 * self._year + leap_days) * _DAY_S

    @property
    def note(self) -> Caveat | None:
        """How times were read: the zone, and the year where it matters."""
        note = self._clock.note
        if note is None or not self._past_february or self._leap_years:
            return note
        return Caveat(code=note.code, text=f"{note.text} They name no year: February was taken to have 28 days.")


class _Reader:
    def __init__(self) -> None:
        self._days = _Days()
        self._docker = Unwrapper()
        self._prompts: dict[str, Prompt | Blocks] = {}
        self._counts: dict[str, int | None] = {}
        self._longest: int | None = None  # prompts are cut there, and nothing in their lines shows it
        self._by_ids = False

    @property
    def grain(self) -> Grain | None:
        """Token ids are exact; of text the cutter decides."""
        return Grain(by="tokens", tokens=1) if self._by_ids else None

    @property
    def notes(self) -> Sequence[Caveat]:
        return (self._days.note,) if self._days.note else ()

    def read(self, record: bytes) -> tuple[Entry, ...]:
        unwrapped = self._docker.line(record)
        line = unwrapped.decode() if unwrapped else ""
        head = _HEAD.match(line)
        if head is None:
            return ()
        if details := _DETAILS.match(line, head.end()):
            self._prompts[details[1]], self._counts[details[1]] = self._prompt(line, details.end())
            return ()
        received = _RECEIVED.match(line, head.end())
        if received is None:
            cut = _CUT.match(line, head.end())
            self._longest = int(cut[1]) if cut else self._longest
            return ()
        name, place = received[1], received.end()
        if received[2] == "prompt: ":
            told = line[_end_of(line, place) :]
            if told.startswith(f", params: {_POOLING}"):
                return ()
            content, count = self._prompt(line, place)
        else:
            told = line[place:]
            asked, count = self._prompts.pop(name, None), self._counts.pop(name, None)
            if told.startswith(_POOLING):
                return ()
            if asked is None:
                raise Broken(
                    "a request without its prompt",
                    seen="no prompt logged",
                    expected="a log with prompts, which VLLM_LOGGING_LEVEL=DEBUG makes",
                )
            content = asked
        at_s = self._days.seconds(head[1], head[2])
        self._by_ids |= isinstance(content, Blocks)
        return (_entry(at_s, told, content, count),)

    def _prompt(self, line: str, place: int) -> tuple[Prompt | Blocks, int | None]:
        """The prompt that is quoted at `place`, or whose ids stand behind it, and its tokens."""
        text, end = text_at(line, place), _end_of(line, place)
        at = line.rfind(_IDS, end)  # in older logs the parameters lie between, which may quote anything
        ids, _ = ids_at(line, at + len(_IDS)) if at >= 0 else ([], 0)
        if text is None and not (ids and line.startswith(_NO_TEXT, place)):
            raise Broken("a prompt that is no whole text", seen="no quoted text", expected="a prompt as text or ids")
        is_whole = self._longest is None or len(ids) < self._longest
        if not is_whole if text is None else self._longest is not None and len(text) >= self._longest:
            seen = f"max_log_len = {self._longest}"
            raise Broken("a prompt that is cut off", seen=seen, expected="no --max-log-len")
        content = Blocks(ids, 1) if text is None else Prompt(parts=(Part("", text),))
        return content, len(ids) if ids and is_whole else None


def _end_of(line: str, place: int) -> int:
    """Where a quoted text ends, or a None in its place."""
    return place + len(_NO_TEXT) if line.startswith(_NO_TEXT, place) else end_of_text(line, place)


def _entry(at_s: float, told: str, content: Prompt | Blocks, count: int | None) -> Entry:
    adapter = _ADAPTER.search(told)
    return Entry(
        at_s=at_s,
        input_tokens=count,
        output_tokens=None,
        content=content,
        adapter=adapter[1] if adapter else None,
        schema=_schema(told),
        sampling=_sampling(told),
    )


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
    return _HEAD.match(in_docker(first.keys) or first.text) is not None


FORMAT = RecordFormat(name="vllm-log", expected=_EXPECTED, looks_like=_looks_like, start=_Reader)
