"""Start files as people write them, taken apart: options, what they mean, and what does not parse any more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmoor.core.errors import UsageError
from unmoor.engines.surface.load import surface
from unmoor.leave.launch_flags import LaunchFlags, read_launch_flags
from unmoor.leave.starting.secrets import SECRET

SCRIPT = r"""#!/bin/bash
# the server of the assistant
set -euo pipefail
export HF_TOKEN=hf_abcdefghijklmnop VLLM_LOGGING_LEVEL=INFO
MODEL=Qwen/Qwen3-8B
ARGS=(--max-model-len 8k   # for now
  --no-enable-prefix-caching)
CUDA_VISIBLE_DEVICES=0,1 exec vllm serve "$MODEL" \
  -tp 2 \
  --gpu_memory_utilization=0.9 "${ARGS[@]}" \
  --api-key sk-one sk-two --served-model-name a b \
  --swap-space 4 --enable-auto --foo bar > server.log 2>&1 &
"""

MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - name: server
          image: vllm/vllm-openai:v0.32.0
          command: ["vllm", "serve"]
          args:
            - "Qwen/Qwen3-8B"
            - --max-num-seqs=64
            - --api-key
            - $(KEY)
          env:
            - name: VLLM_API_KEY
              value: hush
            - name: VLLM_USE_V1
              value: "1"
          livenessProbe:
            exec:
              command: ["curl", "localhost:8000/health"]
        - name: sidecar
          image: fluent/fluent-bit
          args: ["--log-level", "info"]
"""

COMPOSE = """\
services:
  llm:
    image: vllm/vllm-openai
    environment:
      - HUGGING_FACE_HUB_TOKEN=hush
    command: >
      --model Qwen/Qwen3-8B
      --tensor-parallel-size 2
"""


def read(folder: Path, text: str, engine: str = "vllm@0.32.0", name: str = "start.sh") -> LaunchFlags:
    file = folder / name
    file.write_text(text)
    return read_launch_flags(file, surface(engine))


def test_a_script_is_read_as_a_shell_would(tmp_path: Path) -> None:
    flags = read(tmp_path, SCRIPT)
    assert flags.model == "Qwen/Qwen3-8B"
    assert flags.concepts == {
        "tp": "2",
        "memory_fraction": "0.9",
        "context_tokens": "8k",
        "prefix_caching": "off",
        "api_key": SECRET,
        "served_name": "a b",
        "auto_tool_choice": "on",
    }
    assert flags.spelled["memory_fraction"] == "--gpu_memory_utilization"
    assert (flags.gone, flags.unknown) == (("--swap-space",), ("--foo",))
    assert flags.given["--foo"] == "bar"
    assert flags.prefixes == {"--enable-auto": ("--enable-auto-tool-choice",)}
    assert flags.env == {"HF_TOKEN": SECRET, "VLLM_LOGGING_LEVEL": "INFO", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert flags.lines["-tp"] == 9


def test_no_secret_is_kept(tmp_path: Path) -> None:
    for name, text in (("start.sh", SCRIPT), ("deploy.yaml", MANIFEST), ("compose.yml", COMPOSE)):
        shown = repr(read(tmp_path, text, name=name))
        for secret in ("hf_abc", "sk-one", "sk-two", "hush"):
            assert secret not in shown


def test_a_container_of_a_manifest_is_read_and_its_neighbours_and_probes_are_not(tmp_path: Path) -> None:
    flags = read(tmp_path, MANIFEST, name="deploy.yaml")
    assert flags.model == "Qwen/Qwen3-8B"
    assert flags.concepts == {"max_running": "64", "api_key": SECRET}
    assert flags.env == {"VLLM_API_KEY": SECRET, "VLLM_USE_V1": "1"}
    assert flags.unknown == ()


def test_an_image_that_starts_by_itself_takes_options_at_once(tmp_path: Path) -> None:
    assert read(tmp_path, COMPOSE, name="compose.yml").concepts == {"model": "Qwen/Qwen3-8B", "tp": "2"}
    run = "docker run --gpus all -e HF_TOKEN=hush -p 8000:8000 vllm/vllm-openai:v0.32.0 --model Q --enforce-eager"
    flags = read(tmp_path, run)
    assert (flags.model, flags.concepts["eager"], flags.env) == ("Q", "on", {"HF_TOKEN": SECRET})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('command: ["/bin/sh", "-c"]\nargs: ["vllm serve Q --enforce-eager"]\n', "pod.yaml"),
        ("command:\n  - bash\n  - -c\n  - |\n    export A=1\n    vllm serve Q \\\n      --enforce-eager\n", "pod.yaml"),
        ("bash -c 'vllm serve Q --enforce-eager'", "start.sh"),
        ('FROM python:3\nENV HF_TOKEN=hush\nCMD ["vllm", "serve", "Q", "--enforce-eager"]\n', "Dockerfile"),
        ("[Service]\nExecStart=/opt/venv/bin/vllm serve Q --enforce-eager\n", "llm.service"),
        ("python3 -u -m vllm.entrypoints.openai.api_server --model Q --enforce-eager", "start"),
        ("--model Q --enforce-eager", "flags.txt"),
        ("image: registry.local/our/llm:3\nargs: [--model, Q, --enforce-eager]\n", "pod.yaml"),
        (
            'FROM vllm/vllm-openai:latest\nENV HF_TOKEN=hush\nCMD ["--model", "Q", \\\n  "--enforce-eager"]\n',
            "Dockerfile",
        ),
    ],
)
def test_every_form_of_a_start(tmp_path: Path, text: str, name: str) -> None:
    flags = read(tmp_path, text, name=name)
    assert (flags.model, flags.concepts["eager"]) == ("Q", "on")


def test_abbreviations_are_told_from_what_is_ambiguous(tmp_path: Path) -> None:
    flags = read(
        tmp_path, "python -m sglang.launch_server --model-path Q --tp 2 --mem-frac 0.8 --pp 2 --log 1", "sglang"
    )
    assert flags.prefixes["--tp"] == ("--tp-size",)
    assert flags.concepts["memory_fraction"] == "0.8"
    assert flags.gone == ("--pp",)
    assert len(flags.prefixes["--log"]) > 1
    assert "log_requests" not in flags.concepts


def test_a_script_with_much_else_in_it_is_read_past_the_rest(tmp_path: Path) -> None:
    script = r"""
cat > notes.txt <<EOF
it's vllm serve that is started
EOF
case "$1" in
  one)
    PY=/opt/one/bin/python3.12
    nohup "$PY" -m vllm.entrypoints.openai.api_server --model Q --port "${PORT:-8000}" \
      --kv-transfer-config '{"kv_role": "kv_both"}' -dpl 2 > "$OUT/server.log" 2>&1 &
    ;;
  two) "$PY" -m sglang.launch_server --model-path Q & ;;
esac
for i in $(seq 1 300); do
  CODE=$(curl -s -w "%{http_code}" "http://127.0.0.1:$PORT/v1/completions" -d '{"a": ")"}')
  [ "$CODE" = 200 ] && break || true
done
"""
    flags = read(tmp_path, script)
    assert (flags.concepts["model"], flags.concepts["port"], flags.unknown) == ("Q", "8000", ())
    assert flags.given["--kv-transfer-config"] == '{"kv_role": "kv_both"}'
    assert read(tmp_path, script, "sglang").model == "Q"


def test_negative_values_and_options_after_each_other(tmp_path: Path) -> None:
    flags = read(
        tmp_path, "./build/bin/llama-server -m a.gguf -c 8192 -np -1 --metrics --no-mmap --temp 0", "llama-cpp"
    )
    assert flags.concepts == {"model": "a.gguf", "context_tokens": "8192", "max_running": "-1", "metrics": "on"}
    assert flags.unknown == ("--no-mmap", "--temp")


def test_a_configuration_file_beside_the_start_counts_and_the_command_wins(tmp_path: Path) -> None:
    (tmp_path / "extra.yml").write_text("kv_cache_config:\n  enable_block_reuse: false\ntensor_parallel_size: 4\n")
    flags = read(tmp_path, "trtllm-serve serve Q --tp_size 2 --config extra.yml", "tensorrt-llm")
    assert (flags.concepts["prefix_caching"], flags.concepts["tp"], flags.model) == ("off", "2", "Q")
    missing = read(tmp_path, "trtllm-serve Q --config other.yml", "tensorrt-llm")
    assert missing.unread == ("other.yml: the start names it, and it is not beside start.sh",)


def test_an_engine_s_own_file_alone(tmp_path: Path) -> None:
    flags = read(
        tmp_path, "model: Q\nmax-num-seqs: 64\nenforce-eager: true\nserved-model-name: [a, b]\n", name="c.yaml"
    )
    assert flags.concepts == {"max_running": "64", "eager": "on", "served_name": "a b"}
    assert flags.model == "Q"


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        ("vllm serve 'Q", "start.sh", "start.sh:1: a quote (') that is not closed"),
        ("ls -l\n", "start.sh", "no start of the engine was found"),
        ("", "start.sh", "no start of the engine was found"),
        ("vllm serve A\nvllm serve B\n", "start.sh", "2 servers are started here"),
        ("python -m sglang.launch_server --model-path Q", "start.sh", "this starts SGLang"),
        ("a: {b: c}\nd:\n  - e: f\n", "c.yaml", "c.yaml:3: YAML that is not read here"),
        ("a: &x 1\n", "c.yaml", "c.yaml:1: YAML that is not read here"),
        ('{"args": []}', "pod.json", "JSON is not read here"),
        ("\x00\x01", "start.sh", "no text of a command line"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(tmp_path: Path, text: str, name: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(tmp_path, text, name=name)
    assert told in str(raised.value)
    assert raised.value.seen
    assert raised.value.expected


def test_a_missing_file_and_a_folder_are_clear_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "none.sh", tmp_path):
        with pytest.raises(UsageError, match=r"cannot be read|not a file"):
            read_launch_flags(path, surface("vllm"))


def test_a_pipe_and_a_device_are_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "start.sh")
    for path in (tmp_path / "start.sh", Path("/dev/zero")):
        with pytest.raises(UsageError, match="not a regular file"):
            read_launch_flags(path, surface("vllm"))


def test_variables_that_grow_without_end_are_an_error(tmp_path: Path) -> None:
    script = "A=aaaaaaaaaa\n" + "A=$A$A\n" * 60 + "vllm serve $A\n"
    with pytest.raises(UsageError, match="too long for a command line"):
        read(tmp_path, script)


WORDS = st.sampled_from(
    [
        *("vllm serve", "Q", "--api-key", "--max-num-seqs", "=", "'", '"', "\\", "\n", "$", "${", "}", "(", ")", "A=("),
        *(
            "#",
            "--",
            "-",
            ";",
            "&&",
            "|",
            ">",
            "[",
            "]",
            "- ",
            "command:",
            "args:",
            "image:",
            ": ",
            "|\n",
            "  ",
            "é",
            "--a",
        ),
    ]
)
NAMES = st.sampled_from(["start.sh", "pod.yaml", "c.yml", "Dockerfile"])


@settings(max_examples=300, deadline=None)
@given(
    st.one_of(
        st.lists(WORDS, max_size=25).map(" ".join),
        st.lists(WORDS, max_size=25).map("".join),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    ),
    NAMES,
)
def test_any_file_is_read_or_one_clear_error(tmp_path_factory: pytest.TempPathFactory, text: str, name: str) -> None:
    told = ""
    try:
        flags = read(tmp_path_factory.mktemp("any"), text, name=name)
    except UsageError as error:
        told = str(error)
    assert "expected:" in told if told else set(flags.spelled.values()) <= set(flags.given)


@settings(max_examples=100, deadline=None)
@given(st.lists(WORDS, max_size=8).map(" ".join))
def test_a_key_is_shown_nowhere(tmp_path_factory: pytest.TempPathFactory, after: str) -> None:
    text = f"vllm serve Q --api-key private-one --max-num-seqs 8 {after}"
    try:
        shown = repr(read(tmp_path_factory.mktemp("any"), text))
    except UsageError as error:
        shown = str(error)
    assert "private-one" not in shown
