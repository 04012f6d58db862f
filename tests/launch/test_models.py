"""Models: known by hash, looked for where they are kept, and the same in every format."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from unmoor.core.errors import InstallError, UsageError
from unmoor.engines.contract import GGUF_FILE, LaunchSpec
from unmoor.engines.registry import engine
from unmoor.launch.environments import installed
from unmoor.launch.models import check_hash, find_model, known_model
from unmoor.launch.process import RunningEngine, free_port, launch

MODEL = "smollm2-135m-instruct"

# Prompts whose next token every engine is sure of: a near tie would test rounding, not conversion.
CLEAR = {
    "The capital of France is": " Paris",
    "The opposite of hot is": " cold",
    "Water boils at 100 degrees": " Celsius",
}


def test_an_unknown_model_is_refused_with_what_is_known() -> None:
    with pytest.raises(UsageError) as raised:
        known_model("smollm2-135m-instrukt")
    assert raised.value.hint == f"did you mean '{MODEL}'?"


def test_another_file_under_the_known_name_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "model.gguf"
    other.write_bytes(b"something else")
    with pytest.raises(InstallError, match="is not what is known by that name"):
        check_hash(other, known_model(MODEL).gguf_sha256)


def test_a_damaged_file_under_the_known_name_is_not_called_here(tmp_path: Path) -> None:
    damaged = tmp_path / "models" / MODEL / GGUF_FILE
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"GGUF, cut short")
    code = f"from unmoor.cli.main import run; raise SystemExit(run(['engines', 'fetch', {MODEL!r}]))"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "UNMOOR_HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 2  # it asks before it brings anything, and nobody answers
    assert f"the file that is here is not {MODEL} as it is known: it is brought again" in shown.stderr
    assert "is here as" not in shown.stderr


@pytest.mark.real_engine
def test_what_was_fetched_has_the_known_hash() -> None:
    model = find_model(MODEL)
    if model is None:
        pytest.skip(f"needs `unmoor engines fetch {MODEL}`")
    check_hash(Path(model.root) / GGUF_FILE, known_model(MODEL).gguf_sha256)


def first_words(running: RunningEngine) -> dict[str, str]:
    said = {}
    for prompt in CLEAR:
        connection = http.client.HTTPConnection(running.host, running.port, timeout=120)
        asked = {"model": running.served_name, "prompt": prompt, "max_tokens": 1, "temperature": 0}
        connection.request("POST", "/v1/completions", json.dumps(asked), {"Content-Type": "application/json"})
        said[prompt] = json.loads(connection.getresponse().read())["choices"][0]["text"]
        connection.close()
    return said


@pytest.mark.real_engine
def test_the_single_file_says_what_is_clear(embedded: RunningEngine) -> None:
    assert first_words(embedded) == CLEAR


@pytest.mark.real_engine
def test_the_converted_folder_says_the_same_on_another_engine(tmp_path: Path) -> None:
    environment, model = installed("vllm"), find_model(MODEL)
    if environment is None or model is None or "hf" not in model.formats:
        pytest.skip(f"needs `unmoor engines install vllm` and `unmoor engines fetch {MODEL} --format hf`")
    spec = LaunchSpec(
        python=environment.python,
        model_dir=model.root,
        served_name="demo",
        host="127.0.0.1",
        port=free_port(),
        threads=min(2, os.cpu_count() or 1),
        context_tokens=512,
    )
    with launch(
        engine("vllm"), spec, {}, log_path=tmp_path / "vllm.log", ready_timeout_s=300, say=lambda _: None
    ) as running:
        assert first_words(running) == CLEAR
        assert len(running.children()) > 1
    assert running.children() == ()
