from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.errors import TrafficError
from unmoor.core.traffic import Request, Segment, Workload
from unmoor.traffic.conversion import traffic_of, workload_of
from unmoor.traffic.log import UNKNOWN, Traffic
from unmoor.traffic.words import prompt_text

names = st.none() | st.sampled_from(["one", "two"])
requests = st.lists(
    st.builds(
        lambda parts, session, adapter, schema: Request(
            arrival_s=0.0,
            input_tokens=sum(tokens for _, tokens in parts),
            output_tokens=7,
            segments=tuple(Segment(*part) for part in parts),
            session=session,
            adapter=adapter,
            schema=schema,
        ),
        st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=5),
        names,
        names,
        names,
    ),
    min_size=1,
    max_size=12,
)


def workload(made: list[Request], block: int | None = 1) -> Workload:
    return Workload(requests=tuple(made), source="test", format="test", fingerprint="f", overlap_block_tokens=block)


def shared(one: Request, other: Request) -> int:
    """The tokens of the leading segments that two prompts have in common."""
    tokens = 0
    for a, b in zip(one.segments, other.segments, strict=False):
        if a != b:
            break
        tokens += a.tokens
    return tokens


def a_log(texts: list[str]) -> Traffic:
    made = [
        Request(
            arrival_s=at * 1.5, input_tokens=len(text), output_tokens=2, segments=tuple(Segment(c, 1) for c in text)
        )
        for at, text in enumerate(texts)
    ]
    return traffic_of(workload(made))


@given(requests)
def test_a_workload_comes_back_with_the_same_sharing_names_and_lengths(made: list[Request]) -> None:
    back = workload_of(traffic_of(workload(made)))
    assert back.overlap_block_tokens == 1
    for was, now in zip(made, back.requests, strict=True):
        assert (now.session, now.adapter, now.schema) == (was.session, was.adapter, was.schema)
        assert (now.arrival_s, now.input_tokens, now.output_tokens) == (0.0, was.input_tokens, 7)
        assert sum(segment.tokens for segment in now.segments) == was.input_tokens
        for other_was, other_now in zip(made, back.requests, strict=True):
            assert shared(now, other_now) == shared(was, other_was)


def test_a_prompt_has_as_many_segments_as_its_path_has_edges() -> None:
    back = workload_of(a_log(["systemone", "systemtwo", "systemtwo"]))
    assert [[segment.tokens for segment in request.segments] for request in back.requests] == [[6, 3], [6, 3], [6, 3]]
    assert back.requests[1].segments == back.requests[2].segments
    assert back.requests[0].segments[0] == back.requests[1].segments[0]
    assert prompt_text(back.requests[0]).split()[:6] == prompt_text(back.requests[1]).split()[:6]


def test_the_sources_own_count_of_a_prompt_is_kept() -> None:
    log = dataclasses.replace(a_log(["systemone", "systemtwo", "system"]), input_tokens=np.array([11, 8, 4]))
    lengths = [[segment.tokens for segment in request.segments] for request in workload_of(log).requests]
    assert lengths == [[6, 3, 2], [6, 2], [4]]


def test_a_log_that_says_nothing_of_content_has_no_segments() -> None:
    made = [Request(arrival_s=0.5, input_tokens=3, output_tokens=2)]
    log = traffic_of(workload(made, block=None))
    assert log.tree is None
    assert log.grain is None
    back = workload_of(log)
    assert back.requests == tuple(made)
    assert back.overlap_block_tokens is None


def test_a_log_without_times_cannot_become_requests_and_the_error_says_what_can_be_done() -> None:
    log = dataclasses.replace(a_log(["ab"]), arrival_s=np.array([np.nan]))
    with pytest.raises(TrafficError, match="no times") as failed:
        workload_of(log)
    assert failed.value.hint is not None
    assert "profile" in failed.value.hint


def test_an_unknown_answer_is_not_invented() -> None:
    log = dataclasses.replace(a_log(["ab", "cd", "ef"]), output_tokens=np.array([3, UNKNOWN, UNKNOWN]))
    with pytest.raises(TrafficError, match="how long answers were") as failed:
        workload_of(log)
    assert failed.value.where == "test:2"
    assert failed.value.seen == "2 of 3 requests without output tokens"


def test_an_answer_of_no_tokens_becomes_the_least_that_can_be_asked_for_and_is_said() -> None:
    log = dataclasses.replace(a_log(["ab", "cd"]), output_tokens=np.array([0, 3]))
    made = workload_of(log)
    assert [request.output_tokens for request in made.requests] == [1, 3]
    assert [caveat.code for caveat in made.caveats] == ["empty_answers"]


def test_a_few_answers_of_unknown_length_are_as_long_as_the_median_and_that_is_said() -> None:
    log = dataclasses.replace(a_log(["ab"] * 12), output_tokens=np.array([3] * 11 + [UNKNOWN]))
    workload = workload_of(log)
    assert workload.requests[-1].output_tokens == 3
    assert "answers_filled" in {caveat.code for caveat in workload.caveats}
