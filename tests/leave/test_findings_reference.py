"""The page of findings is what the checks say, and what they say is fit to be read."""

from __future__ import annotations

import re
import runpy
from datetime import date
from pathlib import Path

import pytest

from unmoor.leave.checks.registry import kinds
from unmoor.leave.finding import Kind

ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_checks_say() -> None:
    made = runpy.run_path(str(ROOT / "scripts" / "build_findings_reference.py"))["page"]()
    page = (ROOT / "docs" / "reference" / "findings.md").read_text()
    assert page == made, "run: python scripts/build_findings_reference.py"


@pytest.mark.parametrize("known", kinds().values(), ids=lambda kind: kind.id)
def test_a_kind_says_what_bites_how_it_is_found_and_what_to_do(known: Kind) -> None:
    assert re.fullmatch(r"UM\d{3}", known.id)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", known.name)
    assert not known.title.endswith(".")
    for text in (known.bites, known.look, known.mend):
        assert text.endswith(".")
        assert "  " not in text
    for thread in known.threads:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+( PR)?#\d+", thread.name), "owner/repo#number, or owner/repo PR#number"
        assert date.fromisoformat(thread.seen) <= date(2026, 12, 31)


def test_names_of_kinds_are_told_apart() -> None:
    names = [kind.name for kind in kinds().values()]
    assert len(names) == len(set(names))
