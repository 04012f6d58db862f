from __future__ import annotations

from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmoor.traffic.entry import Part, Prompt
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.readers.contract import Cut
from unmoor.traffic.text.pieces import PIECE_BYTES, BytesCutter

texts = st.text(max_size=300)  # half a surrogate pair among them: a log's JSON can hold one
contents = st.lists(st.binary(max_size=300), max_size=8)


def prompt(*texts: str, role: str = "user") -> Prompt:
    return Prompt(parts=tuple(Part(role, text) for text in texts))


def cut(content: bytes, key: bytes = b"key") -> Cut:
    return BytesCutter(key).cut_bytes([content])[0]


def common(one: Cut, other: Cut) -> int:
    """How many symbols are common, from the start; each must be followed by none that is common."""
    same = [a == b for a, b in zip(one.chain.tolist(), other.chain.tolist(), strict=False)]
    count = len(list(takewhile(bool, same)))
    assert not any(same[count:])
    return count


@given(st.binary(max_size=300), st.binary(max_size=300), st.binary(max_size=300))
def test_what_is_shared_is_the_common_bytes_in_whole_pieces(start: bytes, one: bytes, other: bytes) -> None:
    left, right = start + one, start + other
    a, b = BytesCutter(b"key").cut_bytes([left, right])
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False))))
    whole = same // PIECE_BYTES
    assert common(a, b) == (len(a.chain) if left == right else whole)


@given(texts, texts)
def test_prompts_agree_only_where_their_texts_are_equal(one: str, other: str) -> None:
    a, b = BytesCutter(b"key").cut([prompt(one), prompt(other)])
    assert (a.chain.tolist() == b.chain.tolist()) == (one == other)


@given(texts)
def test_ends_are_whole_pieces_and_then_the_end(text: str) -> None:
    (made,) = BytesCutter(b"key").cut([prompt(text)])
    size = len(text.encode("utf-8", "surrogatepass")) + len("user") + 2  # a byte before the role, and one after it
    assert made.ends.tolist() == [*range(PIECE_BYTES, size, PIECE_BYTES), size]


@given(contents)
def test_a_prompt_is_cut_the_same_whatever_it_is_cut_with(batch: list[bytes]) -> None:
    for content, made in zip(batch, BytesCutter(b"key").cut_bytes(batch), strict=True):
        alone = cut(content)
        assert made.chain.tolist() == alone.chain.tolist()
        assert made.ends.tolist() == alone.ends.tolist()


def test_many_prompts_are_cut_as_each_alone_is() -> None:
    many = [prompt("long" * (n * 997 % 40_000), f"{n}") for n in range(40)]  # more than is hashed at once
    cutter = BytesCutter(b"key")
    assert [made.chain.tolist() for made in cutter.cut(many)] == [cutter.cut([one])[0].chain.tolist() for one in many]


openings = st.sampled_from(
    [
        *(
            Part("system", "You are an assistant. " * repeats + end)
            for repeats in (46, 47, 100)
            for end in ("", "é", "!")
        ),
        Part("user", "You are an assistant. " * 47),
        Part("system", "x" * (PIECE_BYTES * 20 - 8)),  # whole pieces with its role
        Part("system", "y" * 2000 + "x" * 16),
        Part("system", "z" * 2000 + "x" * 16),  # as long as the one before, with the same ending
        Part("system", "w" * 100_000),
        Part("system", "short"),
    ]
)
offered = st.sampled_from([(), ("{}",), ('{"name": "a"}', "{}"), ("{" + " " * 2000 + "}",)])
chats = st.builds(
    lambda tools, opening, rest: Prompt(parts=(*opening, *(Part("user", text) for text in rest)), tools=tools),
    offered,
    st.lists(openings, max_size=2).map(tuple),
    st.lists(st.text(max_size=100), max_size=3),
)


@settings(deadline=None)
@given(st.lists(st.lists(chats, max_size=5), max_size=8))
def test_prompts_that_begin_alike_are_cut_as_each_alone_is(batches: list[list[Prompt]]) -> None:
    cutter = BytesCutter(b"key")
    for batch in [*batches, *batches]:
        for one, made in zip(batch, cutter.cut(batch), strict=True):
            (alone,) = BytesCutter(b"key").cut([one])
            assert made.chain.tolist() == alone.chain.tolist()
            assert made.ends.tolist() == alone.ends.tolist()


def test_more_openings_than_are_kept_are_cut_the_same() -> None:
    many = [prompt(f"{number} " * 40_000, "and then") for number in range(40, 90)]  # 6 MB
    cutter = BytesCutter(b"key")
    rounds = [[made.chain.tolist() for made in cutter.cut(many)] for _ in range(3)]
    assert rounds == [[BytesCutter(b"key").cut([one])[0].chain.tolist() for one in many]] * 3


def test_an_opening_larger_than_all_that_is_kept_is_cut_the_same() -> None:
    cutter, large = BytesCutter(b"key"), prompt("large" * 10**6, "and then")
    first, second, third = (cutter.cut([large])[0].chain.tolist() for _ in range(3))
    assert first == second == third


@pytest.mark.parametrize("ending", [b"\0", b"\0" * 8, b"\0" * PIECE_BYTES])
def test_zeros_at_the_end_are_content_and_no_padding(ending: bytes) -> None:
    assert common(cut(b"x" * 10), cut(b"x" * 10 + ending)) == 0


def test_a_prompt_that_goes_on_within_a_piece_shares_what_comes_before_it() -> None:
    text = bytes(range(200))
    assert common(cut(text[:100]), cut(text)) == 1
    assert common(cut(text[:128]), cut(text)) == 2


def test_nothing_is_no_piece() -> None:
    empty, other = BytesCutter(b"key").cut_bytes([b"", b"x"])
    assert len(empty.chain) == len(empty.ends) == 0
    assert len(other.chain) == 1
    assert BytesCutter(b"key").cut([]) == []


def test_a_prompt_of_many_slices_is_cut_as_its_beginning_is() -> None:
    content = bytes(range(251)) * 4000  # a megabyte, and no repetition fits into pieces
    long, short = cut(content), cut(content[:-1])
    assert len(long.chain) == -(-len(content) // PIECE_BYTES)
    assert len(set(long.chain.tolist())) == len(long.chain)
    assert common(long, short) == len(long.chain) - 1


def test_another_key_gives_other_symbols() -> None:
    assert common(cut(b"the same text", b"a"), cut(b"the same text", b"b")) == 0


def test_what_is_read_does_not_depend_on_the_key() -> None:
    rows = [
        f'{{"model": "m", "messages": [{{"role": "user", "content": "{"abc" * (n % 7 * 30)}x"}}]}}' for n in range(40)
    ]
    one, other = (
        read_traffic("\n".join(rows).encode(), where="log", cutter=BytesCutter(key)) for key in (b"a", b"another")
    )
    assert one.tree is not None
    assert other.tree is not None
    assert one.node.tolist() == other.node.tolist()
    assert one.tree.parent.tolist() == other.tree.parent.tolist()
    assert one.tree.end.tolist() == other.tree.end.tolist()


def test_words_in_another_order_are_another_piece() -> None:
    words = [b"aaaaaaaa", b"bbbbbbbb", b"\0\0\0\0\0\0\0\0"]
    assert len({cut(words[i] + words[j]).chain[0].item() for i in range(3) for j in range(3)}) == 9


def test_roles_and_tools_are_told_apart_from_text() -> None:
    made = [
        prompt("a", "b"),
        prompt("ab"),
        prompt("ab", role="system"),
        prompt("buser\x02a", role=""),
        prompt("\x01user\x02ab"),
        prompt("", role="userab"),
        Prompt(parts=(Part("user", "ab"),), tools=("{}",)),
        Prompt(parts=(Part("user", "ab"),), tools=("{", "}")),
        Prompt(parts=(Part("user", "ab"),), tools=("",)),
    ]
    assert len({one.chain[0].item() for one in BytesCutter(b"key").cut(made)}) == len(made)
