"""`unmoor check-results` from a shell: exit codes, JSON, errors; every code and key is documented."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from unmoor.cli.main import run

ROOT = Path(__file__).parent.parent.parent
SAMPLES = ROOT / "tests" / "measure" / "result_samples"
PAGE = (ROOT / "docs" / "reference" / "check-results.md").read_text()


def test_a_void_figure_is_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check-results", str(SAMPLES / "vllm-detailed.json")]) == 3
    printed = capsys.readouterr().out
    assert "VOID: these figures cannot be used" in printed
    assert "ttft_of_an_empty_chunk" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_a_file_without_one_is_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check-results", str(SAMPLES / "guidellm.json"), "--ttft-ms", "100"]) == 0
    printed = capsys.readouterr().out
    assert "GuideLLM, 0.8.1; published by it, not measured by us" in printed
    assert "of all 30 requests meet every bound" in printed


def test_json_is_one_object_whose_keys_are_documented(capsys: pytest.CaptureFixture[str]) -> None:
    for sample in SAMPLES.glob("*.json*"):
        run(["check-results", str(sample), "--json", "--e2e-ms", "500"])
        report = json.loads(capsys.readouterr().out)
        assert report["void"] == any(one["severity"] == "void" for one in report["runs"][0]["findings"])
        load, findings = report["runs"][0]["load"], report["runs"][0]["findings"]
        for key in [*report, *report["runs"][0], *load, *findings[0]]:
            assert f"`{key}`" in PAGE, key


def test_every_code_in_the_source_is_documented() -> None:
    """A code is given to a finding or stands in the table of what is known."""
    source = "".join(path.read_text() for path in (ROOT / "src/unmoor/measure/results").glob("*.py"))
    plain = re.findall(r'code="([a-z_]+)"(?: if \w+ else "([a-z_]+)")?', source)
    tables = re.findall(r'_Behaviour\(\n +"[a-z-]+",\n +"([a-z_]+)"', source)
    codes = {code for pair in plain for code in pair if code} | set(tables)
    assert len(plain) > 25
    assert len(tables) > 10
    assert {code for code in codes if f"`{code}`" not in PAGE} == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.json"], "No such file"),
        ([str(SAMPLES)], "directory"),
        ([str(SAMPLES / "README.md")], "this is not JSON"),
        ([str(SAMPLES / "aiperf.json"), "--format", "vllm"], "did you mean vllm-bench?"),
        ([str(SAMPLES / "aiperf.json"), "--ttft-ms", "none"], "--ttft-ms"),
    ],
)
def test_bad_input_is_exit_code_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check-results", *arguments]) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.out == ""
