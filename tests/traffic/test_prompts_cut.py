"""The doubt that prompts were cut when they were logged: by how their lengths heap up, not by having equal ones."""

from __future__ import annotations

import json
import random

import pytest

from unmoor.traffic.profile.profile_log import profile_log
from unmoor.traffic.profile.question import Question
from unmoor.traffic.readers import read_traffic


def doubts(texts: list[str]) -> list[str]:
    rows = [{"model": "m", "prompt": text, "usage": {"prompt_tokens": max(1, len(text) // 4)}} for text in texts]
    traffic = read_traffic("\n".join(map(json.dumps, rows)).encode(), where="log")
    report = profile_log(traffic, Question(kv_tokens=(100_000,)))
    return [caveat.text for caveat in report.caveats if caveat.code == "prompts_cut"]


def invented(sizes: list[int]) -> list[str]:
    chance = random.Random(5)  # noqa: S311 - invented text
    return ["".join(chance.choices("abcdefgh ", k=size)) for size in sizes]


@pytest.mark.parametrize("most", [1000, 3000])
def test_prompts_of_many_lengths_of_which_many_end_at_one_were_cut(most: int) -> None:
    chance = random.Random(1)  # noqa: S311 - invented lengths
    sizes = [chance.randrange(200, 4000) for _ in range(400)]
    (told,) = doubts([text[:most] for text in invented(sizes)])
    assert told.startswith(
        f"{sum(size >= most for size in sizes)} of 400 prompts have exactly the length of the longest"
    )
    assert doubts(invented(sizes)) == []


@pytest.mark.parametrize(
    "texts",
    [
        ["You are helpful. " * 100 + f"Question {number}?" for number in range(400)],
        invented([520] * 67 + [1625] * 133),
        invented([1000] * 100),
        invented([4 * (1 + number % 15) for number in range(400)]),
    ],
    ids=["one template", "two lengths", "one length", "few lengths"],
)
def test_prompts_that_merely_have_equal_lengths_were_not(texts: list[str]) -> None:
    assert doubts(texts) == []
