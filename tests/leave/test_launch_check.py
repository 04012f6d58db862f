"""How a start of one engine reads on another: each kind fires on a small start, and not on its clean twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from unmoor.engines.surface.load import known_surfaces, surface
from unmoor.leave.case import Case
from unmoor.leave.checkpoint.checkpoint import Checkpoint, Quantisation
from unmoor.leave.checks.launch import CHECK
from unmoor.leave.finding import Finding
from unmoor.leave.launch_flags import read_launch_flags
from unmoor.leave.start_command import StartCommand, start_command
from unmoor.leave.starting.memory_shares import rule
from unmoor.leave.starting.secrets import SECRET
from unmoor.leave.uses import Uses

VLLM, SGLANG, TRTLLM, LLAMA = "vllm@0.32.0", "sglang@0.5.23", "tensorrt-llm@1.3.0rc3", "llama-cpp@11434"
PINNED = "--host 0.0.0.0 --port 8000"


def case_of(folder: Path, start: str, source: str, target: str, model: Checkpoint | None = None) -> Case:
    file = folder / "start.sh"
    file.write_text(start)
    here = surface(source)
    flags = read_launch_flags(file, here)
    return Case(uses=Uses(), source=here, target=surface(target), flags=flags, model=model)


def found(folder: Path, start: str, source: str, target: str, kind: str) -> list[Finding]:
    return [hit.finding for hit in CHECK.look(case_of(folder, start, source, target)) if hit.finding.kind == kind]


def command(folder: Path, start: str, source: str, target: str) -> StartCommand:
    return start_command(case_of(folder, start, source, target))


# --- Every kind fires, and its clean twin does not ---


@pytest.mark.parametrize(
    ("kind", "target", "fires", "clean"),
    [
        ("UM126", SGLANG, "--enforce-eager", "--max-num-seqs 8"),
        ("UM126", SGLANG, "--gpu-memory-utilization 0.5", "--gpu-memory-utilization 0.92"),
        ("UM126", SGLANG, "--kv-cache-dtype fp8", "--kv-cache-dtype auto"),
        ("UM141", SGLANG, "-tp 2", "--enable-lora"),
        ("UM142", TRTLLM, "--api-key k", "--max-num-seqs 8"),
        ("UM143", SGLANG, "--gpu-memory-utilization 0.8", "--max-num-seqs 8"),
        ("UM144", SGLANG, "--swap-space 4", "--max-num-seqs 8"),
        ("UM144", SGLANG, "--enable-auto", "--enable-auto-tool-choice"),
        ("UM144", SGLANG, "--enable-nothing-such", "--enable-log-requests"),
        ("UM145", SGLANG, "", f"{PINNED} --max-num-seqs 8 --disable-log-stats"),
        ("UM146", SGLANG, "--tool-call-parser deepseek_v3", "--tool-call-parser qwen3_coder"),
    ],
)
def test_a_kind_fires_and_its_clean_twin_does_not(
    tmp_path: Path, kind: str, target: str, fires: str, clean: str
) -> None:
    assert found(tmp_path, f"vllm serve Q {fires}", VLLM, target, kind)
    assert found(tmp_path, f"vllm serve Q {clean}", VLLM, target, kind) == []


@pytest.mark.parametrize("source", [VLLM, SGLANG, TRTLLM, LLAMA])
def test_nothing_is_said_of_an_engine_that_stays(tmp_path: Path, source: str) -> None:
    start = surface(source).start
    assert start is not None
    case = case_of(tmp_path, f"{start.command} Q", source, source)
    assert [hit.finding for hit in CHECK.look(case)] == []


def test_a_start_that_says_everything_has_nothing_to_mend_in_the_next_version(tmp_path: Path) -> None:
    start = f"vllm serve Q -tp 2 --max-model-len 8k --api-key k --no-enable-prefix-caching --enforce-eager {PINNED}"
    case = case_of(tmp_path, start, VLLM, "vllm@0.33.0")
    assert [hit.finding for hit in CHECK.look(case)] == []
    assert start_command(case).words == tuple(start.replace("--api-key k", "--api-key $API_KEY").split())


def test_a_move_without_a_start_says_what_was_not_looked_at() -> None:
    case = Case(uses=Uses(), source=surface(VLLM), target=surface(SGLANG))
    assert list(CHECK.look(case)) == []
    assert case.not_looked_at == ["how the engine is started: --start names a file with its command line"]
    assert start_command(case) == StartCommand()


# --- What goes where ---


@pytest.mark.parametrize(
    ("source", "given", "target", "there"),
    [
        (VLLM, "-tp 2", SGLANG, "--tp-size 2"),
        (VLLM, "-tp 2", TRTLLM, "--tensor_parallel_size 2"),
        (VLLM, "--max-model-len 8k", SGLANG, "--context-length 8000"),
        (VLLM, "--max-model-len 8K", TRTLLM, "--max_seq_len 8192"),
        (VLLM, '--api-key "$VLLM_API_KEY"', LLAMA, "--api-key $VLLM_API_KEY"),
        (VLLM, "--no-enable-prefix-caching", SGLANG, "--disable-radix-cache"),
        (VLLM, "--no-enable-prefix-caching", LLAMA, "--no-cache-prompt"),
        (VLLM, "--no-enable-chunked-prefill", SGLANG, "--chunked-prefill-size -1"),
        (VLLM, "--kv-cache-dtype fp8", SGLANG, "--kv-cache-dtype fp8_e4m3"),
        (VLLM, "--structured-outputs-config.backend guidance", SGLANG, "--grammar-backend llguidance"),
        (VLLM, "--generation-config vllm", SGLANG, "--sampling-defaults openai"),
        (VLLM, "--generation-config auto", TRTLLM, "--generation-config auto"),
        (VLLM, "--enable-prompt-tokens-details", SGLANG, "--enable-cache-report"),
        (VLLM, "--lora-modules a=/a b=/b", SGLANG, "--lora-paths a=/a b=/b"),
        (VLLM, "--served-model-name a b", LLAMA, "--alias a,b"),
        (VLLM, "--chat-template ./t.jinja", LLAMA, "--chat-template-file ./t.jinja"),
        (VLLM, "--tool-call-parser hermes", TRTLLM, "--tool_parser qwen3"),
        (VLLM, "--reasoning-parser deepseek_r1", SGLANG, "--reasoning-parser deepseek-r1"),
        (SGLANG, "--max-lora-rank 24", VLLM, "--max-lora-rank 32"),
        (SGLANG, "--chunked-prefill-size -1", VLLM, "--no-enable-chunked-prefill"),
        (SGLANG, "--tool-call-parser qwen25", VLLM, "--tool-call-parser hermes"),
        (SGLANG, "--enable-metrics", LLAMA, "--metrics"),
        (SGLANG, "--disable-cuda-graph", VLLM, "--enforce-eager"),
        (SGLANG, "--cuda-graph-backend-decode disabled", VLLM, "--enforce-eager"),
        (LLAMA, "-c 32768 -np 4", VLLM, "--max-model-len 8192 --max-num-seqs 4"),
        (
            VLLM,
            "--scheduling-policy priority",
            SGLANG,
            "--enable-priority-scheduling --schedule-low-priority-values-first",
        ),
        (
            SGLANG,
            "--enable-priority-scheduling --schedule-low-priority-values-first",
            VLLM,
            "--scheduling-policy priority",
        ),
        (LLAMA, "--parallel 64", TRTLLM, "--max_batch_size 64"),
    ],
)
def test_options_go_over_with_their_values(tmp_path: Path, source: str, given: str, target: str, there: str) -> None:
    start = surface(source).start
    assert start is not None
    words = " ".join(command(tmp_path, f"{start.command} {given}", source, target).words)
    assert f" {there} " in f"{words} "


def test_what_belongs_into_a_configuration_file_is_written_there(tmp_path: Path) -> None:
    start = (
        "vllm serve Q --no-enable-prefix-caching --max-lora-rank 64 --dtype bfloat16 "
        "--structured-outputs-config.backend xgrammar"
    )
    done = command(tmp_path, start, VLLM, TRTLLM)
    assert done.words[:3] == ("trtllm-serve", "serve", "Q")
    assert done.words[-2:] == ("--config", "extra.yaml")
    assert done.config == (
        "dtype: bfloat16\nguided_decoding_backend: xgrammar\nreturn_perf_metrics: true\n"
        "kv_cache_config:\n  enable_block_reuse: false\n"
        "lora_config:\n  max_lora_rank: 64\n"
    )


def test_what_has_no_straight_translation_is_told_and_left_out(tmp_path: Path) -> None:
    done = command(tmp_path, "vllm serve Q --gpu-memory-utilization 0.8 --enable-expert-parallel", VLLM, SGLANG)
    assert not {"--mem-fraction-static", "0.8", "--ep-size"} & set(done.words)
    assert [note.partition(":")[0] for note in done.notes] == [
        "--gpu-memory-utilization 0.8",
        "--enable-expert-parallel",
    ]
    backend = command(tmp_path, "python -m sglang.launch_server --model-path Q --attention-backend fa3", SGLANG, VLLM)
    assert "--attention-backend" not in backend.words
    assert "GGUF" in command(tmp_path, "vllm serve Q", VLLM, LLAMA).notes[0]


def test_priorities_keep_their_direction_or_say_that_they_turn_round(tmp_path: Path) -> None:
    start = "vllm serve Q --scheduling-policy priority"
    (finding,) = found(tmp_path, start, VLLM, TRTLLM, "UM141")
    assert (finding.severity, "turn theirs round" in finding.fix) == ("warning", True)
    assert "waiting_queue_policy: priority" in command(tmp_path, start, VLLM, TRTLLM).config
    (lost,) = found(tmp_path, start, VLLM, LLAMA, "UM142")
    assert "order of arrival" in lost.fix
    assert found(tmp_path, "vllm serve Q --scheduling-policy fcfs", VLLM, LLAMA, "UM142") == []


def test_aliases_that_the_target_has_no_place_for_are_named(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, "vllm serve Q --served-model-name a b c", VLLM, SGLANG, "UM141")
    assert (finding.severity, finding.features) == ("warning", ("flag --served-model-name",))
    assert "b, c is left out" in finding.fix


def test_no_server_without_a_key_goes_unnoticed(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, "vllm serve Q --api-key private-one", VLLM, TRTLLM, "UM142")
    assert (finding.outcome, finding.severity) == ("lost", "error")
    assert "private-one" not in repr(finding)


def test_options_that_no_table_compares_are_told_as_not_looked_at(tmp_path: Path) -> None:
    case = case_of(tmp_path, "vllm serve Q --uvicorn-log-level info", VLLM, SGLANG)
    assert not [hit for hit in CHECK.look(case) if "uvicorn" in hit.finding.seen]
    assert "options of the start that no table compares: --uvicorn-log-level" in case.not_looked_at


# --- Options that are gone ---


def test_an_option_that_older_versions_had_says_what_to_use(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, "vllm serve Q --guided-decoding-backend xgrammar", VLLM, SGLANG, "UM144")
    assert finding.severity == "error"
    assert finding.fix == "Use --structured-outputs-config.backend."
    assert "line 1" in finding.seen


def test_an_abbreviation_is_a_warning_and_an_ambiguous_one_an_error(tmp_path: Path) -> None:
    start = "python -m sglang.launch_server --model-path Q --tp 2 --log 1"
    first, second = found(tmp_path, start, SGLANG, VLLM, "UM144")
    assert (first.severity, first.fix) == ("warning", "Write --tp-size.")
    assert second.severity == "error"
    assert "--log may be" in second.seen


def test_a_new_version_that_drops_an_option_is_told_before_it_is_installed(tmp_path: Path) -> None:
    start = "vllm serve Q --disable-prefix-caching"
    (finding,) = found(tmp_path, start, "vllm@0.33.0", VLLM, "UM144")
    assert "0.32.0 does not take --disable-prefix-caching" in finding.seen


# --- Defaults ---


def test_defaults_that_were_never_said_are_passed(tmp_path: Path) -> None:
    words = command(tmp_path, "vllm serve Q", VLLM, SGLANG).words
    assert words == ("sglang", "serve", "--model-path", "Q", *PINNED.split(), "--enable-metrics")
    back = command(tmp_path, "trtllm-serve Q", TRTLLM, VLLM).words
    assert "--enable-prompt-tokens-details" in back
    assert "--generation-config" in back


def test_telemetry_that_was_off_is_a_note(tmp_path: Path) -> None:
    start = "python -m sglang.launch_server --model-path Q"
    told = {one.features[0]: one for one in found(tmp_path, start, SGLANG, TRTLLM, "UM145")}
    assert told["flag telemetry (left out)"].severity == "note"
    assert "--no-telemetry" in told["flag telemetry (left out)"].fix


# --- Memory ---


def test_a_share_of_memory_goes_through_bytes(tmp_path: Path) -> None:
    model = Checkpoint(
        path="m",
        container="safetensors",
        architecture="Qwen3ForCausalLM",
        dtype="bfloat16",
        quantisation=Quantisation(scheme="none"),
        weight_bytes=32 * 2**30,
    )
    case = case_of(tmp_path, "vllm serve Q -tp 2 --gpu-memory-utilization 0.9", VLLM, SGLANG, model)
    (finding,) = [hit.finding for hit in CHECK.look(case) if hit.finding.kind == "UM143"]
    assert "W = 16.0 GiB from the model's files" in finding.fix
    assert "K = 52.0 GiB, there 0.85" in finding.fix


@pytest.mark.parametrize("of", ["total", "weights_and_kv", "free_after_weights"])
@pytest.mark.parametrize("to", ["total", "weights_and_kv", "free_after_weights"])
def test_a_share_is_itself_again_after_going_there_and_back(of: str, to: str) -> None:
    there = rule(0.8, of, to, weight_gib=16.0).rpartition("there ")[2].rstrip(".")
    back = rule(float(there), to, of, weight_gib=16.0).rpartition("there ")[2].rstrip(".")
    assert float(back) == pytest.approx(0.8, abs=0.011)


def test_without_the_weights_there_is_no_example_and_without_the_whole_no_rule() -> None:
    assert "For example" not in rule(0.8, "total", "weights_and_kv", weight_gib=None)
    assert rule(0.8, "none", "total", weight_gib=16.0) == ""


# --- All pairs ---

EVERYTHING = {
    VLLM: "-tp 2 --gpu-memory-utilization 0.85 --max-model-len 8k --max-num-seqs 64 --enforce-eager"
    " --kv-cache-dtype fp8 --api-key k --served-model-name a b --tool-call-parser hermes --reasoning-parser qwen3"
    " --enable-lora --lora-modules x=/a --disable-log-stats --scheduling-policy priority --enable-expert-parallel",
    SGLANG: "--model-path Q --tp-size 2 --mem-fraction-static 0.8 --tool-call-parser glm45 --disable-radix-cache"
    " --schedule-policy lpm --enable-metrics --speculative-algorithm EAGLE --random-seed 1",
    TRTLLM: "Q --tp_size 2 --free_gpu_memory_fraction 0.8 --max_num_tokens 4096 --tool_parser glm4",
    LLAMA: "-m a.gguf -c 32768 -np 4 --metrics -ctk q8_0 --cache-ram 1024 -ngl 99 -fa on",
}


@pytest.mark.parametrize("source", EVERYTHING)
@pytest.mark.parametrize("target", known_surfaces())
def test_every_option_of_every_pair_is_classed_or_not_looked_at(tmp_path: Path, source: str, target: str) -> None:
    start = surface(source).start
    assert start is not None
    case = case_of(tmp_path, f"{start.command} {EVERYTHING[source]}", source, target)
    findings = [hit.finding for hit in CHECK.look(case)]
    done = start_command(case)
    for finding in findings:
        assert finding.kind in {kind.id for kind in CHECK.kinds}
        assert not finding.fix.startswith("Pass ``")
        assert "None" not in finding.fix + finding.seen
    assert all(word and word != SECRET for word in done.words)
    known = {name for flag in case.target.flags.values() for name in flag.names}
    known |= {word for flag in case.target.flags.values() for word in (*flag.on.split(), *flag.off.split())}
    known |= {word for trait in case.target.traits.values() for word in trait.flag.split()}
    known |= {name for option in case.target.options.values() for name in option.flags}
    assert {word for word in done.words if word.startswith("--")} <= known
