from __future__ import annotations

import json
import random
import resource
import tempfile
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmoor.cli.scratch_files import ScratchFiles
from unmoor.core.errors import RunError
from unmoor.traffic import equal_rows, foremost
from unmoor.traffic.profile.profile_log import profile_log
from unmoor.traffic.profile.question import EngineBlocks, Question
from unmoor.traffic.ranked import quantiles
from unmoor.traffic.readers.read import read_traffic
from unmoor.traffic.reuse.stack_distance import smaller_before
from unmoor.traffic.scratch import MEMORY, STRETCH, Growing, Scratch

ENGINES = {
    "fine": EngineBlocks(block_tokens=1, prefix_caching=True),
    "coarse": EngineBlocks(block_tokens=16, prefix_caching=True),
}


class InStretches(Scratch):
    """In memory, a few rows at a time, so that a short log has many stretches."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def stretches(self, size: int) -> Iterator[slice]:
        return (slice(start, min(start + self._rows, size)) for start in range(0, size, self._rows))


class FilesInStretches(InStretches, ScratchFiles):
    """The same, all of it in files."""

    def __init__(self, rows: int) -> None:
        InStretches.__init__(self, rows)
        ScratchFiles.__init__(self, in_memory=0)


def log(seed: int, requests: int) -> bytes:
    """Requests that share beginnings, some late, some without a session, a tenant, a count or an answer."""
    draw, lines = random.Random(seed), list[str]()  # noqa: S311 - an invented log
    texts = ["".join(draw.choices("abcd ", k=draw.randint(1, 400))) for _ in range(6)]
    for number in range(requests):
        messages = [{"role": "user", "content": text} for text in draw.choices(texts, k=draw.randint(1, 4))]
        request: dict[str, Any] = {"model": "m", "messages": messages}
        if draw.random() < 0.6:
            request["user"] = f"u{draw.randint(0, 5)}"
        size = sum(len(message["content"]) for message in messages)
        usage = {"prompt_tokens": size // 3 + 1, "completion_tokens": draw.randint(0, 30)}
        line: dict[str, Any] = {"timestamp": 1.79e9 + number + draw.choice((0, 0, 5)), "request": request}
        if draw.random() < 0.7:
            line["response"] = {"usage": usage}
        if draw.random() < 0.5:
            line["session_id"] = f"s{draw.randint(0, 9)}"
        lines.append(json.dumps(line))
    return "\n".join(lines).encode()


def report_of(content: bytes, scratch: Scratch) -> dict[str, Any]:
    traffic = read_traffic(content, where="log", scratch=scratch)
    return dict(msgspec.to_builtins(profile_log(traffic, Question(engines=ENGINES))))


@given(st.integers(0, 2**32), st.integers(1, 60))
@settings(max_examples=10, deadline=None)
def test_a_profile_is_the_same_in_memory_and_in_files(seed: int, requests: int) -> None:
    content = log(seed, requests)
    assert report_of(content, ScratchFiles(in_memory=0)) == report_of(content, MEMORY)


@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 20))
@settings(max_examples=10, deadline=None)
def test_a_profile_is_the_same_however_few_rows_are_worked_on_at_a_time(seed: int, requests: int, rows: int) -> None:
    content = log(seed, requests)
    assert json.dumps(_rounded(report_of(content, FilesInStretches(rows)))) == json.dumps(
        _rounded(report_of(content, MEMORY))
    )


def _rounded(value: object) -> object:
    """Means of times are sums of floats, of which the last bits go with their order."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value


def test_a_disk_that_fills_while_a_log_is_read_is_an_error_and_no_crash() -> None:
    content = log(1, 5000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(RunError) as caught:
            read_traffic(content, where="log", scratch=ScratchFiles(in_memory=0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.where == tempfile.gettempdir()
    assert "TMPDIR" in (caught.value.hint or "")


@given(st.lists(st.integers(0, 8), max_size=60), st.integers(1, 9))
def test_equal_rows(keys: list[int], rows: int) -> None:
    scratch = InStretches(rows)
    first = equal_rows.first_equal(np.array(keys, dtype=np.uint64), scratch)
    assert first.tolist() == [keys.index(key) for key in keys]
    firsts, number = equal_rows.numbered(first, scratch)
    assert firsts.tolist() == sorted({keys.index(key) for key in keys})
    assert [keys[firsts[n]] for n in number] == keys
    before = equal_rows.last_before(np.array(keys, dtype=np.int32), 9, scratch)
    found = [max((j for j in range(i) if keys[j] == keys[i]), default=equal_rows.NONE_BEFORE) for i in range(len(keys))]
    assert before.tolist() == found


def test_keys_of_many_stretches_are_parted() -> None:
    draw = np.random.default_rng(1)
    keys = draw.integers(0, 2**20, 3 * STRETCH, dtype=np.uint64)
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    assert np.array_equal(equal_rows.first_equal(keys), first[place])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=50), st.integers(0, 8), st.integers(1, 9))
def test_foremost_rows(pairs: list[tuple[int, int]], count: int, rows: int) -> None:
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    found = foremost.foremost(len(pairs), count, lambda some: (-columns[some, 0], columns[some, 1]), InStretches(rows))
    wanted = sorted(range(len(pairs)), key=lambda row: (-pairs[row][0], pairs[row][1], row))[:count]
    assert found.tolist() == wanted


@pytest.mark.parametrize("kind", ["whole", "real"])
def test_quantiles_of_a_long_column_are_those_of_numpy(kind: str) -> None:
    draw = np.random.default_rng(2)
    values = draw.lognormal(5, 2, STRETCH + 5)
    column = values.astype(np.int64) if kind == "whole" else values
    assert quantiles(column, (0.05, 0.5, 0.95)) == tuple(np.quantile(column, (0.05, 0.5, 0.95)).tolist())


def test_sums_below_keys_of_many_stretches() -> None:
    draw = np.random.default_rng(3)
    keys = 2 * STRETCH + 7
    key, weight = draw.integers(0, keys, 4000), draw.integers(0, 100, 4000)
    found = smaller_before(key, weight, keys=keys, chunk=1000)
    wanted = [int(weight[:place][key[:place] < key[place]].sum()) for place in range(4000)]
    assert found.tolist() == wanted


@given(st.lists(st.lists(st.integers(0, 100), max_size=50), max_size=30))
def test_a_growing_column_holds_what_it_was_given(parts: list[list[int]]) -> None:
    column = Growing(np.int32)
    for part in parts:
        column.extend(np.array(part, dtype=np.int64))
    assert column.rows.tolist() == [value for part in parts for value in part]
