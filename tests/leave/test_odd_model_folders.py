"""Folders that are no model, or a broken one, given to `unmoor check-model` as users give them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from made_weights import CONFIG, LLAMA, gguf, write_adapter, write_model, write_shards

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n"


def called(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unmoor.cli", "check-model", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def empty(root: Path) -> None:
    root.mkdir()


def a_file(root: Path) -> None:
    root.write_text("not a model")


def an_adapter(root: Path) -> None:
    write_adapter(root)


def adapters(root: Path) -> None:
    write_adapter(root / "one")
    write_adapter(root / "two")


def one_deeper(root: Path) -> None:
    write_model(root / "snapshot")


def two_models(root: Path) -> None:
    root.mkdir()
    (root / "a.gguf").write_bytes(gguf())
    (root / "b.gguf").write_bytes(gguf())


def a_link_to_itself(root: Path) -> None:
    root.symlink_to(root.name)


def a_tokenizer(root: Path) -> None:
    root.mkdir()
    (root / "tokenizer.json").write_text("{}")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (empty, ["there is no model in this folder", "an empty folder"]),
        (a_file, ["this is no file of weights", "hint: name the folder in which the model's files are"]),
        (an_adapter, ["this is an adapter, not a model", "hint: name the model, and the adapter with --adapter"]),
        (adapters, ["there is no model in this folder", "hint: adapters are given with --adapter"]),
        (one_deeper, ["there is no model in this folder", "hint: name a folder in it: snapshot"]),
        (two_models, ["there are several models in this folder", "a.gguf, b.gguf"]),
        (a_link_to_itself, ["there is no such model", "a link that leads nowhere, or in a circle"]),
        (a_tokenizer, ["seen:     1 file, none of them weights or config.json at its top"]),
    ],
)
def test_what_is_no_model_is_one_error(tmp_path: Path, make: Callable[[Path], None], told: list[str]) -> None:
    make(tmp_path / "m")
    done = called(tmp_path / "m")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert all(one in done.stderr for one in told), done.stderr
    assert "Traceback" not in done.stderr


def pickles_alone(root: Path) -> None:
    root.mkdir()
    (root / "pytorch_model.bin").write_bytes(b"never opened")


def a_missing_shard(root: Path) -> None:
    half = len(LLAMA) // 2
    first, second = dict(list(LLAMA.items())[:half]), dict(list(LLAMA.items())[half:])
    write_shards(root, {"model-00001-of-00002.safetensors": first, "model-00002-of-00002.safetensors": second})
    (root / "model-00002-of-00002.safetensors").unlink()


def a_header_of_an_exabyte(root: Path) -> None:
    write_model(root)
    (root / "model.safetensors").write_bytes((2**60).to_bytes(8, "little") + b"{}")


def a_gguf_of_an_exabyte(root: Path) -> None:
    root.mkdir()
    content = bytearray(gguf())
    content[16:24] = (2**60).to_bytes(8, "little")
    (root / "m.gguf").write_bytes(content)


def a_loop(root: Path) -> None:
    write_model(root)
    (root / "model.safetensors").unlink()
    (root / "model.safetensors").symlink_to("model.safetensors")


def a_pointer(root: Path) -> None:
    write_model(root)
    (root / "model.safetensors").write_bytes(POINTER)


def a_gguf_pointer(root: Path) -> None:
    root.mkdir()
    (root / "m.gguf").write_bytes(POINTER)


def nothing_in_it(root: Path) -> None:
    write_model(root)
    (root / "model.safetensors").write_bytes(b"")


def no_config(root: Path) -> None:
    write_model(root)
    (root / "config.json").unlink()


def a_pipe(root: Path) -> None:
    write_model(root)
    (root / "model.safetensors").unlink()
    os.mkfifo(root / "model.safetensors")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (pickles_alone, "has no config.json"),
        (a_missing_shard, "1 of 2 files of weights is missing"),
        (a_header_of_an_exabyte, "its header is longer than it can be"),
        (a_gguf_of_an_exabyte, "claims more pairs of metadata than it can hold"),
        (a_loop, "links lead in a circle (model.safetensors)"),
        (a_pointer, "is a pointer of Git LFS"),
        (a_gguf_pointer, "is a pointer of Git LFS"),
        (nothing_in_it, "model.safetensors: is empty"),
        (no_config, "has no config.json"),
        (a_pipe, "is no ordinary file (a pipe or a device)"),
    ],
)
def test_what_nothing_can_load_is_lost_and_no_engine_is_said_to_load_it(
    tmp_path: Path, make: Callable[[Path], None], told: str
) -> None:
    make(tmp_path / "m")
    done = called(tmp_path / "m", "--hashes")
    text = " ".join(done.stdout.split())
    assert done.returncode == 3
    assert "LOST: The model's files are broken: nothing can load them." in text
    assert told in text
    assert "What loads it" not in text
    assert "Traceback" not in done.stderr


def test_what_pickles_hold_is_not_known_and_they_are_not_opened(tmp_path: Path) -> None:
    pickles_alone(tmp_path / "m")
    text = called(tmp_path / "m").stdout
    assert "weights    not known: they were not opened" in text
    assert "not quantised" not in text
    (tmp_path / "m" / "config.json").write_text(f'{{"architectures": ["{CONFIG["architectures"][0]}"]}}')
    done = called(tmp_path / "m")
    assert done.returncode == 0
    assert "16 or 32 bits, not quantised; no header was read" in done.stdout
    assert "UM132 warning" in done.stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_says_what_to_do(tmp_path: Path) -> None:
    root = write_model(tmp_path / "m")
    (root / "model.safetensors").chmod(0)
    done = called(root, "--hashes")
    assert done.returncode == 3
    assert "model.safetensors: cannot be opened (Permission denied)" in done.stdout
    assert "fix     Allow the user who runs this, and the engine's, to read it." in done.stdout


def test_a_pickle_of_an_adapter_is_named_where_it_lies(tmp_path: Path) -> None:
    model, adapter, out = write_model(tmp_path / "m"), write_adapter(tmp_path / "adapter"), tmp_path / "out.sarif"
    (adapter / "training_args.bin").write_bytes(b"pickle")
    done = called(model, "--adapter", adapter, "--sarif", out, "--json")
    (pickled,) = [one for one in json.loads(done.stdout)["findings"] if one["kind"] == "UM132"]
    assert pickled["file"] == "training_args.bin"
    (place,) = [
        one["locations"][0] for one in json.loads(out.read_text())["runs"][0]["results"] if one["ruleId"] == "UM132"
    ]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == f"{adapter}/training_args.bin"
