"""Links in the documents lead somewhere, and what the README tells a newcomer to type is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unmoor.cli.main import VERBS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_readme_names_only_verbs_and_plans_that_exist() -> None:
    text = (ROOT / "README.md").read_text()
    for verb in re.findall(r"(?:\.venv/bin/|`)unmoor ([a-z]+)", text):
        assert verb in VERBS
    for plan in re.findall(r"examples/\S+?\.toml", text):
        assert (ROOT / plan).is_file()
    for goal in re.findall(r"^make (\w+)", text, flags=re.MULTILINE):
        assert re.search(rf"^{goal}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
