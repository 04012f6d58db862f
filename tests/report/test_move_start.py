"""The suggested start of the target engine, on paper and as a page."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from unmoor.engines.surface.load import surface
from unmoor.leave.case import Case
from unmoor.leave.check import check_move
from unmoor.leave.checks.registry import kinds
from unmoor.leave.finding import MoveReport
from unmoor.leave.launch_flags import read_launch_flags
from unmoor.leave.uses import Uses
from unmoor.report import move_page, move_text
from unmoor.report.move_words import start_lines

START = "vllm serve 'my model' --api-key private-one --no-enable-prefix-caching --gpu-memory-utilization 0.8 -tp 2\n"


def report(folder: Path, start: str, target: str) -> MoveReport:
    file = folder / "start.sh"
    file.write_text(start)
    here = surface("vllm@0.32.0")
    return check_move(Case(uses=Uses(), source=here, target=surface(target), flags=read_launch_flags(file, here)))


@pytest.mark.parametrize("target", ["sglang", "tensorrt-llm", "llama-cpp", "vllm@0.33.0"])
def test_a_shell_reads_the_start_as_it_was_meant(tmp_path: Path, target: str) -> None:
    made = report(tmp_path, START, target)
    script = "set -- " + "\n".join(start_lines(made)).lstrip() + '\nprintf "%s\\0" "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, check=True, env={"API_KEY": "$API_KEY"}
    )
    assert tuple(done.stdout.split("\0")[:-1]) == made.start_command
    assert "my model" in made.start_command


def test_the_text_has_the_start_its_file_and_what_is_left_to_do(tmp_path: Path) -> None:
    text = move_text.render(report(tmp_path, START, "tensorrt-llm"), kinds())
    assert "── A start of tensorrt-llm, as near as it goes ─" in text
    assert "  trtllm-serve serve 'my model' \\\n      --tensor_parallel_size 2 \\\n" in text
    assert (
        "  extra.yaml:\n    return_perf_metrics: true\n    kv_cache_config:\n      enable_block_reuse: false\n" in text
    )
    assert "  ! --gpu-memory-utilization 0.8: Through bytes:" in text
    assert "private-one" not in text


def test_a_key_is_a_variable_that_the_shell_fills_in(tmp_path: Path) -> None:
    lines = "\n".join(start_lines(report(tmp_path, START, "sglang")))
    assert '--api-key "$API_KEY"' in lines


def test_the_page_has_it_once_and_escapes_it(tmp_path: Path) -> None:
    page = move_page.render(report(tmp_path, START.replace("my model", "<script>"), "sglang"), kinds())
    assert page.count("A start of sglang") == 1
    assert "<script>" not in page


def test_without_a_start_there_is_no_suggestion() -> None:
    made = check_move(Case(uses=Uses(), source=surface("vllm@0.32.0"), target=surface("sglang")))
    assert (made.start_command, made.start_config, made.start_notes) == ((), "", ())
    assert "A start of" not in move_text.render(made, kinds())
