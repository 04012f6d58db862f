from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from unmoor import report
from unmoor.cli.page_file import write_page
from unmoor.core.errors import UsageError, WorldError

ROOT = Path(__file__).parent.parent.parent
LOG = ROOT / "examples" / "gateway-log" / "requests.jsonl.gz"
TEMPLATES = Path(report.__file__).parent / "templates"
PAGE = "<!doctype html>\n<title>Unmoor: a plan</title>\n"


def test_every_page_of_ours_begins_so_that_it_is_known_again() -> None:
    assert (TEMPLATES / "page.html").read_text().startswith("<!doctype html>\n")
    assert "<title>{% block title %}" in (TEMPLATES / "page.html").read_text()[:1024]
    for template in set(TEMPLATES.glob("*.html")) - {TEMPLATES / "page.html"}:
        assert "{% block title %}Unmoor" in template.read_text()


def test_an_older_page_gives_way_and_nothing_else_does(tmp_path: Path) -> None:
    out, link, plan = tmp_path / "new" / "page.html", tmp_path / "link.html", tmp_path / "plan.toml"
    write_page(PAGE, out, print)
    link.symlink_to(out)
    write_page(PAGE + "newer", link, print)
    assert link.is_symlink()
    assert out.read_text() == PAGE + "newer"
    plan.write_text("name = 'small'\n")
    with pytest.raises(UsageError, match="will not be overwritten"):
        write_page(PAGE, plan, print)
    assert plan.read_text() == "name = 'small'\n"


def test_a_private_page_is_its_owners_and_a_private_one_stays_so(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    for private, mode in ((False, 0o644), (True, 0o600), (False, 0o600)):
        write_page(PAGE, out, print, private=private)
        assert stat.S_IMODE(out.stat().st_mode) == mode


def test_a_folder_is_no_place_for_a_page(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="the page cannot be written"):
        write_page(PAGE, tmp_path, print)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--page", "--fingerprint"])
def test_a_dash_is_no_file_and_is_refused_before_the_log_is_read(option: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "unmoor.cli", "profile", "no.jsonl", option, "-"]
    done = subprocess.run(argv, capture_output=True, check=False, cwd=tmp_path, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {option} -: is no file\n  seen:     - for standard output")
    assert f"hint: name a file with {option}" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_dash_is_no_page_of_any_verb() -> None:
    with pytest.raises(UsageError, match="--html -: is no file"):
        write_page(PAGE, Path("-"), print)
    assert not Path("-").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_standard_output_that_is_full_is_one_error_that_names_it(options: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        argv = [sys.executable, "-m", "unmoor.cli", "profile", str(LOG), *options]
        done = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    assert done.returncode == 1
    assert (
        done.stderr
        == "error: standard output: No space left on device\n  hint: is there room where it goes, and is it open?\n"
    )
