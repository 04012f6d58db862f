"""Tokens that are not of a prompt's text: images counted with it, and text that was taken out of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from unmoor.traffic.entry import Entry, Prompt
from unmoor.traffic.log import Traffic
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.curve import ideal
from unmoor.traffic.text.pieces import BytesCutter

IMAGE_TOKENS = 1105
CHANCE = random.Random(3)  # noqa: S311 - invented text
WORDS = "".join(CHANCE.choices("abcdefghij ", k=40_000))
SYSTEM = {"role": "system", "content": WORDS[:2000]}


def asked(number: int, *, image: str | None, counted: bool = True) -> dict[str, Any]:
    """80 bytes of one's own after 2,000 shared ones, and perhaps an image; four bytes are a token."""
    content: list[dict[str, Any]] = [{"type": "text", "text": WORDS[2000 + 80 * number : 2080 + 80 * number]}]
    if image:
        content.append({"type": "image_url", "image_url": {"url": image}})
    usage = {"prompt_tokens": 520 + IMAGE_TOKENS * (image is not None), "completion_tokens": 5}
    return {
        "timestamp": 1_796_029_200 + number,
        "model": "m",
        "messages": [SYSTEM, {"role": "user", "content": content}],
        "usage": usage if counted else None,
    }


def read(rows: list[dict[str, Any]]) -> Traffic:
    return read_traffic("\n".join(map(json.dumps, rows)).encode(), where="log", cutter=BytesCutter(b"key"))


def told(traffic: Traffic, code: str) -> list[str]:
    return [caveat.text for caveat in traffic.caveats if caveat.code == code]


def overlap(traffic: Traffic) -> float:
    shared = ideal(traffic).tokens
    assert shared is not None
    return shared


def ratio(traffic: Traffic) -> tuple[float | None, bool]:
    assert traffic.grain is not None
    return traffic.grain.bytes_per_token, traffic.grain.ratio_measured


def test_images_are_in_no_shared_prefix_and_measure_no_ratio() -> None:
    traffic = read([asked(n, image=f"data:{n}") for n in range(200)])
    true = 199 / 200 * 500 / 1625
    assert true - 16 / 1625 <= overlap(traffic) <= true  # a shared prefix is known to within a piece
    assert ratio(traffic) == (4.0, False)
    assert traffic.tree is not None
    assert set(traffic.tree.end[traffic.node].tolist()) == {1625}
    assert told(traffic, "tokens_assumed")[0].endswith("no request of text alone says how many tokens its prompt has.")
    assert told(traffic, "beyond_text_unshared")[0].startswith("219,")
    assert "(67.5%) are of images" in told(traffic, "beyond_text_unshared")[0]


def test_bytes_a_token_are_measured_on_prompts_of_text_alone() -> None:
    rows = [asked(n, image=None if n % 3 == 0 else f"data:{n}") for n in range(200)]
    traffic = read(rows)
    measured, is_measured = ratio(traffic)
    assert is_measured
    assert measured == pytest.approx(2080 / 520, rel=0.01)
    tokens = sum(row["usage"]["prompt_tokens"] for row in rows)
    assert overlap(traffic) == pytest.approx(199 * 500 / tokens, abs=16 * 200 / tokens)
    assert overlap(traffic) <= 199 * 500 / tokens
    assert "measured on 67 requests" in told(traffic, "tokens_measured")[0]


def test_the_same_prompt_with_the_same_image_is_shared_to_its_end() -> None:
    traffic = read([asked(0, image="data:0")] * 10 + [asked(0, image="data:1")])
    tokens = 11 * 1625
    assert (9 * 1625 + 500) / tokens <= overlap(traffic) <= (9 * 1625 + 520) / tokens


def test_images_that_nobody_counts_are_in_no_length() -> None:
    traffic = read([asked(n, image=f"data:{n}", counted=False) for n in range(20)])
    assert traffic.tree is not None
    assert int(traffic.tree.end[traffic.node].max()) < 600
    assert told(traffic, "beyond_text_unshared") == []


def test_calls_of_tools_and_what_they_gave_are_text_wherever_they_stand() -> None:
    """As Anthropic's interface has them: pieces of a message's content. An image within a result is one still."""
    call = {"type": "tool_use", "id": "t1", "name": "find", "input": {"q": "x" * 400}}
    result: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": [{"type": "text", "text": "y" * 800}],
    }
    image = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    rows = [
        {"messages": [{"role": "assistant", "content": [call]}, {"role": "user", "content": [given]}], "model": "m"}
        for given in (result, {**result, "content": [*result["content"], image]}, {**result, "content": "z" * 900})
    ]
    entries: list[Entry] = []
    read_traffic("\n".join(map(json.dumps, rows)).encode(), where="log", watch=lambda _, entry: entries.append(entry))
    prompts = [entry.content for entry in entries if isinstance(entry.content, Prompt)]
    assert [prompt.others for prompt in prompts] == [0, 1, 0]
    texts = ["".join(part.text for part in prompt.parts) for prompt in prompts]
    assert all("x" * 400 in text for text in texts)
    assert ["y" * 800 in text for text in texts] == [True, True, False]
    assert "z" * 900 in texts[2]


@pytest.mark.parametrize("stands", ["[REDACTED]", "<redacted>", "***REDACTED***", "text withheld by policy", "-"])
def test_what_stands_for_a_text_that_was_taken_out_is_no_prompt(stands: str) -> None:
    rows = [
        {
            "timestamp": 1_796_029_200 + number,
            "model": "m",
            "messages": [{"role": "user", "content": stands}],
            "usage": {"prompt_tokens": 500 + 35 * number, "completion_tokens": 5},
        }
        for number in range(100)
    ]
    entries: list[Entry] = []
    content = "\n".join(map(json.dumps, rows)).encode()
    traffic = read_traffic(content, where="log", watch=lambda _, entry: entries.append(entry))
    assert (traffic.tree, traffic.grain, ideal(traffic).tokens) == (None, None, None)
    assert traffic.input_tokens.tolist() == [500 + 35 * number for number in range(100)]
    assert told(traffic, "text_redacted")[0].startswith("100 re")
    assert {entry.content for entry in entries} == {None}


def test_a_few_texts_too_short_for_their_tokens_leave_the_others_as_they_are() -> None:
    rows = [asked(n, image=None) for n in range(400)]
    rows[7]["messages"] = [{"role": "user", "content": "withheld"}]
    traffic = read(rows)
    measured, is_measured = ratio(traffic)
    assert is_measured
    assert measured == pytest.approx(4.0, rel=0.01)
    assert told(traffic, "text_redacted")[0].startswith("1 request has a text far too short")
    assert told(traffic, "content_partly_unknown")[0].startswith("1 of 400 requests")
    assert 396 * 500 / (400 * 520) >= overlap(traffic) - 500 / (400 * 520) >= 396 * 480 / (400 * 520)


def test_a_short_text_within_a_long_template_and_one_beside_an_image_are_prompts() -> None:
    short = {"model": "m", "messages": [{"role": "user", "content": "Hi there!"}], "usage": {"prompt_tokens": 75}}
    quoted = {
        "model": "m",
        "messages": [{"role": "user", "content": "Is this text redacted?"}],
        "usage": {"prompt_tokens": 9},
    }
    pictured = asked(0, image="data:0")
    pictured["messages"] = pictured["messages"][1:]
    del pictured["timestamp"]
    traffic = read([short, quoted, pictured] * 4)
    assert traffic.tree is not None
    assert told(traffic, "text_redacted") == []
