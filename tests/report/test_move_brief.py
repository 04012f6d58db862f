"""A check of a move as text: what is unconstrained today comes first, and the short form keeps to what matters."""

from __future__ import annotations

import pytest

from unmoor.leave.checks.registry import kinds
from unmoor.leave.finding import Feature, Finding, MoveReport, Outcome, Severity
from unmoor.report.move_text import render, render_brief


def finding(kind: str, outcome: Outcome, severity: Severity, feature: str, fix: str = "Leave it out.") -> Finding:
    return Finding(kind=kind, outcome=outcome, severity=severity, features=(feature,), seen="So it is.", fix=fix)


def report(*findings: Finding) -> MoveReport:
    return MoveReport(
        source_engine="vllm",
        source_version="1",
        target_engine="sglang",
        target_version="2",
        traffic="log.jsonl",
        format="openai",
        requests=2000,
        bodies=2000,
        features=(
            Feature(name="chat.a", requests=9, outcome="lost"),
            Feature(name="chat.b", requests=0, outcome="same"),
        ),
        findings=findings,
        lost_requests=9,
        translated_requests=1,
    )


LOST = finding("UM124", "lost", "warning", "chat.a")
AGAIN = finding("UM124", "lost", "warning", "chat.c")
TODAY = finding("UM156", "same", "error", "chat.guided_json", "vLLM reads it in `structured_outputs.json`.")
NOTE = finding("UM124", "same", "note", "chat.d")


def test_what_is_unconstrained_today_is_told_first_and_once() -> None:
    text = render(report(LOST, TODAY), kinds())
    assert text.index("── Unconstrained today: 1 finding") < text.index("── Lost: 1 finding")
    assert text.count("chat.guided_json") == 1
    assert "Unconstrained today" not in render(report(LOST), kinds())


def test_the_verdict_names_its_units() -> None:
    text = render(report(LOST, AGAIN, NOTE), kinds())
    assert "1 feature lost (9 of 2,000 requests); 1 the same" not in text
    assert "1 feature lost (9 of 2,000 requests); 0 to translate (1 request); 1 the same: 3 findings." in text
    assert "── The same on both sides: 1 feature ─" in text


def test_a_fix_that_is_shared_is_pointed_to() -> None:
    text = render(report(LOST, AGAIN), kinds())
    assert text.count("→ Leave it out.") == 1
    assert text.count("→ as above") == 1


def test_the_short_form_has_what_is_lost_and_errors_alone() -> None:
    text = render_brief(report(LOST, TODAY, NOTE), kinds())
    assert "UM156 error, today:" in text
    assert "UM124 warning, lost:" in text
    assert "chat.d" not in text
    assert "source:" not in text
    assert text.endswith("1 finding beside these, sources and the suggested start: without --brief.")


@pytest.mark.parametrize("count", [1, 200])
def test_the_short_form_stays_short_and_says_what_it_leaves_out(count: int) -> None:
    text = render_brief(report(*(finding("UM124", "lost", "error", f"chat.x{at}") for at in range(count))), kinds())
    assert len(text.splitlines()) <= 40
    assert ("more that are lost or errors" in text) == (count > 1)
