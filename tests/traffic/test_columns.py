"""Columns that grow while a log is read: their length before the first value, and names beyond those at hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.traffic.log import UNKNOWN
from unmoor.traffic.readers.columns import Column, NameColumn


@given(st.lists(st.none() | st.integers(0, 2**31 - 1), max_size=20))
def test_a_column_holds_what_was_appended_with_unknown_for_nothing(values: list[int | None]) -> None:
    column = Column("i", UNKNOWN)
    for value in values:
        column.append(value)
    taken = column.taken()
    assert taken.dtype == np.int32
    assert taken.tolist() == [UNKNOWN if value is None else value for value in values]


def test_a_column_widens_for_a_number_that_needs_it() -> None:
    column = Column("i", UNKNOWN)
    for value in (None, 5, 2**31, None):
        column.append(value)
    assert column.taken().tolist() == [UNKNOWN, 5, 2**31, UNKNOWN]


def test_a_column_without_a_known_value_takes_no_memory() -> None:
    column = Column("d", math.nan)
    for _ in range(1000):
        column.append(None)
    taken = column.taken()
    assert taken.strides == (0,)
    assert len(taken) == int(np.isnan(taken).sum()) == 1000


@given(st.lists(st.none() | st.text("ab\u00e9\ud800", max_size=3), max_size=60), st.integers(1, 9))
def test_names_beyond_those_at_hand_are_those_that_a_dictionary_would_keep(
    names: list[str | None], at_hand: int
) -> None:
    column = NameColumn(at_hand)
    for name in names:
        column.append(name)
    codes, kept = column.taken()
    distinct = list(dict.fromkeys(name for name in names if name is not None))
    assert list(kept) == distinct
    assert [kept[place] for place in range(len(kept))] == distinct
    assert list(kept[1:3]) == distinct[1:3]
    assert codes.tolist() == [UNKNOWN if name is None else distinct.index(name) for name in names]


def test_packed_names_end_where_they_end() -> None:
    column = NameColumn(1)
    for name in ("a", "b", "a"):
        column.append(name)
    _, kept = column.taken()
    assert (len(kept), kept[-1]) == (2, "b")
    with pytest.raises(IndexError):
        kept[2]
