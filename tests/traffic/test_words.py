from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.traffic import Request, Segment
from unmoor.traffic.words import WORDS, prompt_text


def request(*parts: tuple[str, int], arrival_s: float = 0.0) -> Request:
    segments = tuple(Segment(*part) for part in parts)
    total = sum(s.tokens for s in segments) or 20
    return Request(arrival_s=arrival_s, input_tokens=total, output_tokens=1, segments=segments)


def shared_words(one: str, other: str) -> int:
    pairs = list(zip(one.split(), other.split(), strict=False))
    return next((n for n, (a, b) in enumerate(pairs) if a != b), len(pairs))


def test_the_vocabulary_is_256_plain_words() -> None:
    assert len(set(WORDS)) == len(WORDS) == 256
    assert all(word.isascii() and word.isalpha() and word.islower() for word in WORDS)


def test_there_is_one_word_a_token() -> None:
    words = prompt_text(request(("a", 30), ("b", 12))).split()
    assert len(words) == 42
    assert set(words) <= set(WORDS)


parts = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), min_size=1, max_size=6)


@given(parts, parts)
def test_two_prompts_share_words_as_far_as_their_segments_agree(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    agreed = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    tokens = sum(size for _, size in one[:agreed])
    seen = shared_words(prompt_text(request(*one)), prompt_text(request(*other)))
    # Past that a word is equal by chance once in 256: twice is once in 65,536.
    assert tokens <= seen <= tokens + 2


def test_a_whole_different_start_shares_nothing() -> None:
    assert shared_words(prompt_text(request(("a", 50))), prompt_text(request(("b", 50)))) == 0
    assert shared_words(prompt_text(request(("a", 50))), prompt_text(request(("a", 51)))) == 0


def test_a_name_after_another_start_has_other_words() -> None:
    one = prompt_text(request(("a", 1), ("x", 40))).split()[1:]
    other = prompt_text(request(("b", 1), ("x", 40))).split()[1:]
    assert one != other


def test_the_overhead_shortens_the_last_segment_only() -> None:
    whole = prompt_text(request(("a", 30), ("b", 12))).split()
    less = prompt_text(request(("a", 30), ("b", 12)), overhead_tokens=5).split()
    assert less == whole[:37]
    assert prompt_text(request(("a", 30), ("b", 12)), overhead_tokens=500).split() == whole[:31]


def test_a_turn_that_extends_a_shortened_one_still_shares_all_of_it() -> None:
    first = prompt_text(request(("a", 30), ("b", 12)), overhead_tokens=5)
    second = prompt_text(request(("a", 30), ("b", 12), ("c", 9)), overhead_tokens=5)
    assert second.startswith(first)


def test_a_salt_changes_the_first_word_on_and_is_itself_reproducible() -> None:
    salted = prompt_text(request(("a", 40)), salt="run 1")
    assert salted == prompt_text(request(("a", 40)), salt="run 1")
    assert shared_words(salted, prompt_text(request(("a", 40)))) == 0
    assert shared_words(salted, prompt_text(request(("a", 40)), salt="run 2")) == 0


def test_requests_of_which_nothing_is_known_have_words_of_their_own() -> None:
    one, other = prompt_text(request(arrival_s=1.0)), prompt_text(request(arrival_s=2.0))
    assert len(one.split()) == 20
    assert shared_words(one, other) == 0


def test_words_are_pinned_for_ever() -> None:
    assert prompt_text(request(("shared-0", 6)), salt="s") == "read river noise quick print look"
