from __future__ import annotations

from itertools import combinations, pairwise, takewhile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_logs import PROMPTS, Prompt, traffic_of_prompts

from unmoor.core.errors import UsageError
from unmoor.traffic.coarsening import block_tokens_of, quantised
from unmoor.traffic.log import Grain, Traffic
from unmoor.traffic.tree import ROOT, PromptTree


def common(one: Prompt, other: Prompt) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def shared(tree: PromptTree, one: int, other: int) -> int:
    """The tokens up to the lowest node that is above both, or is one of them."""
    paths = zip([ROOT, *tree.path(one)], [ROOT, *tree.path(other)], strict=False)
    last = [a for a, b in takewhile(lambda pair: pair[0] == pair[1], paths)][-1]
    return int(tree.end[last])


def coarse(prompts: list[Prompt], size: int) -> tuple[Traffic, PromptTree]:
    traffic = quantised(traffic_of_prompts(prompts), size)
    assert traffic.tree is not None
    return traffic, traffic.tree


@given(PROMPTS, st.integers(1, 20))
def test_two_prompts_share_their_whole_blocks_and_the_rest_only_where_they_are_equal(
    prompts: list[Prompt], size: int
) -> None:
    traffic, tree = coarse(prompts, size)
    for (i, one), (j, other) in combinations(enumerate(prompts), 2):
        expected = len(one) if one == other else common(one, other) // size * size
        assert shared(tree, int(traffic.node[i]), int(traffic.node[j])) == expected
    assert [int(tree.end[node]) for node in traffic.node] == [len(prompt) for prompt in prompts]


@given(PROMPTS, st.integers(1, 20))
def test_no_node_is_more_than_it_must_be(prompts: list[Prompt], size: int) -> None:
    traffic, tree = coarse(prompts, size)
    below = np.bincount(tree.parent[1:], minlength=len(tree))
    ended = np.bincount(traffic.node, minlength=len(tree))
    for node in range(1, len(tree)):
        assert tree.parent[node] < node
        assert tree.end[tree.parent[node]] < tree.end[node]
        assert below[node] != 1 or ended[node]
        assert not below[node] or tree.end[node] % size == 0


@given(PROMPTS, st.integers(1, 6), st.integers(1, 6))
def test_coarser_blocks_can_be_had_from_coarse_ones(prompts: list[Prompt], size: int, times: int) -> None:
    """Twice over is once: whoever has the fingerprint can have every multiple of its block size."""
    at_once, tree = coarse(prompts, size * times)
    twice = quantised(coarse(prompts, size)[0], size * times)
    assert twice.tree is not None
    assert np.array_equal(np.sort(twice.tree.end), np.sort(tree.end))
    for i, j in pairwise(range(len(prompts))):
        assert shared(twice.tree, int(twice.node[i]), int(twice.node[j])) == shared(
            tree, int(at_once.node[i]), int(at_once.node[j])
        )


def test_the_rest_of_the_log_stays_as_it_was() -> None:
    traffic = traffic_of_prompts([(1, 2, 3), (1, 2, 4)])
    coarser = quantised(traffic, 2)
    assert coarser.grain == Grain(by="blocks", tokens=2)
    assert coarser.arrival_s is traffic.arrival_s
    assert coarser.session is traffic.session


def test_a_log_that_says_nothing_of_content_has_no_blocks() -> None:
    traffic = traffic_of_prompts([(1, 2)], tree=None, grain=None, node=np.array([-1], dtype=np.int32))
    assert block_tokens_of(traffic, 16) is None
    assert quantised(traffic, 16) is traffic


@pytest.mark.parametrize(
    ("grain", "expected"),
    [
        (Grain(by="tokens", tokens=1), 16),
        (Grain(by="bytes", tokens=20, bytes_per_token=3.2), 20),
        (Grain(by="blocks", tokens=512), 512),
        (Grain(by="blocks", tokens=12), 24),
    ],
)
def test_the_block_size_is_sixteen_or_what_the_log_allows(grain: Grain, expected: int) -> None:
    assert block_tokens_of(traffic_of_prompts([(1,)], grain=grain), None) == expected


@pytest.mark.parametrize(
    ("grain", "wanted", "hint"),
    [
        (Grain(by="blocks", tokens=512), 16, "--block-tokens 512, or without it"),
        (Grain(by="blocks", tokens=512), 700, "--block-tokens 1024, or without it"),
        (Grain(by="bytes", tokens=20, bytes_per_token=3.2), 16, "--block-tokens 20, or without it"),
        (Grain(by="tokens", tokens=1), 0, "--block-tokens 1, or without it"),
    ],
)
def test_blocks_finer_than_the_log_or_across_its_own_are_refused(grain: Grain, wanted: int, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        block_tokens_of(traffic_of_prompts([(1,)], grain=grain), wanted)
    assert refused.value.hint == hint
