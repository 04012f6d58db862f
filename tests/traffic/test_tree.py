from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from unmoor.traffic.tree import ROOT, PromptTree, SymbolsInMemory, TreeBuilder

Texts = Sequence[str]
prompts = st.lists(st.text("ab", max_size=8), max_size=12)


def chained(texts: Texts) -> list[tuple[list[int], list[int]]]:
    """Each text with a number for every start of it, equal for equal starts, and lengths of three tokens a letter."""
    numbers: dict[str, int] = {}
    return [
        (
            [numbers.setdefault(text[:end], (len(numbers) + 1) * 0x9E3779B97F4A7C15 % 2**64) for end in ends],
            [3 * end for end in ends],
        )
        for text in texts
        for ends in [range(1, len(text) + 1)]
    ]


def tree_of(texts: Texts) -> tuple[PromptTree, list[int]]:
    builder = TreeBuilder()
    nodes = [builder.add(chain, ends) for chain, ends in chained(texts)]
    return builder.build(), nodes


def common(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@given(prompts)
def test_prompts_share_in_the_tree_exactly_what_they_share_in_text(texts: list[str]) -> None:
    tree, nodes = tree_of(texts)
    for text, node in zip(texts, nodes, strict=True):
        assert tree.end[node] == 3 * len(text)
        for other, other_node in zip(texts, nodes, strict=True):
            shared = set(tree.path(node)) & set(tree.path(other_node))
            assert max((tree.end[n] for n in shared), default=0) == 3 * common(text, other)


@given(prompts)
def test_a_node_is_where_a_prompt_ends_or_two_part_and_no_other(texts: list[str]) -> None:
    tree, nodes = tree_of(texts)
    children = np.bincount(tree.parent[1:], minlength=len(tree))
    assert tree.parent[ROOT] == -1
    assert tree.end[ROOT] == 0
    assert all(tree.end[1:] > tree.end[tree.parent[1:]])
    assert all(children[node] > 1 or node in nodes for node in range(1, len(tree)))


@given(prompts, st.randoms())
def test_the_order_of_prompts_does_not_change_what_they_share(texts: list[str], rng: random.Random) -> None:
    mixed = rng.sample(texts, len(texts))

    def starts(given_texts: list[str]) -> set[str]:
        tree, nodes = tree_of(given_texts)
        return {
            text[: tree.end[n] // 3] for text, node in zip(given_texts, nodes, strict=True) for n in tree.path(node)
        }

    assert starts(texts) == starts(mixed)


def test_a_node_keeps_its_number_when_it_is_split() -> None:
    builder = TreeBuilder()
    first, second, third = chained(["aaaa", "aa", "ab"])
    whole = builder.add(*first)
    start = builder.add(*second)
    other = builder.add(*third)
    tree = builder.build()
    assert builder.add(*first) == whole
    assert tree.path(whole)[-2:] == [start, whole]
    assert tree.path(start)[:-1] == tree.path(other)[:-1]


def test_an_empty_prompt_ends_at_the_root() -> None:
    builder = TreeBuilder()
    assert builder.add([], []) == ROOT
    assert len(builder) == len(builder.build()) == 1


@pytest.mark.parametrize("step", [1, 2**32, 0x9E3779B97F4A7C15])
def test_a_table_that_grows_finds_everything_again(step: int) -> None:
    rng = np.random.default_rng(5)
    own = np.arange(1, 6001, dtype=np.uint64) * np.uint64(step)
    builder = TreeBuilder()
    nodes = [builder.add(own[i : i + 1], np.ones(1, dtype=np.int64)) for i in range(len(own))]
    assert len(set(nodes)) == len(own)
    for i in rng.permutation(len(own)).tolist():
        assert builder.add([int(own[i])], [1]) == nodes[i]
    assert len(builder) == len(own) + 1


def test_symbols_that_all_want_the_tables_last_slot_are_found() -> None:
    symbols = [(i << 52) | 0xFFFFF for i in range(1500)]
    builder = TreeBuilder()
    nodes = [builder.add([symbol], [1]) for symbol in symbols]
    assert [builder.add([symbol], [1]) for symbol in symbols] == nodes == list(range(1, 1501))


class CountedSymbols:
    """Symbols in memory that count what is kept and what is read."""

    def __init__(self) -> None:
        self._kept = SymbolsInMemory()
        self.kept = self.read = 0

    def append(self, symbols: NDArray[np.uint64]) -> int:
        self.kept += len(symbols)
        return self._kept.append(symbols)

    def at(self, place: int) -> int:
        self.read += 1
        return self._kept.at(place)


def test_a_symbol_is_kept_once_for_every_distinct_prefix_and_read_only_where_prompts_part() -> None:
    store = CountedSymbols()
    builder = TreeBuilder(store)
    dialogue = "abcdefgh" * 40
    turns = chained([dialogue[: 8 * turn] for turn in range(1, 41)])
    for chain, ends in [*turns, *turns]:
        builder.add(chain, ends)
    assert store.kept == len(dialogue)
    assert store.read == 0
    for chain, ends in chained([dialogue, dialogue[:100] + "z"])[1:]:
        builder.add(chain, ends)
    assert store.read <= 2 * 4


def test_a_finished_builder_gives_its_tree_away_and_is_empty() -> None:
    builder = TreeBuilder()
    for chain, ends in chained(["ab", "abc", "axy", "b"]):
        builder.add(chain, ends)
    built, given = builder.build(), builder.finished()
    assert (given.parent.tolist(), given.end.tolist()) == (built.parent.tolist(), built.end.tolist())
    assert len(builder) == 1
