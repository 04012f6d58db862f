from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_simulation import hit_tokens, tree_of

from unmoor.traffic.reuse.curve import curve_by_rule
from unmoor.traffic.reuse.parting import parting_later
from unmoor.traffic.reuse.runs import heavy_paths, runs_of
from unmoor.traffic.reuse.stack_distance import CacheRule, smaller_before


@st.composite
def logs(draw: st.DrawFn, least: int = 0) -> list[str]:
    """Prompts that share: each begins as one before it did, up to anywhere, and goes on in its own way."""
    prompts: list[str] = []
    for _ in range(draw(st.integers(1, 14))):
        start = draw(st.sampled_from(["", *prompts]))
        keep = draw(st.integers(0, len(start)))
        prompts.append(start[:keep] + draw(st.text("ab", min_size=least, max_size=7)))
    return prompts


rules = st.builds(CacheRule, st.integers(1, 5), st.booleans(), st.booleans())


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_the_curve_is_what_a_direct_simulation_finds_at_every_capacity(data: st.DataObject) -> None:
    prompts = data.draw(logs())
    rule = data.draw(rules)
    each = st.lists(st.integers(0, 1), min_size=len(prompts), max_size=len(prompts))
    salts = data.draw(st.none() | each)
    members = data.draw(st.none() | each)
    tree, nodes = tree_of(prompts)
    curve = curve_by_rule(
        tree,
        nodes,
        rule,
        salt=None if salts is None else np.array(salts, dtype=np.int64),
        members=None if members is None else np.array(members, dtype=np.bool_),
    )
    rows = [row for row in range(len(prompts)) if members is None or members[row]]
    seen = [prompts[row] for row in rows]
    salts = None if salts is None else [salts[row] for row in rows]
    most = sum(len(prompt) for prompt in seen) // rule.block_tokens + len(seen) + 2
    for capacity in range(most):
        expected = hit_tokens(seen, capacity, rule, salts)
        assert curve.hit_tokens_at(capacity * rule.block_tokens) == expected
        assert curve.hit_tokens_at((capacity + 1) * rule.block_tokens - 1) == expected
    assert curve.certain.most == hit_tokens(seen, most, rule, salts)
    if curve.working_set_tokens:
        assert curve.hit_tokens_at(curve.working_set_tokens) == curve.certain.most
        assert curve.hit_tokens_at(curve.working_set_tokens - 1) < curve.certain.most


@settings(max_examples=150, deadline=None)
@given(logs(), st.integers(2, 4), rules)
def test_the_truth_lies_within_the_bounds_of_a_log_that_is_coarser(
    prompts: list[str], grain: int, rule: CacheRule
) -> None:
    curve = curve_by_rule(*tree_of(prompts, grain), rule, grain_tokens=grain)
    for capacity in range(sum(len(prompt) for prompt in prompts) // rule.block_tokens + len(prompts) + 2):
        rate = curve.at(capacity * rule.block_tokens)
        truth = hit_tokens(prompts, capacity, rule) / max(1, curve.prompt_tokens)
        assert rate.low <= truth <= rate.high
        if rule.block_tokens % grain == 0 and curve.prompt_tokens:
            assert rate.low == truth == rate.high == rate.value


@given(logs(), st.integers(0, 5))
def test_a_tree_in_which_prompts_part_later(prompts: list[str], tokens: int) -> None:
    tree, nodes = tree_of(prompts)
    later, ends = parting_later(tree, nodes, tokens)
    assert all(later.end[later.parent[1:]] < later.end[1:])
    for i, one in enumerate(prompts):
        assert later.end[ends[i]] == len(one)
        for j, other in enumerate(prompts[:i]):
            expected = min(common(one, other) + tokens, len(one), len(other))
            shared = set(later.path(ends[i])) & set(later.path(ends[j]))
            assert max((later.end[node] for node in shared), default=0) == expected


@given(logs(), st.booleans(), st.sampled_from([2**31 - 1, 2**31, 2**40, 10**15]))
def test_blocks_longer_than_every_prompt_are_all_alike(prompts: list[str], partial: bool, block_tokens: int) -> None:  # noqa: FBT001 - hypothesis passes by position
    tree, nodes = tree_of(prompts)
    long, huge = (curve_by_rule(tree, nodes, CacheRule(size, partial=partial)) for size in (10**6, block_tokens))
    assert huge.certain.tokens.tolist() == long.certain.tokens.tolist()
    assert huge.certain.knots.tolist() == long.certain.knots.tolist()
    assert huge.rule.block_tokens == block_tokens


@given(logs(), st.sampled_from([2**31, 10**15]))
def test_prompts_that_may_part_anywhere_later_share_all_that_they_can(prompts: list[str], tokens: int) -> None:
    tree, nodes = tree_of(prompts)
    (later, ends), (enough, same) = (parting_later(tree, nodes, more) for more in (tokens, 1000))
    assert later.end[ends].tolist() == enough.end[same].tolist() == [len(prompt) for prompt in prompts]
    assert later.parent.tolist() == enough.parent.tolist()


@given(logs())
def test_runs_name_the_last_that_walked_there(prompts: list[str]) -> None:
    runs = runs_of(*tree_of(prompts))
    found = {
        (int(r), d): int(q)
        for r, b, e, q in zip(runs.row, runs.begin, runs.end, runs.by, strict=True)
        for d in range(b, e)
    }
    expected = {
        (row, depth): max(q for q in range(row) if common(prompts[q], prompts[row]) > depth)
        for row in range(len(prompts))
        for depth in range(max((common(prompts[q], prompts[row]) for q in range(row)), default=0))
    }
    assert found == expected
    assert all(
        a != b
        for a, b in zip(zip(runs.row[1:], runs.by[1:], strict=True), zip(runs.row, runs.by, strict=True), strict=False)
    )


@given(logs())
def test_a_walk_meets_few_heavy_paths(prompts: list[str]) -> None:
    tree, nodes = tree_of(prompts)
    top = heavy_paths(tree, nodes).top
    for node in nodes:
        assert len({int(top[n]) for n in [0, *tree.path(node)]}) <= 1 + np.log2(len(prompts))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 100)), max_size=70), st.integers(1, 80))
def test_smaller_before(pairs: list[tuple[int, int]], chunk: int) -> None:
    key, weight = (np.array(column, dtype=np.int64) for column in (zip(*pairs, strict=True) if pairs else ((), ())))
    expected = [sum(w for k, w in pairs[:place] if k < pairs[place][0]) for place in range(len(pairs))]
    assert smaller_before(key, weight, keys=10, chunk=chunk).tolist() == expected


def common(one: Sequence[object], other: Sequence[object]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
