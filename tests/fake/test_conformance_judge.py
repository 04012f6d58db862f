"""The judge, by table: no server, no client."""

from __future__ import annotations

import pytest

from unmoor.fake.conformance.cases import CASES, case_named
from unmoor.fake.conformance.judge import Asked, Check, Said, Standing, judge
from unmoor.fake.conformance.server import Played

ASKED = Asked(requests=4, rate_rps=10.0)
TRUE = Said(requests=4, failed=0, ttft_s=0.4, tpot_s=0.02, e2e_s=0.78, output_tokens=20)


def played(
    code: str, *, probes: int = 0, gap_s: float = 0.1, first_s: float = 0.4, last_s: float = 0.78
) -> list[Played]:
    """What the server would have noted: requests `gap_s` apart, each answered as scripted."""
    case = case_named(code)
    found = []
    for place in range(ASKED.requests + probes):
        at_s = 100 + place * gap_s
        other = case.other is not None and place % 2 == 1
        found.append(
            Played(
                received_at_s=at_s,
                other=other,
                first_token_at_s=at_s + first_s,
                last_token_at_s=at_s + last_s,
                ended_at_s=at_s + last_s,
            )
        )
    return found


def checks(code: str, said: Said, **how: float) -> dict[str, Check]:
    found = judge(case_named(code), ASKED, played(code, **how), said)  # type: ignore[arg-type] # probes is an int
    return {check.figure: check for check in found.checks}


def changed(**figures: float | None) -> Said:
    return Said(**{name: figures.get(name, getattr(TRUE, name)) for name in TRUE.__struct_fields__})


@pytest.mark.parametrize("probes", [0, 1, 2])
def test_what_is_true_is_right_however_often_a_client_probes_first(probes: int) -> None:
    assert {check.standing for check in checks("plain", TRUE, probes=probes).values()} == {Standing.RIGHT}
    half = changed(failed=2)
    assert {check.standing for check in checks("error-mid", half, probes=probes).values()} == {Standing.RIGHT}


@pytest.mark.parametrize(
    ("code", "figure", "said"),
    [
        ("role-first", "ttft_s", 0.001),
        ("reasoning-content", "ttft_s", 0.8),
        ("tool-call", "ttft_s", 0.0),
        ("no-tokens", "ttft_s", 0.2),
        ("several-a-chunk", "tpot_s", 0.08),
        ("error-mid", "failed", 0),
        ("plain", "requests", 3),
        ("usage-differs", "output_tokens", 20),
        ("no-usage", "output_tokens", 32),
    ],
)
def test_what_is_not_true_is_wrong(code: str, figure: str, said: float) -> None:
    found = checks(code, changed(**{figure: said}))[figure]
    assert (found.standing, found.said) == (Standing.WRONG, said)


@pytest.mark.parametrize("figure", ["requests", "failed", "ttft_s", "tpot_s", "e2e_s", "output_tokens"])
def test_what_is_not_said_is_neither_right_nor_wrong(figure: str) -> None:
    assert checks("plain", changed(**{figure: None}))[figure].standing is Standing.NOT_SAID


def test_one_token_has_no_time_per_output_token_and_zero_is_wrong() -> None:
    assert checks("one-token", changed(tpot_s=None))["tpot_s"].standing is Standing.RIGHT
    found = checks("one-token", changed(tpot_s=0.0))["tpot_s"]
    assert (found.standing, found.true) == (Standing.WRONG, None)


def test_without_usage_saying_nothing_is_right_and_so_is_a_tokenizer() -> None:
    for said in (None, 20, 21):
        assert checks("no-usage", changed(output_tokens=said))["output_tokens"].standing is Standing.RIGHT


def test_latency_runs_from_the_schedule_where_the_client_or_the_server_has_a_queue() -> None:
    # Received 0.3 s apart though due 0.1 s apart: on average 0.3 s late.
    service = checks("own-queue", TRUE, gap_s=0.3)["ttft_s"]
    assert service.standing is Standing.WRONG
    assert service.true == pytest.approx(0.7)
    assert checks("own-queue", changed(ttft_s=0.7), gap_s=0.3)["ttft_s"].standing is Standing.RIGHT
    assert checks("plain", TRUE, gap_s=0.3)["ttft_s"].standing is Standing.RIGHT


def test_a_client_that_gave_up_before_the_end_is_held_to_what_would_have_been() -> None:
    left = [
        Played(received_at_s=one.received_at_s, other=False, first_token_at_s=one.first_token_at_s)
        for one in played("plain")
    ]
    found = {check.figure: check for check in judge(case_named("plain"), ASKED, left, changed(e2e_s=0.0)).checks}
    assert (found["tpot_s"].true, found["e2e_s"].true) == pytest.approx((0.02, 0.78))
    assert found["e2e_s"].standing is Standing.WRONG


def test_of_random_arrivals_the_receipt_is_the_start() -> None:
    asked = Asked(requests=4, rate_rps=10.0, random_arrivals=True)
    found = judge(case_named("slow-server"), asked, played("slow-server", gap_s=0.3), TRUE)
    assert found.standing is Standing.RIGHT


@pytest.mark.parametrize(("said", "note"), [(0.78, "last token"), (1.28, "with the answer")])
def test_an_end_to_end_latency_may_end_at_the_last_token_or_at_done_and_which_is_told(said: float, note: str) -> None:
    late = [
        Played(
            received_at_s=one.received_at_s,
            other=False,
            first_token_at_s=one.first_token_at_s,
            last_token_at_s=one.last_token_at_s,
            ended_at_s=one.received_at_s + 1.28,
        )
        for one in played("late-done")
    ]
    found = judge(case_named("late-done"), ASKED, late, changed(e2e_s=said))
    e2e = next(check for check in found.checks if check.figure == "e2e_s")
    assert e2e.standing is Standing.RIGHT
    assert note in e2e.note


def test_a_case_is_wrong_by_one_wrong_figure_and_says_nothing_where_the_client_does() -> None:
    case = CASES[0]
    assert judge(case, ASKED, played("plain"), changed(ttft_s=0.1)).standing is Standing.WRONG
    assert judge(case, ASKED, played("plain"), Said()).standing is Standing.NOT_SAID
