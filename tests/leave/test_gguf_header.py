"""Headers of GGUF files: right ones read, each wrong one a single clear problem, hostile ones within bounds."""

from __future__ import annotations

import os
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_weights import GGUF_PAIRS, gguf, pair, text

from unmoor.leave.checkpoint.bounded import BrokenFileError
from unmoor.leave.checkpoint.checkpoint import Problem
from unmoor.leave.checkpoint.gguf_header import file_type_name, read_gguf
from unmoor.leave.checkpoint.tensors import Tensor


def problem(path: Path, content: bytes) -> Problem:
    path.write_bytes(content)
    with pytest.raises(BrokenFileError) as caught:
        read_gguf(path, path.name)
    return caught.value.problem


def head(pairs: int = 0, tensors: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


@pytest.mark.parametrize("version", [2, 3])
def test_a_right_file_is_read(tmp_path: Path, version: int) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf(version=version))
    header = read_gguf(tmp_path / "m.gguf", "m.gguf")
    assert header.tensors == {
        "token_embd.weight": Tensor("F32", (4, 32), 512),
        "blk.0.attn_q.weight": Tensor("Q4_0", (32, 32), 576),
    }
    said = header.metadata
    assert said["general.architecture"] == "llama"
    assert (said["tokenizer.ggml.bos_token.text"], said["tokenizer.ggml.eos_token.text"]) == ("<s>", "</s>")
    assert (said["tokenizer.ggml.tokens"], said["tokenizer.ggml.tokens.length"]) == (None, 4)
    assert (said["tokenizer.ggml.token_type"], said["tokenizer.ggml.token_type.length"]) == (None, 100)
    assert said["tokenizer.ggml.add_bos_token"] is True
    assert file_type_name(said["general.file_type"]) == "Q4_0"


def test_short_arrays_of_numbers_are_kept(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(gguf({"a.b": [1, 2, 3]}, {}))
    assert read_gguf(tmp_path / "m", "m").metadata["a.b"] == (1, 2, 3)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "is empty"),
        (b"G", "is cut off, or its header lies"),
        (b"GGML" + bytes(20), "is no GGUF file"),
        (head(version=1), "is of an unknown GGUF version"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is a GGUF file of a big-endian machine"),
        (head(pairs=2**60), "claims more pairs of metadata than it can hold"),
        (head(tensors=2**60), "claims more tensors than it can hold"),
        (head(pairs=1) + struct.pack("<Q", 2**60) + bytes(20), "has a text that is too long"),
        (head(pairs=1) + struct.pack("<Q", 900) + bytes(20), "is cut off, or its header lies"),
        (head(pairs=1) + text("a") + struct.pack("<IQ", 8, 2**60) + bytes(9), "has a text that is too long"),
        (head(pairs=1) + text("a") + struct.pack("<IIQ", 9, 8, 2**60) + bytes(9), "claims more texts in a than it can"),
        (head(pairs=1) + text("a") + struct.pack("<IIQ", 9, 4, 2**60) + bytes(9), "is cut off, or its header lies"),
        (
            head(pairs=1) + text("a") + struct.pack("<IIQ", 9, 9, 1) + bytes(9),
            "has an array of a type that arrays cannot",
        ),
        (head(pairs=1) + text("a") + struct.pack("<I", 77) + bytes(9), "has a value of an unknown type"),
        (head(pairs=2) + pair("a", 1) + pair("a", 2), "names a key twice"),
        (gguf({"general.alignment": 24}), "has an impossible alignment"),
        (gguf()[:-1], "is cut off, or its header lies"),
        (
            head(tensors=1) + text("t") + struct.pack("<IQIQ", 1, 4, 99, 0) + bytes(64),
            "has a tensor of an unknown type",
        ),
        (
            head(tensors=1) + text("t") + struct.pack("<IQIQ", 9, 4, 0, 0) + bytes(64),
            "has a tensor of too many dimensions",
        ),
        (
            head(tensors=1) + text("t") + struct.pack("<IQIQ", 1, 5, 2, 0) + bytes(64),
            "a tensor's rows are no whole blocks",
        ),
        (
            head(tensors=1) + text("t") + struct.pack("<IQIQ", 1, 2**60, 0, 0) + bytes(64),
            "is cut off, or its header lies",
        ),
        (head(tensors=2) + 2 * (text("t") + struct.pack("<IQIQ", 1, 4, 0, 0)) + bytes(64), "names a tensor twice"),
        (
            head(tensors=2) + b"".join(text(name) + struct.pack("<IQIQ", 1, 4, 0, 8) for name in "ab") + bytes(64),
            "tensors overlap",
        ),
    ],
)
def test_each_wrong_file_is_one_problem(tmp_path: Path, content: bytes, what: str) -> None:
    found = problem(tmp_path / "m.gguf", content)
    assert (found.file, found.fatal) == ("m.gguf", True)
    assert found.what.startswith(what)


def test_long_arrays_take_no_memory(tmp_path: Path) -> None:
    count = 200_000
    tokens = struct.pack("<IIQ", 9, 8, count) + struct.pack("<Q", 0) * count
    (tmp_path / "m").write_bytes(head(pairs=1) + text("tokenizer.ggml.tokens") + tokens)
    tracemalloc.start()
    header = read_gguf(tmp_path / "m", "m")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert header.metadata["tokenizer.ggml.tokens.length"] == count
    assert peak < 500_000


def test_more_texts_than_any_vocabulary_has_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(head(pairs=1) + text("a") + struct.pack("<IIQ", 9, 8, 10_000_000))
    os.truncate(path, 200_000_000)  # sparse: texts of no length, without end
    with pytest.raises(BrokenFileError) as caught:
        read_gguf(path, "m")
    assert caught.value.problem.expected == "at most 4000000"


def test_a_mark_beyond_the_vocabulary_has_no_text(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(gguf({**GGUF_PAIRS, "tokenizer.ggml.bos_token_id": 99}))
    assert "tokenizer.ggml.bos_token.text" not in read_gguf(tmp_path / "m", "m").metadata


WHOLE = gguf()


def count_of_tensors(path: Path) -> int | None:
    """How many tensors the file has; None where it is a problem."""
    try:
        return len(read_gguf(path, "m").tensors)
    except BrokenFileError:
        return None


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_after_the_magic_are_never_anything_but_a_problem(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.gguf"
    for whole in (content, head(pairs=1) + content, head(tensors=1) + content):
        path.write_bytes(whole)
        assert count_of_tensors(path) in {None, 0, 1}


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_mutated_headers_are_read_or_a_problem(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int]]
) -> None:
    mutated = bytearray(WHOLE)
    for at, byte in edits:
        mutated[at] = byte
    path = tmp_path_factory.getbasetemp() / "mutated.gguf"
    path.write_bytes(mutated)
    if count_of_tensors(path) is not None:
        tensors = read_gguf(path, "m").tensors
        assert sum(tensor.size_bytes for tensor in tensors.values()) <= len(mutated)
