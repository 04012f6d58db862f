"""Figures of a trial, and the doubts that travel with them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_blocks import TERMS, blocks, record, requests

from unmoor.bakeoff.figures import doubts_of, figures_of
from unmoor.bakeoff.result import Block
from unmoor.core.evidence import Caveat, Figure
from unmoor.core.traffic import Request, Workload
from unmoor.traffic.shape import profile

TIMES = (5.0, 1.0, 1.2, 0.8, 1.6, 3.0)


def named(found: tuple[Figure, ...]) -> dict[str, Figure]:
    return {figure.metric: figure for figure in found}


def codes(found: tuple[Caveat, ...]) -> set[str]:
    return {caveat.code for caveat in found}


def test_the_first_requests_are_left_out_by_index() -> None:
    found = named(figures_of(blocks("a", TIMES), requests(6), TERMS))
    assert found["scheduled_e2e_p50_s"].value == 1.2
    assert "n = 5" in found["scheduled_e2e_p50_s"].detail


def test_attainment_counts_every_request_and_goodput_is_its_share_of_the_rate() -> None:
    found = named(figures_of(blocks("a", (*TIMES[:5], None)), requests(6), TERMS))
    assert found["slo_attainment"].value == 0.8
    assert found["goodput_rps"].value == 0.8
    low, high = found["slo_attainment"].low, found["slo_attainment"].high
    assert low is not None
    assert high is not None
    assert low < 0.5
    assert high > 0.95, "a Wilson interval of 4 of 5 is wide"


@given(
    arrivals_s=st.lists(st.floats(0.0, 60.0), min_size=3, max_size=12, unique=True),
    met=st.integers(0, 12),
    left_out=st.integers(0, 2),
)
@settings(deadline=None, max_examples=40)
def test_goodput_is_attainment_of_the_rate_the_header_shows_and_never_above_it(
    arrivals_s: list[float], met: int, left_out: int
) -> None:
    asked = tuple(Request(arrival_s=at, input_tokens=100, output_tokens=11) for at in sorted(arrivals_s))
    shown = profile(
        Workload(requests=asked, source="s", format="f", fingerprint="0", overlap_block_tokens=None)
    ).offered_rps
    terms = msgspec.structs.replace(TERMS, left_out=left_out)
    found = named(figures_of(blocks("a", [1.0 if n < met else 3.0 for n in range(len(asked))]), asked, terms))
    share, goodput = found["slo_attainment"], found["goodput_rps"]
    assert shown is not None
    for part, whole in ((goodput.value, share.value), (goodput.low, share.low), (goodput.high, share.high)):
        assert part == pytest.approx((whole or 0.0) * shown)
        assert (part or 0.0) <= shown


def test_a_block_that_others_worked_beside_is_named_and_a_quiet_one_is_not() -> None:
    quiet, loud = (
        msgspec.structs.replace(b, other_work=s) for b, s in zip(blocks("a", TIMES, TIMES), (0.1, 0.31), strict=True)
    )
    (doubt,) = (d for d in doubts_of((quiet, loud), requests(6), TERMS) if d.code == "busy_machine")
    assert "31% in repeat 2" in doubt.text
    assert "repeat 1" not in doubt.text
    assert "busy_machine" not in codes(doubts_of((quiet,), requests(6), TERMS))
    assert "busy_machine" not in codes(doubts_of(blocks("a", TIMES), requests(6), TERMS)), "an older run noted nothing"


def test_a_quantile_that_rests_on_failures_has_no_value() -> None:
    found = named(figures_of(blocks("a", (1.0, 1.0, None, None, None)), requests(5), TERMS))
    assert found["scheduled_e2e_p50_s"].value is None
    assert found["scheduled_e2e_p50_s"].high is None
    assert found["tpot_mean_s"].value is not None


def test_a_trial_without_a_record_has_no_figure() -> None:
    assert figures_of((), requests(3), TERMS) == ()


def test_a_server_that_reports_cached_tokens_gives_a_hit_rate() -> None:
    assert named(figures_of(blocks("a", TIMES), requests(6), TERMS))["prefix_hit_rate"].value == 0.5


@given(times=st.lists(st.floats(0.05, 5.0), min_size=4, max_size=12), failed=st.integers(1, 3))
@settings(deadline=None, max_examples=40)
def test_a_failure_never_improves_a_figure_over_all_requests(times: list[float], failed: int) -> None:
    asked = requests(len(times))
    whole = named(figures_of(blocks("a", times), asked, TERMS))
    broken = named(figures_of(blocks("a", [None if n == failed else t for n, t in enumerate(times)]), asked, TERMS))
    for metric in ("scheduled_ttft_p50_s", "scheduled_ttft_p95_s", "scheduled_e2e_p50_s"):
        before, after = whole[metric].value, broken[metric].value
        assert before is not None
        assert after is None or after >= before - 1e-9
    for metric in ("slo_attainment", "goodput_rps"):
        before, after = whole[metric].value, broken[metric].value
        assert before is not None
        assert after is not None
        assert after <= before + 1e-9


def test_a_tail_of_few_requests_is_said_to_be_one() -> None:
    assert "few_requests" in codes(doubts_of(blocks("a", TIMES), requests(6), TERMS))
    assert "few_requests" not in codes(doubts_of(blocks("a", [1.0] * 120), requests(120), TERMS))


def test_failures_resumption_and_gaps_are_said() -> None:
    cut = Block(trial="a", repeat=0, expected=6, records=(record(1, 1.0), record(2, None)), resumed=True)
    assert {"failed_requests", "resumed", "incomplete"} <= codes(doubts_of((cut,), requests(6), TERMS))


def test_prompts_that_are_not_as_long_as_planned_are_said_to_be_so() -> None:
    asked = requests(6)
    assert "prompt_length_off" not in codes(doubts_of(blocks("a", TIMES), asked, TERMS))
    longer = tuple(type(r)(arrival_s=r.arrival_s, input_tokens=96, output_tokens=11) for r in asked)
    assert "prompt_length_off" in codes(doubts_of(blocks("a", TIMES), longer, TERMS))


def test_answers_shorter_than_the_traffics_are_said_to_be_so() -> None:
    asked = tuple(type(r)(arrival_s=r.arrival_s, input_tokens=100, output_tokens=12) for r in requests(6))
    assert "short_outputs" in codes(doubts_of(blocks("a", TIMES), asked, TERMS))


def test_a_block_that_was_cut_has_the_length_it_would_have_had() -> None:
    """After a restart of the machine the monotonic clock starts anew: only differences within a request count."""
    plain = blocks("a", [1.0] * 6)[0]
    later = tuple(
        record(r.index, 1.0)
        if r.index < 3
        else type(r)(
            **{
                **{name: getattr(r, name) for name in r.__struct_fields__},
                **{
                    name: getattr(r, name) - 10_000_000_000
                    for name in (
                        "scheduled_at_ns",
                        "sent_at_ns",
                        "first_token_at_ns",
                        "last_token_at_ns",
                        "closed_at_ns",
                    )
                },
            }
        )
        for r in plain.records
    )
    moved = Block(trial="a", repeat=0, expected=6, records=later, resumed=True)
    asked = requests(6)
    assert figures_of((moved,), asked, TERMS) == figures_of((plain,), asked, TERMS)
