from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from unmoor.cli.plan_files import expand, open_plan, open_traffic, open_workload
from unmoor.core.errors import PlanError, TrafficError
from unmoor.core.plan import Plan

AGENTS = Path(__file__).parent.parent.parent / "examples" / "agents" / "traffic.jsonl"
PLAN = """\
name = "small"
[traffic]
{traffic}
[slo]
ttft_s = 1.5
[model]
name = "m"
weights = "fp8"
[hardware]
device = "h100_sxm"
[[candidates]]
engine = "vllm"
"""
SYNTHETIC = "[traffic.synthetic]\nrequests = 3\nrate_rps = 2\ninput_tokens = 20\noutput_tokens = 5"


def plan_with(traffic: str, folder: Path) -> Plan:
    path = folder / "plan.toml"
    path.write_text(PLAN.format(traffic=traffic))
    plan, text = open_plan(path)
    assert text == path.read_text()
    return plan


def test_traffic_is_found_beside_the_plan(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(AGENTS.read_bytes())
    workload = open_workload(plan_with('path = "t.jsonl"', tmp_path), base=tmp_path)
    assert len(workload.requests) == 1200


def test_described_traffic_is_made(tmp_path: Path) -> None:
    workload = open_workload(plan_with(SYNTHETIC, tmp_path), base=tmp_path)
    assert len(workload.requests) == 3
    assert workload.format == "synthetic"


def test_a_default_in_a_path_is_relative_to_the_plan_too(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "t.jsonl").write_bytes(AGENTS.read_bytes())
    plan = plan_with('path = "${UNMOOR_NO_SUCH_VARIABLE:-traces}/t.jsonl"', tmp_path)
    assert len(open_workload(plan, base=tmp_path).requests) == 1200


def test_traffic_that_is_missing_is_one_error_that_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(TrafficError) as caught:
        open_workload(plan_with('path = "no.jsonl"', tmp_path), base=tmp_path)
    assert caught.value.where == "plan 'small', traffic.path"
    assert caught.value.seen == str(tmp_path / "no.jsonl")


@pytest.mark.parametrize(
    ("traffic", "licence"),
    [
        ('path = "mooncake-conversation.jsonl"', "Apache-2.0"),
        ('path = "conv.jsonl"\nformat = "mooncake"', "Apache-2.0"),
        ('path = "azure-2023-conv.csv"', "CC-BY-4.0"),
    ],
)
def test_a_public_trace_that_is_missing_says_where_to_get_it(tmp_path: Path, traffic: str, licence: str) -> None:
    with pytest.raises(TrafficError) as caught:
        open_workload(plan_with(traffic, tmp_path), base=tmp_path)
    assert caught.value.hint
    assert licence in caught.value.hint
    assert "github.com/" in caught.value.hint


def test_a_public_trace_that_is_missing_says_under_which_name_and_in_which_folder_to_save_it(tmp_path: Path) -> None:
    path = "${UNMOOR_NO_SUCH_VARIABLE:-nowhere}/mooncake-conversation.jsonl"
    with pytest.raises(TrafficError) as caught:
        open_workload(plan_with(f'path = "{path}"', tmp_path), base=tmp_path)
    assert caught.value.hint
    assert caught.value.hint.endswith(
        "Save it as mooncake-conversation.jsonl and set UNMOOR_NO_SUCH_VARIABLE to the folder it is in"
    )


def test_the_format_in_the_plan_is_believed(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_bytes(AGENTS.read_bytes())
    with pytest.raises(TrafficError, match="not the header"):
        open_workload(plan_with('path = "t.jsonl"\nformat = "azure"', tmp_path), base=tmp_path)


def test_variables_are_filled_from_the_environment() -> None:
    home = str(Path("~").expanduser())
    assert expand("$HOME/a/${HOME}", where="w") == f"{home}/a/{home}"
    assert expand("${UNMOOR_NO_SUCH_VARIABLE:-../x}/a", where="w") == "../x/a"
    assert expand("${HOME:-x}", where="w") == home
    assert expand("${UNMOOR_NO_SUCH_VARIABLE:-}", where="w") == ""
    assert expand("plain.jsonl", where="w") == "plain.jsonl"


@pytest.mark.parametrize("written", ["$UNMOOR_NO_SUCH_VARIABLE/t", "${UNMOOR_NO_SUCH_VARIABLE}/t"])
def test_a_variable_that_is_not_set_is_refused(written: str) -> None:
    with pytest.raises(PlanError) as caught:
        expand(written, where="w")
    assert caught.value.message == "the variable UNMOOR_NO_SUCH_VARIABLE is not set"
    assert caught.value.hint == "export UNMOOR_NO_SUCH_VARIABLE=..., or write ${UNMOOR_NO_SUCH_VARIABLE:-default}"


def test_a_plan_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path, seen in ((tmp_path / "none.toml", "nothing at this path"), (tmp_path, "a folder")):
        with pytest.raises(PlanError) as caught:
            open_plan(path)
        assert (caught.value.where, caught.value.seen) == (str(path), seen)
        assert caught.value.hint
    broken = tmp_path / "plan.toml"
    broken.write_bytes(b'name = "a"\n\n# \xe9\n')
    with pytest.raises(PlanError) as caught:
        open_plan(broken)
    assert (caught.value.message, caught.value.where) == ("not UTF-8", f"{broken}:3")


@pytest.mark.parametrize("written", ["~nosuchuserhere/t.jsonl", "a" * 5000])
def test_a_path_that_leads_nowhere_is_an_error_with_a_way_out(written: str, tmp_path: Path) -> None:
    with pytest.raises(TrafficError) as caught:
        open_workload(plan_with(f'path = "{written}"', tmp_path), base=tmp_path)
    assert caught.value.hint


def test_a_log_whose_name_is_no_utf8_is_named_in_escapes(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.jsonl")
    path.write_bytes(AGENTS.read_bytes())
    assert open_traffic(path).source.endswith("\\xff.jsonl")


def test_a_folder_of_logs_is_one_log_in_the_order_of_its_names(tmp_path: Path) -> None:
    lines = AGENTS.read_bytes().splitlines(keepends=True)
    (tmp_path / "may").mkdir()
    (tmp_path / "may" / "a.jsonl.gz").write_bytes(gzip.compress(b"".join(lines[:700])))
    (tmp_path / "may" / "b.jsonl").write_bytes(b"".join(lines[700:]))
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c.jsonl").write_bytes(b"".join(lines))
    (tmp_path / ".d.jsonl").write_bytes(b"\xff")
    (tmp_path / "README.md").write_text('{"model": "m", "prompt": "an example of a line"}\n')
    traffic = open_traffic(tmp_path)
    assert len(traffic) == 1200
    assert traffic.fingerprint == open_traffic(AGENTS).fingerprint
    (told,) = traffic.caveats
    assert told.code == "entries_passed_over"
    assert told.text.endswith("passed over: README.md (documentation), .d.jsonl (hidden), .hidden (hidden).")
    workload = open_workload(plan_with(f'path = "{tmp_path / "may"}"', tmp_path), base=tmp_path)
    assert len(workload.requests) == 1200


def test_what_is_no_file_of_a_folder_is_named_in_a_caveat(tmp_path: Path) -> None:
    elsewhere, logs = tmp_path / "elsewhere", tmp_path / "logs"
    for folder in (elsewhere, logs):
        folder.mkdir()
        (folder / "a.jsonl").write_bytes(AGENTS.read_bytes())
    (logs / "day2").symlink_to(elsewhere)
    (logs / "itself").symlink_to(logs)
    (logs / "gone").symlink_to(tmp_path / "no.jsonl")
    (logs / "loop").symlink_to(logs / "loop")
    (logs / ".hidden").symlink_to(elsewhere)
    os.mkfifo(logs / "pipe")
    traffic = open_traffic(logs)
    assert len(traffic) == 1200
    assert [caveat.code for caveat in traffic.caveats] == ["entries_passed_over"]
    told = traffic.caveats[0].text
    assert "day2 (a link to a folder), gone (a link to no file), itself (a link to a folder), loop (a link" in told
    assert told.endswith("pipe (a pipe or a device) and 1 more.")
    (logs / "a.jsonl").unlink()
    with pytest.raises(TrafficError, match="a folder without a file, but with day2"):
        open_traffic(logs)


def test_a_link_to_a_file_of_a_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").symlink_to(AGENTS)
    assert len(open_traffic(tmp_path)) == 1200
    assert open_traffic(tmp_path).caveats == ()


AS_NOBODY_SPECIAL = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all")
"""Root may read everything; without these capabilities it may read what its mode allows."""


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_folder_below_that_may_not_be_read_is_an_error(tmp_path: Path, mode: int) -> None:
    before = AS_NOBODY_SPECIAL if os.geteuid() == 0 else ()
    if before and shutil.which(before[0]) is None:
        pytest.skip("root cannot be refused a folder here: setpriv is missing")
    may_not = tmp_path / "logs" / "may"
    may_not.mkdir(parents=True)
    for folder in (tmp_path / "logs", may_not):
        (folder / "a.jsonl").write_bytes(AGENTS.read_bytes())
    may_not.chmod(mode)
    try:
        done = subprocess.run(
            [*before, sys.executable, "-m", "unmoor.cli", "profile", str(tmp_path / "logs")],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        may_not.chmod(0o755)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {may_not}" in done.stderr
    assert "Permission denied" in done.stderr
    assert "hint:" in done.stderr


def test_a_closed_standard_input_is_one_clear_error() -> None:
    command = 'exec "$0" -m unmoor.cli profile - <&-'
    done = subprocess.run(["/bin/sh", "-c", command, sys.executable], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: standard input: cannot be read")


def test_a_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrafficError, match="no request in it"):
        open_traffic(tmp_path)


def test_a_log_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrafficError) as caught:
        open_traffic(tmp_path / "no.jsonl")
    assert (caught.value.message, caught.value.seen) == ("cannot be read", "nothing at this path")


def test_a_server_log_without_answers_says_what_is_missing_and_what_to_bring(tmp_path: Path) -> None:
    head = "12-01 12:00:00 [logger.py:39]"
    lines = (
        f"DEBUG {head} Request x-1 details: prompt: 'Hello', prompt_token_ids: None\n"
        f"INFO {head} Received request x-1: params: SamplingParams(n=1, max_tokens=100), lora_request: None.\n"
    )
    (tmp_path / "server.log").write_text(lines)
    with pytest.raises(TrafficError) as caught:
        open_workload(plan_with('path = "server.log"', tmp_path), base=tmp_path)
    error = caught.value
    assert error.message == "the log does not say how long answers were, which this needs"
    assert error.where == f"{tmp_path / 'server.log'}:2"
    assert error.seen == "1 of 1 requests without output tokens"
    assert "output_tokens of [traffic.synthetic]" in str(error.hint)
