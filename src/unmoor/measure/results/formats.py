"""The formats of result files: told by what is in a file, or by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from unmoor.core.errors import UsageError
from unmoor.core.nearest import nearest
from unmoor.measure.results import aiperf, guidellm, inferencex, own_files, sglang_bench, vllm_bench
from unmoor.measure.results.open_file import Content, Document, open_content
from unmoor.measure.results.run import ResultFile, Run

_SHOWN_KEYS = 8
_MOST_S = 4e9


class Format(NamedTuple):
    """A format: its name, who writes it, the keys that its first document has, and what reads it."""

    name: str
    tool: str
    marks: frozenset[str]
    read: Callable[[Content], tuple[Run, ...]]
    version: Callable[[Content], str | None] = lambda _: None


FORMATS = (
    Format("sglang-bench", "SGLang bench_serving", sglang_bench.MARKS, sglang_bench.read),
    Format("vllm-bench", "vLLM bench serve", vllm_bench.MARKS, vllm_bench.read),
    Format("guidellm", "GuideLLM", guidellm.MARKS, guidellm.read, guidellm.version),
    Format("aiperf", "AIPerf", aiperf.MARKS, aiperf.read, aiperf.version),
    Format("aiperf-records", "AIPerf", aiperf.LINE_MARKS, aiperf.read_lines),
    Format("inferencex", "InferenceX", inferencex.MARKS, inferencex.read),
    Format("unmoor-records", "unmoor load", own_files.RECORD_MARKS, own_files.read_records),
    Format("unmoor-load", "unmoor load", own_files.REPORT_MARKS, own_files.read_report),
)


def read_results(path: Path, format_name: str | None = None) -> ResultFile:
    """The results in a file, in the format named, or in the one whose keys it has.

    No text of a prompt or of an answer is read. Raises UsageError for a file that is not there, not JSON, of none of
    the formats or not as its tool writes it, naming the file with the line or the key.
    """
    content = open_content(path)
    chosen = _told(content.documents[0], path) if format_name is None else format_named(format_name)
    runs = chosen.read(content)
    for run in runs:
        _check_times(run, path)
    return ResultFile(
        format=chosen.name,
        tool=chosen.tool,
        version=chosen.version(content),
        runs=runs,
        not_numbers=content.not_numbers,
    )


def _check_times(run: Run, path: Path) -> None:
    """Raises UsageError for a time that no clock shows: over 120 years, from 1970 or of a request."""
    for index, one in enumerate(run.requests):
        most_gap_s = float(np.abs(one.gaps_s).max()) if one.gaps_s is not None and len(one.gaps_s) else 0.0
        times = (one.due_at_s, one.sent_at_s, one.queued_s, one.ttft_s, one.e2e_s, one.last_token_s, most_gap_s)
        wrong = next((value for value in times if value is not None and abs(value) > _MOST_S), None)
        if wrong is not None:
            raise UsageError(
                "a time that cannot be",
                where=str(path),
                seen=f"{wrong:.4g} s, of request {index}",
                expected="seconds of a clock",
                hint="was the file edited? take it as its tool wrote it",
            )


def format_named(name: str) -> Format:
    """The format of this name. Raises UsageError for none of them."""
    names = [one.name for one in FORMATS]
    if name in names:
        return FORMATS[names.index(name)]
    close = nearest(name, names)
    raise UsageError(
        "no such format",
        where="--format",
        seen=name,
        expected=", ".join(names),
        hint=f"did you mean {close}?" if close else "leave it out: the format is told from the file",
    )


def _told(document: Document, path: Path) -> Format:
    try:
        keys = set(msgspec.json.decode(document.content, type=dict[str, msgspec.Raw]))
    except msgspec.ValidationError:
        document.read(msgspec.Raw)
        keys = set()
    except (msgspec.DecodeError, RecursionError):
        document.read(msgspec.Raw)  # raises: says what is wrong with the JSON
        keys = set()
    for one in FORMATS:
        if one.marks <= keys:
            return one
    first = ", ".join(sorted(keys)[:_SHOWN_KEYS])
    raise UsageError(
        "not a result file of a benchmark client known here",
        where=str(path),
        seen=f"JSON with the keys {first}{', …' if len(keys) > _SHOWN_KEYS else ''}" if keys else "JSON without keys",
        expected=f"one of {', '.join(one.name for one in FORMATS)}",
        hint="--format NAME, where you know it to be one of these",
    )
