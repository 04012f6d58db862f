from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unmoor.traffic.entry import Part, Prompt
from unmoor.traffic.pieces import PIECE_BYTES, BytesCutter

texts = st.text(st.characters(codec="utf-8"), max_size=300)


def prompt(*texts: str, role: str = "user") -> Prompt:
    return Prompt(parts=tuple(Part(role, text) for text in texts))


@given(texts, texts, texts)
def test_symbols_agree_exactly_as_far_as_whole_pieces_do(start: str, one: str, other: str) -> None:
    cutter = BytesCutter(b"key")
    a, b = cutter.cut([prompt(start + one), prompt(start + other)])
    left, right = (f"\x01user\x02{start}{rest}".encode() for rest in (one, other))
    cuts = zip(a.chain.tolist(), a.ends.tolist(), b.chain.tolist(), b.ends.tolist(), strict=False)
    for mine, end, theirs, their_end in cuts:
        assert (mine == theirs) == (end == their_end and left[:end] == right[:their_end])


@given(texts)
def test_ends_are_whole_pieces_and_then_the_end(text: str) -> None:
    (cut,) = BytesCutter(b"key").cut([prompt(text)])
    size = len(f"\x01user\x02{text}".encode())
    assert cut.ends.tolist() == [*range(PIECE_BYTES, size, PIECE_BYTES), size]


def test_another_key_gives_other_symbols() -> None:
    (one,), (other,) = (BytesCutter(key).cut([prompt("the same text")]) for key in (b"a", b"b"))
    assert one.chain.tolist() != other.chain.tolist()


def test_words_in_another_order_are_another_piece() -> None:
    cutter = BytesCutter(b"key")
    words = ["aaaaaaaa", "bbbbbbbb", "\0\0\0\0\0\0\0\0"]
    seen = {cutter.cut([prompt("x" * 58 + words[i] + words[j])])[0].chain[1].item() for i in range(3) for j in range(3)}
    assert len(seen) == 9


def test_roles_and_tools_are_told_apart_from_text() -> None:
    cutter = BytesCutter(b"key")
    made = [
        prompt("a", "b"),
        prompt("ab"),
        prompt("ab", role="system"),
        Prompt(parts=(Part("user", "ab"),), tools=("{}",)),
    ]
    assert len({cut.chain[0].item() for cut in cutter.cut(made)}) == 4
