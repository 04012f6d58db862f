"""Links in the documents lead somewhere, and what the README tells a newcomer to type is there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
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
    for verb in re.findall(r"(?:\.venv/bin/|`)unmoor ([a-z-]+)", text):
        assert verb in VERBS
    for plan in re.findall(r"examples/\S+?\.toml", text):
        assert (ROOT / plan).is_file()
    for goal in re.findall(r"^make (\w+)", text, flags=re.MULTILINE):
        assert re.search(rf"^{goal}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)


def consoles(page: str) -> list[tuple[list[str], list[str]]]:
    """The calls that a page shows with what they print: the words of each, and its lines."""
    blocks = re.findall(r"^```console\n\$ unmoor (.+)\n([\s\S]+?)^```", page, flags=re.MULTILINE)
    return [(shlex.split(call), printed.splitlines()) for call, printed in blocks]


def test_what_the_readme_shows_is_what_is_printed() -> None:
    """A line of "…" stands for lines that are left out."""
    shown = consoles((ROOT / "README.md").read_text())
    assert shown
    for call, lines in shown:
        command = [sys.executable, "-m", "unmoor.cli", *call]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        assert done.returncode in {0, 3}, done.stderr
        parts = re.split(r"^…\n", "".join(f"{line}\n" for line in lines), flags=re.MULTILINE)
        at = 0
        for part in parts:
            found = done.stdout.find(part, at)
            assert found >= 0, f"unmoor {' '.join(call)} does not print, after what stands before it:\n{part}"
            at = found + len(part)
