"""Folders and files of models, read as they are: shards, GGUF, pickles, links, marks, templates, code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from made_weights import CONFIG, GGUF_PAIRS, LLAMA, gguf, write_model, write_safetensors, write_shards

from unmoor.core.errors import UnmoorError, UsageError
from unmoor.launch.models import find_model
from unmoor.leave.checkpoint.read import read_checkpoint

FIRST = dict(list(LLAMA.items())[:2])
SECOND = dict(list(LLAMA.items())[2:])
SHARDS = {"model-00001-of-00002.safetensors": FIRST, "model-00002-of-00002.safetensors": SECOND}


def test_a_plain_model(tmp_path: Path) -> None:
    found = read_checkpoint(write_model(tmp_path / "m", generation_config={"temperature": 0.6, "eos_token_id": [2, 7]}))
    assert (found.container, found.architecture, found.dtype) == ("safetensors", "LlamaForCausalLM", "bfloat16")
    assert (found.quantisation.scheme, found.tensors, found.shards) == ("none", {"BF16": 5}, 1)
    assert found.weight_bytes == sum(2 * shape[0] * shape[1] for _, shape in LLAMA.values())
    assert found.eos_in == {"config.json": (2,), "generation_config.json": (2, 7)}
    assert found.eos_ids == (2, 7)
    assert (found.generation["temperature"], found.context_tokens, found.vocab_size) == (0.6, 512, 32)
    assert (found.chat_template, found.has_tokenizer, found.bos_id, found.problems) == (None, False, 1, ())
    assert set(found.hashes) == {"config.json", "generation_config.json"}


def test_shards_with_an_index(tmp_path: Path) -> None:
    found = read_checkpoint(write_shards(tmp_path, SHARDS))
    assert (found.shards, found.tensors, found.problems) == (2, {"BF16": 5}, ())


def test_a_missing_shard_is_one_fatal_problem_that_names_it(tmp_path: Path) -> None:
    write_shards(tmp_path, SHARDS)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    (problem,) = read_checkpoint(tmp_path).problems
    assert problem.fatal
    assert (problem.file, problem.what) == ("model.safetensors.index.json", "1 of 2 files of weights is missing")
    assert problem.seen == "no model-00002-of-00002.safetensors"


def test_a_missing_shard_without_an_index_is_told_by_the_names(tmp_path: Path) -> None:
    write_shards(tmp_path, SHARDS)
    (tmp_path / "model.safetensors.index.json").unlink()
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    (problem,) = read_checkpoint(tmp_path).problems
    assert problem.fatal
    assert problem.seen == "no model-00001-of-00002.safetensors"


def test_tensors_in_the_wrong_shard_in_none_and_unnamed(tmp_path: Path) -> None:
    write_shards(tmp_path, SHARDS)
    index = tmp_path / "model.safetensors.index.json"
    told = json.loads(index.read_bytes())["weight_map"]
    told["lm_head.weight"] = "model-00001-of-00002.safetensors"
    told["model.norm.weight"] = "model-00001-of-00002.safetensors"
    del told["model.layers.0.mlp.down_proj.weight"]
    index.write_text(json.dumps({"weight_map": told}))
    problems = read_checkpoint(tmp_path).problems
    assert [(one.what, one.fatal) for one in problems] == [
        ("1 tensor is in no file", True),
        ("1 tensor is in another file than the index says", True),
        ("1 tensor is not in the index", False),
    ]


@pytest.mark.parametrize("content", ["{}", "[]", '{"weight_map": {"a": 1}}', '{"weight_map": ' + "[" * 100_000])
def test_an_index_that_is_none_is_a_problem(tmp_path: Path, content: str) -> None:
    write_shards(tmp_path, SHARDS)
    (tmp_path / "model.safetensors.index.json").write_text(content)
    (problem,) = read_checkpoint(tmp_path).problems
    assert (problem.file, problem.fatal) == ("model.safetensors.index.json", True)


@pytest.mark.parametrize("name", ["../secret.safetensors", "/etc/passwd", "..", "a\\b"])
def test_an_index_may_not_name_files_elsewhere(tmp_path: Path, name: str) -> None:
    write_shards(tmp_path, SHARDS)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    (problem,) = read_checkpoint(tmp_path).problems
    assert (problem.what, problem.seen) == ("names a file outside its folder", name)


def test_one_broken_shard_leaves_the_others_read(tmp_path: Path) -> None:
    write_shards(tmp_path, SHARDS)
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes((2**60).to_bytes(8, "little"))
    found = read_checkpoint(tmp_path)
    assert (found.shards, [one.fatal for one in found.problems]) == (1, [True])


def test_pickles_are_named_and_never_opened(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch /tmp/never'\ntR.")
    found = read_checkpoint(tmp_path)
    assert (found.container, found.pickles, found.problems) == ("pickle", ("pytorch_model.bin",), ())
    write_model(tmp_path)
    (tmp_path / "original").mkdir()
    (tmp_path / "original" / "consolidated.00.pth").write_bytes(b"")
    found = read_checkpoint(tmp_path)
    assert (found.container, found.pickles) == ("safetensors", ("original/consolidated.00.pth", "pytorch_model.bin"))


def test_a_configuration_without_weights_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (problem,) = read_checkpoint(tmp_path).problems
    assert (problem.what, problem.fatal) == ("has no weights", True)


def test_places_without_a_model_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    for path in (tmp_path, tmp_path / "none", tmp_path / "notes.txt"):
        with pytest.raises(UsageError) as caught:
            read_checkpoint(path)
        assert caught.value.expected


def test_a_hostile_configuration_is_a_problem(tmp_path: Path) -> None:
    for content in (b"[" * 1_000_000, b'{"a": 1, "a": 2}', b"\xff\xfe", b"3", b"", b'{"a": ' + b"9" * 10_000 + b"9,}"):
        write_model(tmp_path)
        (tmp_path / "config.json").write_bytes(content)
        (problem,) = read_checkpoint(tmp_path).problems
        assert (problem.file, problem.fatal) == ("config.json", True)
        assert len(problem.seen) < 100


def test_huge_numbers_in_a_configuration_are_not_taken_for_lengths(tmp_path: Path) -> None:
    write_model(tmp_path)
    (tmp_path / "config.json").write_text('{"max_position_embeddings": ' + "9" * 4000 + "}")
    assert read_checkpoint(tmp_path).context_tokens is None


def test_links_out_of_the_folder_are_told(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "elsewhere.safetensors")
    root = write_model(tmp_path / "m")
    (root / "model.safetensors").unlink()
    (root / "model.safetensors").symlink_to(tmp_path / "elsewhere.safetensors")
    (root / "itself").symlink_to("itself")
    found = read_checkpoint(root)
    assert found.tensors == {"BF16": 5}
    assert [(one.what, one.seen, one.fatal) for one in found.problems] == [
        ("links lead out of the folder", "model.safetensors", False),
        ("links lead in a circle", "itself", False),
    ]


def test_a_snapshot_in_a_hubs_cache_is_one_folder(tmp_path: Path) -> None:
    root = write_model(tmp_path / "models--org--m" / "snapshots" / "abc")
    blobs = tmp_path / "models--org--m" / "blobs"
    blobs.mkdir()
    (root / "model.safetensors").rename(blobs / "f00")
    (root / "model.safetensors").symlink_to("../../blobs/f00")
    found = read_checkpoint(root)
    assert (found.tensors, found.problems) == ({"BF16": 5}, ())


def test_a_dead_link_and_a_pipe_are_problems(tmp_path: Path) -> None:
    root = write_model(tmp_path / "m")
    (root / "model.safetensors").unlink()
    (root / "model.safetensors").symlink_to("gone")
    (root / "generation_config.json").unlink(missing_ok=True)
    os.mkfifo(root / "generation_config.json")
    problems = {one.file: one.what for one in read_checkpoint(root).problems}
    assert problems["model.safetensors"] == "cannot be opened"
    assert problems["generation_config.json"] == "is no ordinary file"


def test_marks_templates_and_code(tmp_path: Path) -> None:
    root = write_model(
        tmp_path,
        config={"auto_map": {"AutoModel": "modeling_x.XModel", "AutoConfig": "org/repo--configuration_x.XConfig"}},
        tokenizer_config={
            "bos_token": {"content": "<s>"},
            "eos_token": "</s>",
            "add_bos_token": True,
            "chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}],
        },
        tokenizer={"added_tokens": [{"id": 9, "content": "</s>", "special": True}], "model": {"vocab": {}}},
    )
    found = read_checkpoint(root)
    assert found.remote_code == ("modeling_x.py", "org/repo: configuration_x.py")
    assert (found.bos_token, found.adds_bos, found.has_tokenizer) == ("<s>", True, True)
    assert found.eos_in == {"config.json": (2,), "tokenizer_config.json": (9,)}
    assert (found.chat_template, found.chat_template_from) == ("D", "tokenizer_config.json")
    (root / "chat_template.jinja").write_text("own")
    found = read_checkpoint(root)
    assert (found.chat_template, found.chat_template_from) == ("own", "chat_template.jinja")


def test_a_model_within_a_model_is_read_by_its_text_part(tmp_path: Path) -> None:
    inner = {"max_position_embeddings": 77, "dtype": "float16", "quantization_config": {"quant_method": "fp8"}}
    write_model(tmp_path, config={"text_config": inner, "torch_dtype": None, "max_position_embeddings": None})
    found = read_checkpoint(tmp_path)
    assert (found.context_tokens, found.dtype, found.quantisation.scheme) == (77, "float16", "fp8")


def test_a_gguf_file_and_its_folder(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(gguf())
    for path in (tmp_path / "tiny.gguf", tmp_path):
        found = read_checkpoint(path)
        assert (found.container, found.architecture, found.file_type) == ("gguf", "llama", "Q4_0")
        assert (found.quantisation.scheme, found.tensors) == ("gguf", {"F32": 1, "Q4_0": 1})
        assert (found.bos_token, found.bos_id, found.adds_bos, found.eos_ids) == ("<s>", 1, True, (2,))
        assert (found.chat_template, found.context_tokens, found.vocab_size) == ("{{ messages }}", 512, 4)
    (tmp_path / "other.gguf").write_bytes(gguf())
    with pytest.raises(UsageError) as caught:
        read_checkpoint(tmp_path)
    assert caught.value.seen == "other.gguf, tiny.gguf"


def test_a_split_gguf_with_a_missing_part(tmp_path: Path) -> None:
    (tmp_path / "t-00001-of-00002.gguf").write_bytes(gguf(tensors={"a": (0, (4,))}))
    (tmp_path / "t-00002-of-00002.gguf").write_bytes(gguf({"split.no": 1}, {"b": (0, (4,))}))
    found = read_checkpoint(tmp_path)
    assert (found.shards, found.tensors, found.architecture, found.problems) == (2, {"F32": 2}, "llama", ())
    (tmp_path / "t-00002-of-00002.gguf").unlink()
    (problem,) = read_checkpoint(tmp_path / "t-00001-of-00002.gguf").problems
    assert (problem.seen, problem.fatal) == ("no t-00002-of-00002.gguf", True)


def test_a_single_file_of_tensors(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x.safetensors")
    found = read_checkpoint(tmp_path / "x.safetensors")
    assert (found.dtype, found.shards, found.architecture) == ("bfloat16", 1, "")


def test_unreadable_folders_are_the_worlds_failure(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 300)
    with pytest.raises(UnmoorError):
        read_checkpoint(path)


SMOLLM2 = find_model("smollm2-135m-instruct")


@pytest.mark.skipif(SMOLLM2 is None, reason="SmolLM2 is not here: unmoor engines fetch smollm2-135m-instruct")
def test_a_real_model_in_both_containers() -> None:
    assert SMOLLM2 is not None
    root = Path(SMOLLM2.root)
    found = read_checkpoint(root / "gguf" / "model.gguf")
    assert (found.architecture, found.file_type, found.context_tokens) == ("llama", "Q4_1", 8192)
    assert (found.eos_ids, found.bos_token, found.problems) == ((2,), "<|im_start|>", ())
    if "hf" in SMOLLM2.formats:
        other = read_checkpoint(root / "hf")
        assert other.shape_of["model.embed_tokens.weight"] == found.shape_of["token_embd.weight"]
        assert (other.eos_ids, other.vocab_size, other.problems) == (found.eos_ids, found.vocab_size, ())


def test_metadata_of_another_kind_than_expected_is_passed_over(tmp_path: Path) -> None:
    odd = {**GGUF_PAIRS, "general.architecture": 5, "tokenizer.chat_template": 5, "tokenizer.ggml.bos_token_id": "x"}
    (tmp_path / "m.gguf").write_bytes(gguf(odd))
    found = read_checkpoint(tmp_path / "m.gguf")
    assert (found.architecture, found.chat_template, found.bos_id) == ("", None, None)
