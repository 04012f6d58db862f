from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Blocks, Content, Entry
from unmoor.traffic.log import UNKNOWN, Grain, Traffic
from unmoor.traffic.profile.profile_log import profile_log
from unmoor.traffic.profile.question import Question
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.readers.collect import MOST_UNKNOWN, Collector, Told
from unmoor.traffic.reuse.curve import curve_of, ideal
from unmoor.traffic.text.pieces import BytesCutter

REDACTED = [{"role": "user", "content": "redacted-by-litellm"}]
BLOCK = 16


def logged(number: int, *, redacted: bool = False, answer: str | None = None) -> dict[str, Any]:
    text = "You are a patient assistant. " * 40 + f"Question {number}: " + f"why is {number} so? " * 5
    row: dict[str, Any] = {
        "startTime": 1_796_029_200.0 + number,
        "model": "m",
        "messages": REDACTED if redacted else [{"role": "user", "content": text}],
        "prompt_tokens": 315,
    }
    if answer is None:
        row["completion_tokens"] = 8
    else:
        row["response"] = {"choices": [{"message": {"content": "redacted-by-litellm" if redacted else answer}}]}
    return row


def read(rows: list[dict[str, Any]]) -> Traffic:
    content = "\n".join(map(json.dumps, rows)).encode()
    return read_traffic(content, where="log", cutter=BytesCutter(b"key"), most_broken=0)


def told(traffic: Traffic, code: str) -> list[Caveat]:
    return [caveat for caveat in traffic.caveats if caveat.code == code]


@pytest.mark.parametrize("first", [0, 5])
def test_where_much_is_redacted_lengths_stay_and_nothing_is_said_of_sharing(first: int) -> None:
    traffic = read([logged(n, redacted=n % 10 == first) for n in range(50)])
    assert (len(traffic), traffic.skipped_lines) == (50, 0)
    assert set(traffic.input_tokens.tolist()) == {315}
    assert (traffic.tree, traffic.grain, set(traffic.node.tolist())) == (None, None, {UNKNOWN})
    (doubt,) = told(traffic, "content_partly_unknown")
    assert doubt.text.startswith("5 of 50 requests, with 10.00% of prompt tokens, say nothing of their content: what")
    assert told(traffic, "text_redacted")[0].text.startswith("5 records without text")
    report = profile_log(traffic, Question(kv_tokens=(100_000,)))
    rates = {point.hit_rate for point in report.hit_rate_curve} | {row.hit_rate for row in report.replicas or ()}
    assert {report.prefix_overlap, report.prefix_overlap_blocks} | rates == {None}
    assert report.input_tokens.total == 50 * 315


@pytest.mark.parametrize("at", [0, 77, 399])
def test_where_little_is_redacted_it_shares_nothing_and_the_doubt_says_how_much_that_may_cost(at: int) -> None:
    traffic = read([logged(n, redacted=n == at) for n in range(400)])
    without = read([logged(n) for n in range(400) if n != at])
    assert traffic.tree is not None
    assert traffic.tree.end[traffic.node[at]] == pytest.approx(315, abs=1)
    share, alone = ideal(traffic).tokens, ideal(without).tokens
    assert share is not None
    assert alone is not None
    assert share == pytest.approx(alone * 399 / 400, abs=1e-4)
    assert traffic.grain == without.grain  # the ratio is that of the prompts with text
    (doubt,) = told(traffic, "content_partly_unknown")
    assert doubt.text.startswith("1 of 400 requests, with 0.25% of prompt tokens")
    assert "more, not less; without a limit to the cache by at most 0.50% of prompt tokens" in doubt.text


def test_redacted_answers_have_no_length_unless_it_is_counted() -> None:
    traffic = read([logged(0, redacted=True, answer=""), logged(1, answer="x" * 400), logged(2, redacted=True)])
    assert traffic.output_tokens.tolist()[0] == UNKNOWN
    assert traffic.output_tokens.tolist()[1] > 50
    assert traffic.output_tokens.tolist()[2] == 8


def collected(prompts: list[list[int]], hidden: set[int]) -> Traffic:
    collector = Collector(None)
    for row, ids in enumerate(prompts):
        content: Content = None if row in hidden else Blocks(ids, BLOCK)
        collector.add(row + 1, Entry(float(row), BLOCK * len(ids), 1, content))
    grain = Grain(by="blocks", tokens=BLOCK)
    return collector.traffic(
        Told(source="s", format="f", fingerprint="p", grain=grain, notes=(), skipped_lines=0, skipped=())
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_truth_lies_within_the_doubt_at_every_capacity(seed: int) -> None:
    """The same log with and without the content of a few requests that in truth share with all the others.

    No capacity serves less than is said. None serves more than the others alone would be served, and twice the tokens
    of unknown content; without a limit that is twice those beyond what is said.
    """
    chance = random.Random(seed)  # noqa: S311 - a seeded example
    prompts = [
        [*range(100 * (group := chance.randrange(4)), 100 * group + chance.randrange(1, 12)), 1000 + row]
        for row in range(400)
    ]
    hidden = {1, 2} if seed % 2 else {chance.randrange(300), chance.randrange(300)}
    whole, partly = collected(prompts, set()), collected(prompts, hidden)
    alone = curve_of(collected([ids for row, ids in enumerate(prompts) if row not in hidden], set()))
    tokens = BLOCK * sum(map(len, prompts))
    unknown = BLOCK * sum(len(prompts[row]) for row in hidden)
    assert unknown <= MOST_UNKNOWN * tokens
    sure, true = curve_of(partly), curve_of(whole)
    assert sure is not None
    assert true is not None
    assert alone is not None
    assert true.ideal.high * tokens <= sure.ideal.low * tokens + 2 * unknown + 1e-6
    for kv_tokens in range(0, 100 * BLOCK, BLOCK):
        assert sure.hit_tokens_at(kv_tokens) <= true.hit_tokens_at(kv_tokens)
        assert true.hit_tokens_at(kv_tokens) <= alone.hit_tokens_at(kv_tokens) + 2 * unknown


def test_requests_without_content_among_token_ids_share_nothing_with_each_other() -> None:
    traffic = collected([[1, 2, 3]] * 400, {3, 4})
    assert traffic.tree is not None
    assert len(set(traffic.node.tolist())) == 3
    assert ideal(traffic).tokens == pytest.approx(397 / 400)
    assert np.array_equal(replace(traffic).input_tokens, np.full(400, 48))
