"""Headers of safetensors files: right ones read, each wrong one a single clear problem, hostile ones within bounds."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_weights import LLAMA, header_of, safetensors, write_safetensors

from unmoor.leave.checkpoint.bounded import BrokenFileError
from unmoor.leave.checkpoint.checkpoint import Problem
from unmoor.leave.checkpoint.safetensors_header import read_safetensors
from unmoor.leave.checkpoint.tensors import Tensor


def problem(path: Path, content: bytes) -> Problem:
    path.write_bytes(content)
    with pytest.raises(BrokenFileError) as caught:
        read_safetensors(path, path.name)
    return caught.value.problem


def test_a_right_file_is_read_without_its_tensors(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "m.safetensors")
    header = read_safetensors(tmp_path / "m.safetensors", "m.safetensors")
    assert header.tensors["model.layers.0.self_attn.v_proj.weight"] == Tensor("BF16", (4, 8), 64)
    assert list(header.tensors) == list(LLAMA)
    assert header.metadata == {"format": "pt"}


def test_spaces_after_the_header_belong_to_it(tmp_path: Path) -> None:
    header, size = header_of(LLAMA)
    (tmp_path / "m").write_bytes(safetensors(json.dumps(header).encode() + b"     ", size))
    assert len(read_safetensors(tmp_path / "m", "m").tensors) == len(LLAMA)


def test_a_file_without_tensors_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(safetensors({}, 0))
    assert read_safetensors(tmp_path / "m", "m").tensors == {}


ONE: dict[str, Any] = {"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}


def changed(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - keys of an entry
    return {"a": {**ONE["a"], **changes}}


@pytest.mark.parametrize(
    ("content", "what", "seen"),
    [
        (b"", "is empty", ""),
        (b"{}", "is too short for a safetensors file", "2 bytes"),
        ((2**60).to_bytes(8, "little") + b"{}", "its header is longer than it can be", f"a length of {2**60} bytes"),
        ((2**64 - 1).to_bytes(8, "little"), "its header is longer than it can be", f"a length of {2**64 - 1} bytes"),
        (safetensors(b"[]", 0), "has no JSON header", "b'[]'"),
        (
            safetensors(b'{"a": {"dtype": "F32"', 0),
            "its header is not one of a safetensors file",
            "Input data was truncated",
        ),
        (safetensors(changed(dtype="F33"), 16), "has a tensor of a type that the format does not have", "a: F33"),
        (safetensors(changed(shape=[2, 3]), 16), "a tensor's bytes are not those of its shape", "a: 16 bytes"),
        (safetensors(changed(shape=[2**62, 2**62]), 16), "a tensor's bytes are not those of its shape", "a: 16 bytes"),
        (safetensors(changed(data_offsets=[4, 20]), 20), "there is a hole between tensors", "a begins at byte 4"),
        (safetensors(ONE, 15), "is cut off, or its header lies", "a ends at byte 16 of the tensors"),
        (safetensors(ONE, 17), "has bytes that belong to no tensor", "1"),
        (
            safetensors({**ONE, "b": {"dtype": "U8", "shape": [4], "data_offsets": [12, 16]}}, 16),
            "tensors overlap",
            "b begins at byte 12",
        ),
    ],
)
def test_each_wrong_file_is_one_problem(tmp_path: Path, content: bytes, what: str, seen: str) -> None:
    found = problem(tmp_path / "m.safetensors", content)
    assert (found.file, found.fatal) == ("m.safetensors", True)
    assert found.what.startswith(what)
    assert found.seen == seen


def test_a_negative_offset_and_another_key_are_refused(tmp_path: Path) -> None:
    for entry in (changed(data_offsets=[-16, 0]), changed(more=1), changed(shape=[1] * 65), {"a": 1}):
        assert problem(tmp_path / "m", safetensors(entry, 16)).what.startswith("its header is not one of")


def test_a_name_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    entry = json.dumps(ONE["a"])
    for second in ('"a"', '"\\u0061"'):
        found = problem(tmp_path / "m", safetensors(f'{{"a": {entry}, {second}: {entry}}}'.encode(), 16))
        assert (found.what, found.seen) == ("its header names a tensor twice", "a")


def test_nested_bombs_end_in_a_problem_and_little_memory(tmp_path: Path) -> None:
    depth = 1_000_000
    bombs = [
        b'{"a":' + b"[" * depth + b"]" * depth + b"}",
        b'{"a":' * depth + b"1" + b"}" * depth,
        b'{"a":[' + b"[]," * depth + b"1]}",
        b'{"a":{"dtype":"F32","shape":[' + b"1," * depth + b'1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[' + b"9" * depth + b'],"data_offsets":[0,4]}}',
    ]
    for bomb in bombs:
        tracemalloc.start()
        found = problem(tmp_path / "m", safetensors(bomb, 4))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.what.startswith("its header is")
        assert len(found.seen) < 100
        assert peak < 12 * len(bomb) + 1_000_000


def test_a_header_over_the_formats_bound_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes((100_000_001).to_bytes(8, "little"))
    os.truncate(path, 200_000_000)  # sparse: it takes no room
    with pytest.raises(BrokenFileError) as caught:
        read_safetensors(path, "m")
    assert caught.value.problem.expected == "at most 100000000, the format's bound"


def test_more_tensors_than_any_model_has_are_refused(tmp_path: Path) -> None:
    entry = '{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    content = ("{" + ",".join(f'"{number}":{entry}' for number in range(250_001)) + "}").encode()
    found = problem(tmp_path / "m", safetensors(content, 0))
    assert (found.what, found.seen) == ("has more tensors than any model", "250001")


def test_pipes_folders_and_files_that_may_not_be_read_are_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name, seen in (("pipe", "a pipe or a device"), ("folder", "a folder"), ("none", "No such file or directory")):
        with pytest.raises(BrokenFileError) as caught:
            read_safetensors(tmp_path / name, name)
        assert caught.value.problem.seen == seen


def test_names_of_others_are_shown_on_one_line_and_cut(tmp_path: Path) -> None:
    name = "x\x1b[31m\n" + "y" * 500
    found = problem(tmp_path / "m", safetensors({name: {"dtype": "F33", "shape": [], "data_offsets": [0, 0]}}, 0))
    assert found.seen.isprintable()
    assert len(found.seen) < 100


WHOLE = safetensors(*header_of(LLAMA))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_are_never_anything_but_a_problem(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.safetensors"
    for whole in (content, len(content).to_bytes(8, "little") + content):
        path.write_bytes(whole)
        assert count_of_tensors(path) in {None, 0}


def count_of_tensors(path: Path) -> int | None:
    """How many tensors the file has; None where it is a problem."""
    try:
        return len(read_safetensors(path, "m").tensors)
    except BrokenFileError:
        return None


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_mutated_headers_are_read_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int]]
) -> None:
    mutated = bytearray(WHOLE)
    for at, byte in edits:
        mutated[at] = byte
    path = tmp_path_factory.getbasetemp() / "mutated.safetensors"
    path.write_bytes(mutated)
    if count_of_tensors(path) is not None:
        header = read_safetensors(path, "m")
        length = int.from_bytes(mutated[:8], "little")
        assert sum(tensor.size_bytes for tensor in header.tensors.values()) == len(mutated) - 8 - length
