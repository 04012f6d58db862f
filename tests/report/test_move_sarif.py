"""The findings of a move as code scanning takes them: what SARIF 2.1.0 requires, and GitHub's limits.

Limits: GitHub, "SARIF results exceed limits" (docs.github.com), read 2026-12-01. On that day every log written for the
example was also valid by OASIS' JSON schema of SARIF 2.1.0; with $UNMOOR_SARIF_SCHEMA naming its file it is tried here.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import msgspec
import pytest

from unmoor.leave.checks.registry import kinds
from unmoor.leave.finding import MoveReport
from unmoor.report import move_page, move_text
from unmoor.report.move_words import TODAY, sections

ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama-cpp")
LOG = Path(__file__).parents[2] / "examples" / "move" / "requests.jsonl.gz"
MOST_RESULTS, MOST_RULES, MOST_LOCATIONS, MOST_BYTES = 25_000, 25_000, 1_000, 10_000_000
MOST_NAME, MOST_DESCRIPTION = 255, 1024

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "additionalProperties": False,
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "pattern": "^[A-Za-z0-9._~/%:-]+$"}},
                },
                "region": {"type": "object", "properties": {"startLine": {"type": "integer", "minimum": 1}}},
            },
        }
    },
}
RULE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id", "shortDescription", "fullDescription", "help"],
    "properties": {
        "id": {"type": "string", "pattern": "^UM[0-9]{3}$"},
        "name": {"type": "string", "pattern": "^[A-Za-z0-9]+$", "maxLength": MOST_NAME},
        "shortDescription": TEXT,
        "fullDescription": TEXT,
        "help": TEXT,
        "helpUri": {"type": "string"},
    },
}
RESULT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["ruleId", "ruleIndex", "level", "message", "locations"],
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": {"enum": ["error", "warning", "note"]},
        "message": TEXT,
        "locations": {"type": "array", "minItems": 1, "items": LOCATION},
        "relatedLocations": {"type": "array", "items": LOCATION, "uniqueItems": True},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "properties": {"type": "object"},
    },
}
SARIF = {
    "type": "object",
    "additionalProperties": False,
    "required": ["$schema", "version", "runs"],
    "properties": {
        "$schema": {"type": "string"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "version", "rules"],
                                "properties": {"rules": {"type": "array", "uniqueItems": True, "items": RULE}},
                            }
                        },
                    },
                    "results": {"type": "array", "items": RESULT},
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "properties": {"type": "object"},
                },
            },
        },
    },
}
"""What we write of SARIF, by the standard's names and what it requires."""


@cache
def written(source: str, target: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any], int]:
    """The SARIF log of a move, the same as JSON, and the log's size in bytes."""
    out = folder / f"{source}-{target}.sarif"
    argv = [sys.executable, "-m", "unmoor.cli", "move", "check", "--from", source, "--to", target]
    home = {**os.environ, "UNMOOR_HOME": str(folder)}
    done = subprocess.run(
        [*argv, "--traffic", str(LOG), "--json", "--sarif", str(out)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=home,
    )
    assert "sarif: " in done.stderr
    return json.loads(out.read_text()), json.loads(done.stdout), out.stat().st_size


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sarif")


@pytest.mark.parametrize(("source", "target"), list(itertools.pairwise((*ENGINES, ENGINES[0]))))
def test_what_is_written_has_what_the_standard_requires_and_stays_within_githubs_limits(
    source: str, target: str, folder: Path
) -> None:
    log, report, size = written(source, target, folder)
    jsonschema.Draft202012Validator(SARIF).validate(log)
    if schema := os.environ.get("UNMOOR_SARIF_SCHEMA"):
        jsonschema.Draft7Validator(json.loads(Path(schema).read_text())).validate(log)
    (run,) = log["runs"]
    rules, results = run["tool"]["driver"]["rules"], run["results"]
    assert size < MOST_BYTES
    assert len(rules) <= MOST_RULES
    assert len(results) <= MOST_RESULTS
    assert all(len(one["locations"]) + len(one.get("relatedLocations", ())) <= MOST_LOCATIONS for one in results)
    for rule in rules:
        assert len(rule["shortDescription"]["text"]) <= MOST_DESCRIPTION
        assert len(rule["fullDescription"]["text"]) <= MOST_DESCRIPTION
    assert len(results) == len(report["findings"])
    assert {rule["id"] for rule in rules} == {finding["kind"] for finding in report["findings"]}


def test_each_result_is_its_finding_at_its_first_line(folder: Path) -> None:
    log, report, _ = written("vllm", "sglang", folder)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    levels = set()
    for result, finding in zip(run["results"], report["findings"], strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding["kind"]
        assert finding["seen"] in result["message"]["text"]
        place = result["locations"][0]["physicalLocation"]
        assert quote(report["traffic"]).endswith(place["artifactLocation"]["uri"])  # relative where it lies below
        assert place["region"]["startLine"] == (finding["lines"] or [1])[0]
        further = [one["physicalLocation"]["region"]["startLine"] for one in result.get("relatedLocations", ())]
        assert further == finding["lines"][1:101]
        today = finding["kind"] == TODAY
        assert result["level"] == ("note" if finding["outcome"] == "same" and not today else finding["severity"])
        assert (result["properties"]["section"] == "Unconstrained today") == today
        levels.add(result["level"])
    assert levels == {"error", "warning", "note"}


def test_results_and_the_page_have_the_headings_of_the_text(folder: Path) -> None:
    log, report, _ = written("vllm", "llama-cpp", folder)
    told = msgspec.convert(report, MoveReport)
    headings = [heading for heading, _ in sections(told)]
    page, text = move_page.render(told, kinds()), move_text.render(told, kinds())
    assert headings[0] == "Unconstrained today"
    for heading, found in sections(told):
        results = [one for one in log["runs"][0]["results"] if one["properties"]["section"] == heading]
        assert [one["ruleId"] for one in results] == [finding.kind for finding in found]
        assert f"<h2>{heading}: {len(found)}</h2>" in page
        assert f"{heading}: {len(found)} findings" in text
    assert [page.index(f"<h2>{heading}: ") for heading in headings] == sorted(
        page.index(f"<h2>{heading}: ") for heading in headings
    )


def results_of(log: Path, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    log.write_text("".join(json.dumps({"request": request}) + "\n" for request in requests))
    out = log.with_suffix(".sarif")
    argv = [sys.executable, "-m", "unmoor.cli", "move", "check", "--from", "vllm", "--to", "tensorrt-llm"]
    subprocess.run([*argv, "--traffic", str(log), "--sarif", str(out)], capture_output=True, check=False)
    found: list[dict[str, Any]] = json.loads(out.read_text())["runs"][0]["results"]
    return found


def test_a_finding_has_one_fingerprint_on_whatever_lines_and_no_two_have_the_same(tmp_path: Path) -> None:
    plain = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
    odd = [{**plain, "top_k": -1}, {**plain, "guided_json": {"type": "object"}}, {**plain, "n": 2, "top_k": -1}]
    before = results_of(tmp_path / "today.jsonl", odd)
    after = results_of(tmp_path / "tomorrow.jsonl", [plain, *reversed(odd), *odd])
    fingerprints = [tuple(sorted(one["partialFingerprints"].items())) for one in before]
    assert len(before) > 2
    assert len(set(fingerprints)) == len(before)
    assert set(fingerprints) == {tuple(sorted(one["partialFingerprints"].items())) for one in after}
    assert [one["locations"] for one in before] != [one["locations"] for one in after]
    for one in before:
        assert set(one["partialFingerprints"]) == {"unmoorFinding/v1", "primaryLocationLineHash"}


def test_a_path_with_spaces_is_a_uri(tmp_path: Path) -> None:
    log = tmp_path / "a log with spaces & more.jsonl"
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "top_k": -1}
    log.write_text(json.dumps({"request": body}) + "\n")
    out = tmp_path / "out.sarif"
    argv = [sys.executable, "-m", "unmoor.cli", "move", "check", "--from", "vllm", "--to", "tensorrt-llm"]
    subprocess.run([*argv, "--traffic", str(log), "--sarif", str(out)], capture_output=True, check=False)
    (run,) = json.loads(out.read_text())["runs"]
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri)
    assert uri.endswith("a%20log%20with%20spaces%20%26%20more.jsonl")
