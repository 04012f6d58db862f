from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.traffic import Request, Segment, Workload
from unmoor.traffic.conversion import traffic_of
from unmoor.traffic.reuse.curve import ideal
from unmoor.traffic.reuse.shared_prefixes import top


def log_of(*texts: str, block: int | None = 1) -> Workload:
    """A request for each text, in segments of three tokens a letter."""
    requests = tuple(
        Request(
            arrival_s=float(at),
            input_tokens=3 * len(text),
            output_tokens=1,
            segments=tuple(Segment(letter, 3) for letter in text),
        )
        for at, text in enumerate(texts)
    )
    return Workload(requests=requests, source="test", format="test", fingerprint="", overlap_block_tokens=block)


def test_each_prefix_says_how_long_it_is_who_begins_so_and_what_it_saves() -> None:
    # "ss" begins four prompts; within it "ssu" begins three of them.
    found = top(traffic_of(log_of("ssua", "ssub", "ssuc", "ssv", "x")), 10)
    assert [(p.begins_at, p.tokens, p.requests, p.tokens_saved, p.parent) for p in found] == [
        (0, 6, 4, 18, None),
        (6, 9, 3, 6, 0),
    ]


def test_a_prefix_whose_parent_is_not_listed_names_the_nearest_that_is() -> None:
    texts = ["a" * 9 + "b" + "c" * 9 + end for end in "123"] + ["a" * 9 + "b"] + ["a" * 9 + "z"] * 9
    found = top(traffic_of(log_of(*texts)), 2)
    assert [(p.tokens, p.parent) for p in found] == [(27, None), (57, 0)]


prompts = st.lists(st.text("ab", min_size=1, max_size=8), min_size=1, max_size=12)


@given(prompts, st.data())
def test_what_they_save_sums_to_the_ideal_exactly(texts: list[str], data: st.DataObject) -> None:
    traffic = traffic_of(log_of(*texts))
    each = st.lists(st.integers(0, 1), min_size=len(texts), max_size=len(texts))
    salts = data.draw(st.none() | each)
    salt = None if salts is None else np.array(salts, dtype=np.int64)
    found = top(traffic, 10**6, salt=salt)
    total = int(traffic.input_tokens.sum())
    assert sum(prefix.tokens_saved for prefix in found) / total == ideal(traffic, salt=salt).tokens
    for prefix in found:
        assert prefix.parent is None or found[prefix.parent].tokens <= prefix.begins_at


@given(prompts)
def test_no_prefix_is_listed_before_one_that_saves_more(texts: list[str]) -> None:
    saved = [prefix.tokens_saved for prefix in top(traffic_of(log_of(*texts)), 3)]
    assert saved == sorted(saved, reverse=True)
    assert all(tokens > 0 for tokens in saved)


@pytest.mark.parametrize("workload", [log_of("ab", "ab", block=None), log_of(), log_of("a", "b")])
def test_nothing_is_listed_where_content_is_unknown_or_nothing_is_shared(workload: Workload) -> None:
    assert top(traffic_of(workload), 5) == ()
