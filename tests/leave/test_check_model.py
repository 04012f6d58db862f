"""`unmoor check-model`, called as users call it, on small real files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_weights import gguf, lora, write_adapter, write_model

from unmoor.engines.surface.concepts import HARDWARE
from unmoor.engines.surface.load import known_surfaces, surface
from unmoor.leave.check_model import check_model
from unmoor.leave.checkpoint.read import read_checkpoint
from unmoor.leave.checks.registry import kinds
from unmoor.report.model_json import to_json
from unmoor.report.model_text import render

ENGINES = list(known_surfaces())


def called(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unmoor.cli", "check-model", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def told(*args: str | Path) -> tuple[int, dict[str, Any]]:
    done = called(*args, "--json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def an_engine(scheme: str, value: str) -> tuple[str, str]:
    """An engine that is known to do this with this scheme, and the hardware."""
    for name in ENGINES:
        for place, support in surface(name).checkpoint.get(scheme, {}).items():
            if support.value == value:
                return name, place
    pytest.fail(f"no known engine is {value} for {scheme}")


def test_one_line_for_each_engine_and_kind_of_hardware(tmp_path: Path) -> None:
    done = called(write_model(tmp_path), "--hardware", "h200", "--hardware", "mi300x")
    assert (done.returncode, done.stderr) == (0, "")
    assert "LlamaForCausalLM, bfloat16, context 512 tokens" in done.stdout
    lines = [line for line in done.stdout.splitlines() if "NVIDIA Hopper" in line and "unknown on" not in line]
    known = [name for name in ENGINES if "nvidia_hopper" in surface(name).checkpoint.get("none", {})]
    assert len(lines) == len(known) > 0
    assert max(map(len, done.stdout.splitlines())) <= 100 + len(str(tmp_path))


def test_the_articles_case_what_is_native_here_falls_back_or_is_refused_there(tmp_path: Path) -> None:
    config = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}}
    _, found = told(write_model(tmp_path, config=config))
    assert found["checkpoint"]["quantisation"]["scheme"] == "nvfp4"
    assert {one["hardware"] for one in found["verdicts"]} == set(HARDWARE)
    loads = {(one["engine"], one["hardware"]): one for one in found["verdicts"]}
    engine, place = an_engine("nvfp4", "fallback")
    fallback = loads[engine, place]
    assert fallback["loads"] == "fallback"
    assert fallback["notes"]
    assert fallback["ways"]
    assert {"how", "what", "version", "seen"} <= set(fallback["sources"][0])


def test_an_engine_named_that_refuses_is_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(gguf())
    engine, place = an_engine("gguf", "refused")
    code, found = told(tmp_path / "m.gguf", "--engine", engine, "--hardware", place)
    assert code == 3
    assert len(found["lost"]) == 1
    assert [one["loads"] for one in found["verdicts"]] == ["refused"]
    engine, place = an_engine("gguf", "native")
    assert told(tmp_path / "m.gguf", "--engine", engine, "--hardware", place)[0] == 0


def test_broken_files_are_exit_code_3_and_one_finding(tmp_path: Path) -> None:
    root = write_model(tmp_path)
    (root / "model.safetensors").write_bytes((2**60).to_bytes(8, "little") + b"{}")
    code, found = told(root)
    assert code == 3
    assert [one["kind"] for one in found["findings"]] == ["UM133"]
    assert found["lost"] == ["The model's files are broken: nothing can load them."]
    text = called(root)
    assert text.returncode == 3
    assert "What loads it" not in text.stdout
    assert "Traceback" not in text.stderr


def test_adapters_are_told_beside_the_model(tmp_path: Path) -> None:
    root = write_model(tmp_path / "m")
    write_adapter(tmp_path / "all" / "plain")
    write_adapter(tmp_path / "all" / "dora", use_dora=True)
    code, found = told(root, "--adapter", tmp_path / "all")
    assert code == 0
    assert [one["name"] for one in found["adapters"]] == ["dora", "plain"]
    assert {(one["adapter"], one["engine"]) for one in found["adapter_verdicts"]} == {
        (name, engine) for name in ("dora", "plain") for engine in ENGINES
    }
    serves = {(one["adapter"], one["engine"]): one["serves"] for one in found["adapter_verdicts"]}
    said = {name: {trait: one.value for trait, one in surface(name).adapter.items()} for name in ENGINES}
    peft = [name for name in ENGINES if said[name].get("peft_safetensors") == "native"]
    refusing = [name for name in peft if said[name].get("use_dora") == "refused"]
    assert {serves["plain", name] for name in peft} == {"native"}
    assert {serves["dora", name] for name in refusing} == {"refused"}
    code, _ = told(root, "--adapter", tmp_path / "all" / "dora", "--engine", refusing[0])
    assert code == 3


def test_an_adapter_of_another_model_is_exit_code_3(tmp_path: Path) -> None:
    write_adapter(tmp_path / "a", tensors=lora({"model.layers.0.self_attn.q_proj": (8, 64)}))
    code, found = told(write_model(tmp_path / "m"), "--adapter", tmp_path / "a")
    assert (code, found["lost"]) == (3, ["An adapter does not fit the model."])


def test_json_has_no_template_and_no_shapes(tmp_path: Path) -> None:
    root = write_model(tmp_path, tokenizer_config={"chat_template": "SECRET"})
    (root / "generation_config.json").write_text('{"top_p": NaN, "temperature": 1e999}')
    code, found = told(root)
    assert code == 0
    assert "SECRET" not in json.dumps(found)
    assert found["checkpoint"]["chat_template_characters"] == 6
    assert found["checkpoint"]["generation"] == {"top_p": None, "temperature": None}
    assert "shape_of" not in found["checkpoint"]


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (("{root}/none",), "a model's name on a hub is not enough"),
        (("{root}", "--engine", "nothing"), "known: "),
        (("{root}", "--hardware", "nvidia_hoper"), "did you mean 'nvidia_hopper'?"),
        (("{root}", "--adapter", "{root}"), ""),
        (("{root}", "--engine", f"{ENGINES[0]}@0.0.1", "--strict"), "without --strict the nearest is taken"),
    ],
)
def test_mistakes_in_the_call_are_one_error(tmp_path: Path, args: tuple[str, ...], hint: str) -> None:
    write_model(tmp_path)
    done = called(*(one.format(root=tmp_path) for one in args))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert hint in done.stderr


def test_an_unknown_version_gets_the_nearest_with_a_caveat(tmp_path: Path) -> None:
    _, found = told(write_model(tmp_path), "--engine", f"{ENGINES[0]}@999.0")
    assert [one["code"] for one in found["caveats"]] == ["nearest_version"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *("architectures", "model_type", "torch_dtype", "dtype", "text_config", "quantization_config", "eos_token_id"),
        *("bos_token_id", "auto_map", "vocab_size", "max_position_embeddings", "tie_word_embeddings", "_name_or_path"),
        *("chat_template", "bos_token", "eos_token", "added_tokens_decoder", "add_bos_token", "quantization"),
    ]
)
FILES = st.sampled_from(
    ["config", "generation_config", "tokenizer_config", "tokenizer", "hf_quant_config", "chat_template"]
)


@settings(max_examples=200, deadline=None)
@given(FILES, st.dictionaries(KEYS, JSON, max_size=6))
def test_any_configuration_is_read_judged_and_told(
    tmp_path_factory: pytest.TempPathFactory, file: str, content: dict[str, Any]
) -> None:
    root = write_model(tmp_path_factory.getbasetemp() / f"any-{file}")
    (root / f"{file}.json").write_text(json.dumps(content))
    known = [surface(name) for name in ENGINES]
    report = check_model(read_checkpoint(root), [], known, list(HARDWARE), all_wanted=True)
    assert json.loads(to_json(report))["checkpoint"]["path"] == str(root)
    lines = render(report, kinds()).splitlines()
    assert all(line.isprintable() for line in lines)
