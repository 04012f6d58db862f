from __future__ import annotations

from pathlib import Path

import pytest

from unmoor.core.errors import TrafficError
from unmoor.core.traffic import Request, Segment, TokenCounts, Workload
from unmoor.traffic.conversion import workload_of
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.shape import burstiness, profile


def at(*arrivals_s: float, block: int | None = 1) -> Workload:
    requests = tuple(
        Request(arrival_s=s, input_tokens=10, output_tokens=n, segments=(Segment("a", 10),) if block else ())
        for n, s in enumerate(arrivals_s, 1)
    )
    return Workload(requests=requests, source="s", format="f", fingerprint="p", overlap_block_tokens=block)


def test_a_profile_says_lengths_rate_and_overlap() -> None:
    seen = profile(at(1, 2, 3, 4, 5))
    assert seen.requests == 5
    assert seen.duration_s == 4
    assert seen.offered_rps == 1
    assert seen.burstiness == 0
    assert seen.input_tokens == TokenCounts(total=50, mean=10, p50=10, p95=10, max=10)
    assert seen.output_tokens == TokenCounts(total=15, mean=3, p50=3, p95=4.8, max=5)
    assert seen.prefix_overlap == 0.8
    assert (seen.source, seen.format, seen.fingerprint, seen.caveats) == ("s", "f", "p", ())


def test_what_cannot_be_said_is_none() -> None:
    one = profile(at(3))
    assert (one.offered_rps, one.burstiness, one.duration_s) == (None, None, 0)
    assert profile(at(3, 4)).burstiness is None
    same_moment = profile(at(3, 3, 3))
    assert (same_moment.offered_rps, same_moment.burstiness) == (None, None)


def test_doubts_about_content_travel_with_the_profile() -> None:
    unknown = profile(at(1, 2, block=None))
    assert unknown.prefix_overlap is None
    assert [c.code for c in unknown.caveats] == ["content_unknown"]
    assert [c.code for c in profile(at(1, 2, block=512)).caveats] == ["overlap_in_blocks"]


def test_nothing_can_be_said_of_no_request() -> None:
    with pytest.raises(TrafficError, match="no request in it"):
        profile(at())


def test_burstiness_is_the_coefficient_of_variation_of_gaps() -> None:
    assert burstiness([0, 1, 4]) == pytest.approx(0.5)


@pytest.mark.trace
def test_the_real_mooncake_trace_has_the_published_shape(mooncake_trace: Path) -> None:
    seen = profile(workload_of(read_traffic(mooncake_trace.read_bytes(), where="mooncake")))
    assert seen.offered_rps == pytest.approx(3.40, abs=0.005)
    assert seen.input_tokens.mean == pytest.approx(12_035, abs=1)
    assert seen.input_tokens.p50 == 6909
    assert seen.output_tokens.mean == pytest.approx(343, abs=1)


@pytest.mark.trace
def test_the_real_azure_trace_has_the_published_shape(azure_trace: Path) -> None:
    seen = profile(workload_of(read_traffic(azure_trace.read_bytes(), where="azure")))
    assert seen.offered_rps == pytest.approx(5.53, abs=0.005)
    assert seen.burstiness == pytest.approx(1.09, abs=0.005)
    assert seen.prefix_overlap is None
