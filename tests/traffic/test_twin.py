from __future__ import annotations

from itertools import combinations

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_logs import PROMPTS, Prompt, names, traffic_of_prompts

from unmoor.core.errors import TrafficError, UsageError
from unmoor.core.traffic import Workload
from unmoor.fake.engine import FakeEngine
from unmoor.fake.script import Ask, Script
from unmoor.measure.client.load import PlannedRequest, Target
from unmoor.measure.client.replay import replay
from unmoor.traffic.fingerprint import write
from unmoor.traffic.log import Traffic
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.curve import curve_of, salt_of
from unmoor.traffic.synthesis import to_jsonl
from unmoor.traffic.twin import twin_of
from unmoor.traffic.words import WORDS, prompt_text

KEY = bytes(32)


def fingerprint_of(log: Traffic, block_tokens: int = 16) -> Traffic:
    content = b"".join(write(log, key=KEY, block_tokens=block_tokens))
    return read_traffic(content, where="fingerprint.jsonl")


def replayed(twin: Workload) -> Traffic:
    return read_traffic(to_jsonl(twin), where="twin.jsonl")


@given(PROMPTS, st.integers(1, 8), st.integers(1, 3))
def test_the_hit_rate_of_a_twin_is_the_log_s_at_every_capacity(prompts: list[Prompt], size: int, times: int) -> None:
    """The issue allows one point of difference; a copy of the structure has none."""
    log = traffic_of_prompts(prompts)
    twin = replayed(twin_of(fingerprint_of(log, size)))
    for salted in (False, True):
        own = curve_of(log, block_tokens=size * times, salt=salt_of(log.adapter) if salted else None)
        its = curve_of(twin, block_tokens=size * times, salt=salt_of(twin.adapter) if salted else None)
        assert own is not None
        assert its is not None
        for kv_tokens in range(0, 1 + sum(map(len, prompts)), size):
            assert own.at(kv_tokens) == its.at(kv_tokens)


@given(PROMPTS)
def test_lengths_arrivals_and_who_belongs_together_are_the_log_s(prompts: list[Prompt]) -> None:
    log = traffic_of_prompts(prompts)
    twin = replayed(twin_of(fingerprint_of(log)))
    for column in ("arrival_s", "input_tokens", "output_tokens"):
        assert np.array_equal(getattr(twin, column), getattr(log, column))
    for column in ("session", "adapter", "schema"):
        its, own = getattr(twin, column).code, getattr(log, column).code
        for i, j in combinations(range(len(prompts)), 2):
            assert (its[i] == its[j]) == (own[i] == own[j])


def test_no_name_of_the_log_nor_of_its_fingerprint_is_in_a_twin() -> None:
    log = traffic_of_prompts([(1,) * 40, (1,) * 30 + (2,) * 9], session=names("alice", [0, 1]))
    again = fingerprint_of(log)
    content = to_jsonl(twin_of(again)).decode()
    hashed = (again.session, again.tenant, again.adapter, again.schema)
    for name in ("alice", *(name for column in hashed for name in column.names)):
        assert name not in content
    assert '"schema":"json_schema-0"' in to_jsonl(twin_of(log)).decode()


def test_a_seed_gives_other_words_and_nothing_else() -> None:
    again = fingerprint_of(traffic_of_prompts([(1,) * 40, (1,) * 30 + (2,) * 9]))
    one, two = twin_of(again, seed=1), twin_of(again, seed=2)
    assert to_jsonl(one) == to_jsonl(twin_of(again, seed=1))
    assert prompt_text(one.requests[0]) != prompt_text(two.requests[0])
    assert one.fingerprint != two.fingerprint
    nameless = [[msgspec.structs.replace(request, segments=()) for request in twin.requests] for twin in (one, two)]
    assert nameless[0] == nameless[1]


def test_the_first_requests_can_be_had_alone_and_at_another_rate() -> None:
    again = fingerprint_of(traffic_of_prompts([(i,) for i in range(9)], arrival_s=np.arange(9) ** 2.0))
    twin = twin_of(again, requests=4, rate_rps=0.5)
    assert [request.arrival_s for request in twin.requests] == [0.0, 0.666667, 2.666667, 6.0]
    with pytest.raises(UsageError, match="not that many") as refused:
        twin_of(again, requests=10)
    assert refused.value.expected == "1 to 9, as many as the fingerprint has"


def test_arrivals_are_drawn_where_the_log_has_no_times_and_a_rate_is_given() -> None:
    log = traffic_of_prompts([(i,) for i in range(2000)], arrival_s=np.full(2000, np.nan))
    with pytest.raises(UsageError, match="no times"):
        twin_of(fingerprint_of(log))
    twin = twin_of(fingerprint_of(log), rate_rps=4.0)
    assert twin.duration_s == pytest.approx(2000 / 4.0, rel=0.1)
    assert twin == twin_of(fingerprint_of(log), rate_rps=4.0)
    at_one_moment = fingerprint_of(traffic_of_prompts([(1,), (2,), (3,)], gap_s=0.0))
    assert twin_of(at_one_moment, rate_rps=4.0).duration_s > 0


def test_a_log_that_says_nothing_of_content_has_a_twin_and_one_without_answers_has_none() -> None:
    log = traffic_of_prompts([(1, 2), (3,)], tree=None, grain=None, node=np.full(2, -1, dtype=np.int32))
    twin = twin_of(fingerprint_of(log))
    assert twin.overlap_block_tokens is None
    assert [len(prompt_text(request).split()) for request in twin.requests] == [2, 1]
    with pytest.raises(TrafficError, match="how long answers were"):
        twin_of(fingerprint_of(traffic_of_prompts([(1,)], output_tokens=np.array([-1]))))


def test_an_engine_is_sent_prompts_that_share_what_the_log_s_shared() -> None:
    """Over a real socket, as a bake-off sends them: one word a token, the same words as far as the log's prefixes."""
    turn = (1,) * 48
    prompts = [turn + (2,) * 7, turn + (3,) * 20, turn + (3,) * 20, (4,) * 33]
    twin = twin_of(fingerprint_of(traffic_of_prompts(prompts, gap_s=0.02)))
    planned = [
        PlannedRequest(index=i, due_s=r.arrival_s, prompt=prompt_text(r, salt="run"), max_tokens=r.output_tokens)
        for i, r in enumerate(twin.requests)
    ]
    with FakeEngine(Script(ttft_s=0.0, gap_s=0.0)) as engine:
        report = replay(Target(url=engine.url, served_name="fake"), planned, sink=lambda _: None, timeout_s=10.0)
    assert (report.requests, report.failures) == (4, 0)
    asks = [msgspec.json.decode(body, type=Ask) for body in engine.seen]
    assert [ask.max_tokens for ask in asks] == [1, 2, 3, 4]
    sent = [str((ask.messages or [])[0]["content"]).split() for ask in asks]
    assert [len(words) for words in sent] == [len(prompt) for prompt in prompts]
    assert set().union(*sent) <= set(WORDS)
    assert sent[0][:48] == sent[1][:48]
    assert sent[0][48:55] != sent[1][48:55]
    assert sent[1] == sent[2]
    assert sent[3][:16] != sent[0][:16]
