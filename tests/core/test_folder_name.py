from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.folder_name import folder_name


@given(st.text())
def test_any_name_names_one_folder_in_place(name: str) -> None:
    found = folder_name(name)
    assert 1 <= len(found) <= 60
    assert set(found) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
