from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.cli.symbol_file import SymbolFile
from unmoor.core.errors import RunError
from unmoor.traffic.tree import SymbolsInMemory, TreeBuilder


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20), max_size=20), st.integers(1, 30))
def test_symbols_come_back_from_memory_and_from_the_file(runs: list[list[int]], in_memory: int) -> None:
    kept: list[int] = []
    with SymbolFile(in_memory) as store:
        for run in runs:
            assert store.append(np.array(run, dtype=np.uint64)) == len(kept)
            kept += run
        assert [store.at(place) for place in range(len(kept))] == kept


@given(st.lists(st.text(alphabet="ab", max_size=12), max_size=30))
def test_a_tree_is_the_same_whichever_store_it_has(words: list[str]) -> None:
    def nodes(builder: TreeBuilder) -> list[list[int]]:
        chains = [[hash(word[: n + 1]) % 2**64 for n in range(len(word))] for word in words]
        found = [builder.add(chain, range(1, len(chain) + 1)) for chain in chains]
        tree = builder.build()
        return [found, tree.parent.tolist(), tree.end.tolist()]

    with SymbolFile(4) as store:
        assert nodes(TreeBuilder(store)) == nodes(TreeBuilder(SymbolsInMemory()))


def test_the_file_is_its_owners_alone_and_has_no_name() -> None:
    def open_files() -> set[str]:
        return {fd for fd in os.listdir("/dev/fd") if Path("/dev/fd", fd).exists()}  # noqa: PTH208 - names are wanted

    before, named = open_files(), set(Path(tempfile.gettempdir()).glob("unmoor-*"))
    with SymbolFile(1) as store:
        store.append(np.arange(10, dtype=np.uint64))
        (fd,) = (int(fd) for fd in open_files() - before)
        assert os.fstat(fd).st_mode & 0o777 == 0o600
        assert os.fstat(fd).st_nlink == 0
        assert set(Path(tempfile.gettempdir()).glob("unmoor-*")) == named
    assert open_files() == before


def test_a_disk_without_room_is_one_error_with_a_way_out() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with SymbolFile(1) as store, pytest.raises(RunError) as caught:
            store.append(np.arange(1000, dtype=np.uint64))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.hint == "set TMPDIR to a folder with more room, on a disk"
