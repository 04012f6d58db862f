from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.traffic.breakers.align import templates
from unmoor.traffic.breakers.dates import date_spans, is_date
from unmoor.traffic.breakers.json_text import json_spans, members_sorted
from unmoor.traffic.breakers.pieces_of_text import splitters
from unmoor.traffic.breakers.reorder import in_one_order, shuffled_sets, unstable_sets


@pytest.mark.parametrize(
    "text",
    [
        "2025-05-06",
        "2025-05-06T10:15:03Z",
        "2025-05-06 10:15:03.123456+00:00",
        "Monday, May 5, 2025 10:15",
        "Mon, 05 May 2025 10:15:03 GMT",
        "Tuesday the 5th of May 2025 at 3 pm",
        "20250506T101503Z",
        "2025年5月6日",
        "05/06/2025 10:15 PM",
        "5. März 2025, 14:05 Uhr",
        "10:15",
        "1746526503",
    ],
)
def test_a_date_is_told_however_it_is_written(text: str) -> None:
    assert is_date(text)
    assert is_date(f" [{text}], ")


@pytest.mark.parametrize("text", ["", "3", "2025", "12345", "Alice Smith", "page 12 of 30", "v1.2.3", "10:15 Alice"])
def test_what_is_no_date_is_not_told_as_one(text: str) -> None:
    assert not is_date(text)


def test_a_date_is_found_whole_inside_a_sentence() -> None:
    text = "It is Monday, May 5, 2025 and all is well."
    assert [text[slice(*span)] for span in date_spans(text)] == ["Monday, May 5, 2025"]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=st.dictionaries(st.text(), values, min_size=1, max_size=4), indent=st.sampled_from([None, 2]))
def test_sorting_members_keeps_the_value_and_every_byte(value: dict[str, object], indent: int | None) -> None:
    text = f"before {json.dumps(value, indent=indent)} after {{not json}}"
    ordered = members_sorted(text)
    assert sorted(ordered) == sorted(text)
    inside = ordered[len("before ") : -len(" after {not json}")]
    assert json.loads(inside) == value
    assert members_sorted(ordered) == ordered


@given(value=st.dictionaries(st.text(), st.integers(), min_size=2, max_size=6), data=st.data())
def test_the_same_object_is_one_text_whatever_the_order_it_came_in(value: dict[str, int], data: st.DataObject) -> None:
    other = dict(data.draw(st.permutations(list(value.items()))))
    assert members_sorted(json.dumps(value)) == members_sorted(json.dumps(other))


def test_what_is_broken_or_nested_too_deep_is_left_as_it_is() -> None:
    for text in ('{"a": 1', '{"a" 1}', '{"a": [1, }', "{'a': b}", '{"a":' * 200 + "1" + "}" * 200, "{}", "{ }"):
        assert members_sorted(text) in {text, text.replace("{ }", "{ }")}


def test_an_object_as_python_prints_it_counts_as_one() -> None:
    ((_, _, ordered, keys),) = json_spans("see {'b': None, 'a': True} there")
    assert ordered == "{'a': True, 'b': None}"
    assert keys == ("'b'", "'a'")


def test_sets_with_one_order_each_are_steady_though_they_share_things() -> None:
    assert unstable_sets([("a", "b", "c")] * 9 + [("d", "c", "b")] * 9) == []
    assert unstable_sets([("a", "b"), ("b", "a")] * 4) == [frozenset("ab")]


def test_examples_are_a_set_and_documents_found_anew_are_none() -> None:
    orders = [("x", *order, "y") for order in ("abc", "bca", "cab", "acb", "bac")]
    assert shuffled_sets(orders) == [frozenset("abc")]
    found_anew = [tuple(order) for order in ("abc", "bad", "cda", "dbc", "acd", "bdc", "dab", "cba")]
    assert shuffled_sets(found_anew) == []


def test_things_are_ordered_among_their_own_places_only() -> None:
    sequence = ("x", "c", "y", "a", "b")
    order = in_one_order(sequence, [frozenset("abc")])
    assert order is not None
    assert [sequence[i] for i in order] == ["x", "a", "y", "b", "c"]
    assert in_one_order(("x", "c", "a"), [frozenset("abc")]) is None


@given(text=st.text(alphabet="Qa1:.\n <>e-", max_size=60))
def test_a_text_split_into_things_is_the_text_again(text: str) -> None:
    for split in splitters([text, "Q: a\nQ: b\nQ: c"]):
        assert "".join(split(text)) == text


def test_a_template_is_told_from_texts_that_only_sound_alike() -> None:
    rules = " ".join(f"Rule {i} is to follow rule {i + 1}." for i in range(20))
    made = [f"Dear {name}, {rules} Yours." for name in ("Ann", "Bob", "Cid", "Dora")]
    others = [f"An own text of {name}: " + f"{name} says so. " * 20 for name in ("Eve", "Finn")]
    (template,) = templates([*made, *others])
    assert sorted(template.members) == sorted(made)
    ((first, last),) = template.spans
    assert template.text[first:last] in {"Ann", "Bob", "Cid", "Dora"}
