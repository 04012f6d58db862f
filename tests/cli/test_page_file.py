from __future__ import annotations

import stat
from pathlib import Path

import pytest

from unmoor import report
from unmoor.cli.page_file import write_page
from unmoor.core.errors import UsageError, WorldError

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
