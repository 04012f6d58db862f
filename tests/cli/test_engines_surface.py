"""`unmoor engines surface` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

from unmoor.engines.surface.load import known_surfaces, surface


def shown(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "unmoor.cli", "engines", "surface", *args]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def test_without_an_engine_every_known_version_is_listed_with_its_day() -> None:
    text = shown().stdout
    listed = json.loads(shown("--json").stdout)["engines"]
    assert {
        one["engine"]: tuple(version["version"] for version in one["versions"]) for one in listed
    } == known_surfaces()
    for engine, versions in known_surfaces().items():
        for version in versions:
            assert f"{version} (as of {surface(f'{engine}@{version}').as_of.isoformat()})" in text


def test_a_surface_reads_in_groups_each_statement_with_its_source_and_the_sources_last() -> None:
    done = shown("vllm@0.32.0")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "vLLM 0.32.0, as of 2026-12-01"
    groups = [line.split()[1] for line in lines if line.startswith("── ")]
    assert groups == [
        *("Requests", "Domains", "Behaviour", "Routes", "Errors", "Metrics", "Started"),
        *("Flags", "Flags", "Parsers", "Schemas", "Adapters", "Checkpoints", "Quantised", "Sources"),
    ]
    assert "  repetition_penalty          0 < x; off at 1; else refused [checks]" in lines
    assert "  unknown_model               404; NotFoundError [live]" in lines
    assert "[live] run: raw answers of a server with a toy model, CPU build (vLLM 0.32.0, 2026-11-30)" in " ".join(
        done.stdout.split()
    )
    assert max(map(len, lines)) <= 120
    assert not [line for line in lines if line.endswith("-")], "names of options are not broken at their hyphens"


def test_json_is_the_whole_surface() -> None:
    told = json.loads(shown("sglang@0.5.23", "--json").stdout)
    known = surface("sglang@0.5.23")
    assert set(told) == set(known.__struct_fields__)
    assert (told["engine"], told["version"], told["as_of"]) == ("sglang", "0.5.23", "2026-12-01")
    assert len(told["options"]) == len(known.options) > 500
    assert told["spellings"]["regex"]["path"] == "regex"
    assert told["traits"]["logprobs_most"]["value"] is None
    assert told["sources"]["options"]["seen"] == "2026-11-30"


def test_a_version_that_is_not_known_is_told_or_refused() -> None:
    near = shown("vllm@0.34.0")
    assert (near.returncode, near.stdout.splitlines()[1]) == (
        0,
        "  ! The surface of vllm 0.34.0 is not known; that of 0.33.0 stands in for it.",
    )
    assert json.loads(shown("vllm@0.34.0", "--json").stdout)["caveats"][0]["code"] == "nearest_version"
    strict = shown("vllm@0.34.0", "--strict")
    assert (strict.returncode, strict.stdout) == (2, "")
    assert "hint: without --strict the nearest is taken, with a caveat" in strict.stderr


def test_an_unknown_engine_is_one_error_with_a_way_out() -> None:
    done = shown("sglan")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'sglang'?" in done.stderr
    assert "Traceback" not in done.stderr
