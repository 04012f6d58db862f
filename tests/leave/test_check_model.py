"""`unmoor check-model`, called as users call it, on small real files."""

from __future__ import annotations

import json
import re
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
from unmoor.report.model_words import engine_words, moves, places_words

ENGINES = list(known_surfaces())
NVFP4 = {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}}


def called(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "unmoor.cli", "check-model", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def told(*args: str | Path) -> tuple[int, dict[str, Any]]:
    done = called(*args, "--json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def spaced(text: str) -> str:
    """The text as one line, whichever way it was wrapped."""
    return " ".join(text.split())


def an_engine(scheme: str, value: str) -> tuple[str, str]:
    """An engine that is known to do this with this scheme, and the hardware."""
    for name in ENGINES:
        for place, support in surface(name).checkpoint.get(scheme, {}).items():
            if support.value == value:
                return name, place
    pytest.fail(f"no known engine is {value} for {scheme}")


def test_hardware_that_shares_an_engines_verdict_shares_a_row(tmp_path: Path) -> None:
    done = called(write_model(tmp_path), "--hardware", "h200", "--hardware", "mi300x")
    assert (done.returncode, done.stderr) == (0, "")
    assert "LlamaForCausalLM, bfloat16, context 512 tokens" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100 + len(str(tmp_path))
    table = done.stdout.partition("What loads it")[2].partition("──\n\n")[0].partition("\n\n")[0]
    answers = re.findall(r" (native|fallback|refused|unknown) +(.+)", table)
    assert [loads for loads, _ in answers] == sorted(
        (loads for loads, _ in answers), key=["native", "fallback", "refused", "unknown"].index
    )
    said = [surface(name).checkpoint.get("none", {}) for name in ENGINES]
    places = ("nvidia_hopper", "amd_cdna3")
    both = [one for one in said if all(place in one and one[place].value == "native" for place in places)]
    assert [where for loads, where in answers if loads == "native"].count("NVIDIA Hopper; AMD Instinct MI300") == len(
        both
    )


def test_all_engines_on_all_hardware_fit_a_screen(tmp_path: Path) -> None:
    text = called(write_model(tmp_path, config=NVFP4)).stdout
    table = text.partition("What loads it")[2].partition("To move")[0]
    assert len(table.splitlines()) < 30  # every engine on every hardware is some eighty verdicts
    told = json.loads(called(tmp_path, "--json").stdout)
    titles = {f"{one['title']} {one['version']}" for one in told["verdicts"]}
    assert all(title in table for title in titles)


def test_to_move_says_for_each_engine_that_refuses_what_would_have_to_be_done(tmp_path: Path) -> None:
    report = check_model(
        read_checkpoint(write_model(tmp_path, config=NVFP4)),
        [],
        [surface(name) for name in ENGINES],
        list(HARDWARE),
        all_wanted=False,
    )
    told = {move.engine for move in moves(report)}
    native = {engine_words(one) for one in report.verdicts if one.loads == "native"}
    refusing = {engine_words(one) for one in report.verdicts if one.loads == "refused"}
    assert refusing - native <= told
    # the article's case: what NVFP4 falls back to on the other vendor's silicon, and what is native there
    (mi350,) = (move for move in moves(report) if "amd_cdna4" in move.places and move.loads == "fallback")
    assert mi350.todo == "works; to be native, quantise the original weights as MXFP4 or AMD Quark (MXFP4)"


def test_to_move_names_the_variant_the_tool_and_the_scales(tmp_path: Path) -> None:
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": False}
    text = spaced(called(write_model(tmp_path / "gptq", config={"quantization_config": gptq})).stdout)
    assert "quantise the original weights anew as GPTQ (4 bits) without zero points (sym on)" in text
    kv = {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}
    text = spaced(called(write_model(tmp_path / "kv", config={"quantization_config": kv})).stdout)
    assert "every engine Calibrate scales into the checkpoint, or keep keys and values in 16 bits." in text
    notes = {one.note for name in ENGINES for one in surface(name).checkpoint["none"].values()}
    (convert,) = (note for note in notes if note.startswith("convert it: "))
    assert convert in spaced(called(write_model(tmp_path / "plain")).stdout).partition("To move")[2]


def test_kernels_of_one_type_beside_a_model_of_another_are_one_statement(tmp_path: Path) -> None:
    gptq = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": False}
    root = write_model(tmp_path, config={"quantization_config": gptq})
    engine, place = next(
        (name, place)
        for name in ENGINES
        for place, one in surface(name).checkpoint.get("gptq_asymmetric", {}).items()
        if one.only_dtype == "float16"
    )
    code, found = told(root, "--engine", engine, "--hardware", place)
    (verdict,) = found["verdicts"]
    (flag, *_) = surface(engine).flags["dtype"].names
    assert (code, verdict["loads"]) == (0, "fallback")
    (note,) = verdict["notes"]
    assert note.endswith(f"float16 alone, and the model is bfloat16, which is an error: start it with {flag} float16")
    assert f"start it with {flag} float16; to be native" in spaced(called(root, "--engine", engine).stdout)
    (variant,) = (one for one in found["findings"] if one["kind"] == "UM115")
    assert variant["fix"].startswith(f"Start it with {flag} float16")
    (root / "config.json").write_text(json.dumps({"torch_dtype": "float16", "quantization_config": gptq}))
    (verdict,) = told(root, "--engine", engine, "--hardware", place)[1]["verdicts"]
    assert not any("bfloat16" in note for note in verdict["notes"])


@pytest.mark.parametrize(
    ("places", "looked_at", "words"),
    [
        (["nvidia_ampere", "nvidia_ada", "cpu_arm"], HARDWARE, "NVIDIA Ampere, Ada; Arm CPU"),
        (list(HARDWARE), HARDWARE, "all hardware"),
        ([one for one in HARDWARE if not one.startswith("nvidia")], HARDWARE, "all but NVIDIA GPUs"),
        ([one for one in HARDWARE if one.startswith("nvidia")], HARDWARE, "NVIDIA GPUs"),
        (["nvidia_hopper"], ["nvidia_hopper"], "NVIDIA Hopper"),
        (["nvidia_hopper", "intel_gaudi"], ["nvidia_hopper", "intel_gaudi"], "NVIDIA Hopper; Intel Gaudi"),
    ],
)
def test_hardware_in_words(places: list[str], looked_at: list[str], words: str) -> None:
    assert places_words(places, looked_at) == words


def test_the_articles_case_what_is_native_here_falls_back_or_is_refused_there(tmp_path: Path) -> None:
    _, found = told(write_model(tmp_path, config=NVFP4))
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
