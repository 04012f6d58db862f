"""Weights by their files: hashes computed from bytes, hashes that others recorded, and never one told as the other."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from made_weights import LLAMA, gguf, write_model, write_safetensors, write_shards

from unmoor.core.errors import WorldError
from unmoor.leave.checkpoint.read import read_checkpoint
from unmoor.leave.exit_plan.exit_plan import WeightFile, Weights
from unmoor.leave.exit_plan.weights import hashed, telling, weights_of

OTHER = "0" * 64


def found(path: Path, *, hash_files: bool = True) -> Weights:
    said: list[str] = []
    weights = weights_of(read_checkpoint(path), path, hash_files=hash_files, say=said.append)
    assert said == []  # small files are hashed at once
    return weights


def of(weights: Weights, name: str) -> WeightFile:
    return next(file for file in weights.files if file.name == name)


def true_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_file_that_makes_the_model_is_hashed_from_its_bytes(tmp_path: Path) -> None:
    root = write_model(tmp_path / "m", generation_config={"temperature": 0.6}, tokenizer={"model": {}})
    (root / "README.md").write_text("about it")
    weights = found(root)
    names = ["model.safetensors", "config.json", "generation_config.json", "tokenizer.json"]
    assert [file.name for file in weights.files] == names
    for name in names:
        assert of(weights, name).sha256 == true_hash(root / name)
        assert of(weights, name).size_bytes == (root / name).stat().st_size
        assert of(weights, name).recorded is None
    assert (weights.scheme, weights.said_in, weights.container) == ("none", "safetensors", "safetensors")


def test_one_changed_byte_is_another_hash(tmp_path: Path) -> None:
    root = write_model(tmp_path / "m")
    before = of(found(root), "model.safetensors").sha256
    content = bytearray((root / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (root / "model.safetensors").write_bytes(content)
    assert of(found(root), "model.safetensors").sha256 != before


def test_without_hashing_no_hash_is_told(tmp_path: Path) -> None:
    weights = found(write_model(tmp_path / "m"), hash_files=False)
    assert [file.sha256 for file in weights.files] == [None] * len(weights.files)


def test_all_shards_are_files_of_the_weights(tmp_path: Path) -> None:
    names = list(LLAMA)
    shards = {
        f"model-0000{n}-of-00002.safetensors": {name: LLAMA[name] for name in part}
        for n, part in ((1, names[:2]), (2, names[2:]))
    }
    weights = found(write_shards(tmp_path / "m", shards))
    assert [file.name for file in weights.files][:2] == list(shards)
    assert {file.name for file in weights.files} == {*shards, "config.json", "model.safetensors.index.json"}


def test_a_single_file_is_hashed_alone(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(gguf())
    (tmp_path / "other.gguf").write_bytes(gguf())
    weights = found(tmp_path / "tiny.gguf")
    assert [(file.name, file.sha256) for file in weights.files] == [("tiny.gguf", true_hash(tmp_path / "tiny.gguf"))]
    assert weights.scheme == "gguf"


@pytest.mark.parametrize("star", [" ", "*"])
def test_a_list_as_sha256sum_writes_it_is_recorded_and_not_computed(tmp_path: Path, star: str) -> None:
    root = write_model(tmp_path / "m")
    (root / "SHA256SUMS").write_text(f"# hashes\n{OTHER} {star}model.safetensors\n{OTHER}  elsewhere.bin\n")
    file = of(found(root, hash_files=False), "model.safetensors")
    assert (file.sha256, file.recorded, file.recorded_in) == (None, OTHER, "SHA256SUMS")
    assert not file.changed  # nobody looked


def test_a_hash_beside_its_file_is_recorded(tmp_path: Path) -> None:
    root = write_model(tmp_path / "m")
    (root / "model.safetensors.sha256").write_text(f"{true_hash(root / 'model.safetensors').upper()}\n")
    file = of(found(root), "model.safetensors")
    assert file.recorded == file.sha256
    assert file.recorded_in == "model.safetensors.sha256"
    assert not file.changed


def test_a_hash_that_is_not_the_recorded_one_is_a_change(tmp_path: Path) -> None:
    root = write_model(tmp_path / "m")
    (root / "model.safetensors.sha256").write_text(f"{OTHER}  model.safetensors\n")
    assert of(found(root), "model.safetensors").changed


def test_notes_of_a_hubs_download_are_recorded(tmp_path: Path) -> None:
    root = write_model(tmp_path / "m")
    notes = root / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    (notes / "model.safetensors.metadata").write_text(f"{'c' * 40}\n{OTHER}\n1764547200.0\n")
    (notes / "config.json.metadata").write_text(f"{'c' * 40}\n{'d' * 40}\n1764547200.0\n")  # a small file's tag
    weights = found(root, hash_files=False)
    file = of(weights, "model.safetensors")
    assert (file.recorded, file.recorded_in) == (OTHER, ".cache/huggingface/download/model.safetensors.metadata")
    assert of(weights, "config.json").recorded is None


def test_the_name_in_a_hubs_cache_is_recorded(tmp_path: Path) -> None:
    blobs, snapshot = tmp_path / "models--org--m" / "blobs", tmp_path / "models--org--m" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    write_model(snapshot)
    whole = true_hash(snapshot / "model.safetensors")
    (snapshot / "model.safetensors").rename(blobs / whole)
    (snapshot / "model.safetensors").symlink_to(f"../../blobs/{whole}")
    file = of(found(snapshot), "model.safetensors")
    assert (file.sha256, file.recorded, file.recorded_in) == (whole, whole, "the name in the hub's cache")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"no hash", b"0" * 63 + b"  model.safetensors\n"])
def test_a_list_that_is_none_records_nothing(tmp_path: Path, content: bytes) -> None:
    root = write_model(tmp_path / "m")
    (root / "sha256sums.txt").write_bytes(content)
    assert of(found(root, hash_files=False), "model.safetensors").recorded is None


def test_progress_is_told_for_what_takes_long_alone() -> None:
    said: list[str] = []
    passed = telling(140_000_000_000, said.append)
    for _ in range(10):
        passed(14_000_000_000)
    assert said[0] == "hashing 140 GB of weights: this takes minutes; --no-hashes leaves it out"
    assert said[1:] == [f"hashing: {done} of 140 GB" for done in range(14, 141, 14)]


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="a file of weights cannot be read") as refused:
        hashed(tmp_path, "folder", lambda _: None)
    assert refused.value.hint == "--no-hashes leaves the weights unread"


def test_passed_bytes_add_up_to_the_file(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors")
    passed: list[int] = []
    hashed(tmp_path / "model.safetensors", "model.safetensors", passed.append)
    assert sum(passed) == (tmp_path / "model.safetensors").stat().st_size
