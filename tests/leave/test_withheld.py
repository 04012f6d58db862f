"""What an exit plan repeats of a plan has no secrets in it."""

from __future__ import annotations

import pytest

from unmoor.leave.exit_plan.withheld import withheld

SECRETS = (
    ("https://m.example.org/api?token=abcdef1234567890abcdef", "abcdef1234567890abcdef"),
    ("https://m.example.org/api?token=abc&team=7", "abc&"),
    ("Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.e30.abcdef", "eyJhbGciOiJIUzI1NiJ9"),
    ("password: hunter2", "hunter2"),
    ("https://hooks.slack.com/services/T000/B000/XXXXYYYY", "XXXXYYYY"),
    ("https://discord.com/api/webhooks/123456/abcDEF", "abcDEF"),
    ("postgres://meter:p4ss/w@db.example.org/usage", "p4ss"),
    ("the ledger, key=AKIAABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP"),
    ("read with ghp_abcdefghij0123456789", "ghp_abcdefghij0123456789"),
    ("run with --api-key s3cr3tvalue", "s3cr3tvalue"),
)
PLAIN = (
    "https://git.example.org/claims/evals",
    "one Deployment for each engine, the same Service before them",
    "./routing.toml",
    "postgres://db.example.org:5432/usage",
    "the keys are kept in the vault",
    "mailto:risk@example.org",
)


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_is_withheld(text: str, secret: str) -> None:
    assert secret not in withheld(text)
    assert "(secret)" in withheld(text)


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_no_secret_stays(text: str) -> None:
    assert withheld(text) == text


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_withholding_twice_changes_nothing_more(text: str, secret: str) -> None:  # noqa: ARG001 - the pair is one case
    assert withheld(withheld(text)) == withheld(text)
