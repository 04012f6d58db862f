"""What `unmoor check-model` writes beside its report: a page, SARIF, and hashes of the weights."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from unmoor.engines.surface.load import known_surfaces, surface
from unmoor.leave.checkpoint.read import read_checkpoint
from unmoor.leave.checkpoint.weight_hashes import with_weight_hashes

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16"}


def called(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unmoor.cli", "check-model", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def write_weights(path: Path) -> bytes:
    header = json.dumps({"w": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}).encode()
    content = len(header).to_bytes(8, "little") + header + b"\1" * 8
    path.write_bytes(content)
    return content


def a_model(root: Path, **config: Any) -> Path:  # noqa: ANN401 - keys of config.json
    root.mkdir(parents=True, exist_ok=True)
    (root / "config.json").write_text(json.dumps({**CONFIG, **config}))
    write_weights(root / "model.safetensors")
    return root


class Text(HTMLParser):
    """The words of a page, and the tags that would fetch or run something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.foreign: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "img", "link", "iframe"} or any(name in {"src", "href"} for name, _ in attrs):
            self.foreign.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data.split()


def test_the_page_has_every_engine_and_what_a_move_takes_and_needs_nothing_else(tmp_path: Path) -> None:
    root = a_model(tmp_path / "m", quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"})
    done = called(root, "--page", tmp_path / "pages" / "m.html")
    assert (done.returncode, done.stderr) == (0, f"page: {tmp_path}/pages/m.html\n")
    page = Text((tmp_path / "pages" / "m.html").read_text())
    assert page.foreign == []
    said = " ".join(page.words)
    for name in known_surfaces():
        assert f"{surface(name).title} {surface(name).version}" in said
    assert "to be native, quantise the original weights as MXFP4 or AMD Quark (MXFP4)" in said


def test_the_page_escapes_what_the_model_says(tmp_path: Path) -> None:
    root = a_model(tmp_path / "m<b>", architectures=["<script>alert(1)</script>"])
    called(root, "--page", tmp_path / "m.html")
    page = (tmp_path / "m.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_sarif_names_the_models_own_files(tmp_path: Path) -> None:
    root = a_model(tmp_path / "a model", quantization_config={"quant_method": "fp8", "kv_cache_scheme": None})
    (root / "extra.bin").write_bytes(b"pickle")
    (root / "model-00001-of-00002.safetensors").write_bytes((2**60).to_bytes(8, "little"))
    done = called(root, "--sarif", tmp_path / "out.sarif", "--json")
    log = json.loads((tmp_path / "out.sarif").read_text())
    run = log["runs"][0]
    findings = json.loads(done.stdout)["findings"]
    assert [one["ruleId"] for one in run["results"]] == [one["kind"] for one in findings]
    assert [run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] for one in run["results"]] == [
        one["ruleId"] for one in run["results"]
    ]
    places = {
        (one["ruleId"], one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].rpartition("/")[2])
        for one in run["results"]
    }
    assert ("UM132", "extra.bin") in places
    assert ("UM133", "model-00001-of-00002.safetensors") in places
    assert all(
        one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].startswith(f"{tmp_path}/a%20model")
        for one in run["results"]
    )
    assert run["properties"]["lost"] == ["The model's files are broken: nothing can load them."]


def test_findings_name_their_file_within_the_folder_whatever_bytes_its_name_has(tmp_path: Path) -> None:
    root = a_model(tmp_path / "m")
    (root / "model-00001-of-00002.safetensors").write_bytes((2**60).to_bytes(8, "little"))
    Path(os.fsdecode(os.fsencode(root) + b"/\xff.bin")).write_bytes(b"pickle")
    done = called(root, "--sarif", tmp_path / "out.sarif", "--json")
    found = json.loads(done.stdout)["findings"]
    files = {(one["kind"], one["file"]) for one in found}
    assert {("UM132", "?.bin"), ("UM133", "model-00001-of-00002.safetensors")} <= files
    places = [
        one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for one in json.loads((tmp_path / "out.sarif").read_text())["runs"][0]["results"]
    ]
    assert [unquote(place) for place, one in zip(places, found, strict=True) if one["file"]] == [
        f"{root}/{one['file']}" for one in found if one["file"]
    ]


def test_a_page_or_sarif_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "kept.html").write_text("mine")
    for option, place in (
        ("--page", tmp_path / "kept.html"),
        ("--sarif", tmp_path / "no" / "x.sarif"),
        ("--page", Path("-")),
    ):
        done = called(tmp_path / "no-model", option, place)
        assert (done.returncode, done.stdout) == (2, "")
        assert str(place) in done.stderr
        assert "no such model" not in done.stderr
    assert (tmp_path / "kept.html").read_text() == "mine"


def test_hashes_are_those_of_every_file_of_weights_and_none_unasked(tmp_path: Path) -> None:
    root = a_model(tmp_path)
    (root / "adapter.bin").write_bytes(b"a pickle, read and never run")
    content = (root / "model.safetensors").read_bytes()
    done = called(root, "--json", "--hashes")
    hashes = json.loads(done.stdout)["checkpoint"]["hashes"]
    assert hashes["model.safetensors"] == hashlib.sha256(content).hexdigest()
    assert hashes["adapter.bin"] == hashlib.sha256(b"a pickle, read and never run").hexdigest()
    assert hashes["config.json"] == hashlib.sha256((root / "config.json").read_bytes()).hexdigest()
    assert "hashing 2 of 2: model.safetensors" in done.stderr
    plain = called(root, "--json")
    assert (set(json.loads(plain.stdout)["checkpoint"]["hashes"]), plain.stderr) == ({"config.json"}, "")
    assert f"  {hashes['model.safetensors']}  model.safetensors" in called(root, "--hashes").stdout.splitlines()


def test_of_one_shard_all_shards_are_hashed(tmp_path: Path) -> None:
    for number in (1, 2):
        write_weights(tmp_path / f"model-{number:05d}-of-00002.safetensors")
    write_weights(tmp_path / "other.safetensors")
    done = called(tmp_path / "model-00001-of-00002.safetensors", "--json", "--hashes")
    hashes = json.loads(done.stdout)["checkpoint"]["hashes"]
    assert set(hashes) == {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}


def test_a_file_that_cannot_be_hashed_is_a_finding_and_the_rest_is_told(tmp_path: Path) -> None:
    root = a_model(tmp_path)
    (root / "z.safetensors").symlink_to(root / "z.safetensors")
    done = called(root, "--json", "--hashes")
    found = json.loads(done.stdout)
    assert "model.safetensors" in found["checkpoint"]["hashes"]
    assert any("z.safetensors: was not hashed" in one["seen"] for one in found["findings"])
    assert "Traceback" not in done.stderr


def test_how_far_a_long_file_is_is_told_while_it_is_hashed(tmp_path: Path) -> None:
    path = tmp_path / "long.gguf"
    with path.open("wb") as file:
        file.truncate(20 << 20)
    said: list[str] = []
    found = with_weight_hashes(read_checkpoint(path), path, said.append, told_every_bytes=8 << 20)
    assert said == [
        "hashing 1 of 1: long.gguf (0.02 GB)",
        "hashed 0.01 of 0.02 GB",
        "hashed 0.02 of 0.02 GB",
    ]
    assert found.hashes == {"long.gguf": hashlib.sha256(bytes(20 << 20)).hexdigest()}
