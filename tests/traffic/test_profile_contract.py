"""The JSON of `unmoor profile --json` keeps its types whatever the log says, and whatever it does not say."""

from __future__ import annotations

import json
import secrets

import msgspec
import pytest

from unmoor.core.evidence import Caveat
from unmoor.traffic.breakers import Watch
from unmoor.traffic.fingerprint import write
from unmoor.traffic.profile.profile_log import Findings, profile_log
from unmoor.traffic.profile.question import EngineBlocks, Question
from unmoor.traffic.readers import FORMATS, read_traffic
from unmoor.traffic.text.pieces import BytesCutter

Number = float | None


class Lengths(msgspec.Struct, forbid_unknown_fields=True):
    total: int | None
    mean: Number
    p50: Number
    p95: Number
    max: int | None


class Arrivals(msgspec.Struct):
    rps: Number
    interarrival_cv: Number


class Point(msgspec.Struct):
    kv_tokens: int
    hit_rate: Number


class Engine(msgspec.Struct):
    block_tokens: int
    hit_rate_curve: list[Point]


class Replicas(msgspec.Struct):
    n: int
    routing: str
    hit_rate: Number


class Shared(msgspec.Struct):
    tokens: int
    requests: int
    tokens_saved: int


class Breaker(msgspec.Struct):
    what: str
    where: dict[str, object] | None
    share_lost: float
    gain: float


class Contract(msgspec.Struct):
    """The keys of issue 3's contract: lists are lists and objects are objects; only what they hold may be null."""

    requests: int
    skipped_lines: int
    duration_s: Number
    input_tokens: Lengths
    output_tokens: Lengths
    arrivals: Arrivals
    prefix_overlap: Number
    prefix_overlap_blocks: Number
    hit_rate_curve: list[Point]
    engines: dict[str, Engine]
    replicas: list[Replicas]
    shared_prefixes: list[Shared]
    breakers: list[Breaker]
    caveats: list[Caveat]


def chat(number: int) -> str:
    said = [
        {"role": "system", "content": f"It is 9:{number:02d}. " + "Be kind. " * 40},
        {"role": "user", "content": "a"},
    ]
    return json.dumps({"timestamp": number, "request": {"model": "m", "messages": said}})


MOONCAKE = '{"timestamp": 0, "input_length": 1000, "output_length": 50, "hash_ids": [0, 1]}'
LOGS = {
    "mooncake": [MOONCAKE, '{"timestamp": 1500, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]}'],
    "bailian": [
        f'{{"chat_id": {n}, "parent_chat_id": -1, "timestamp": {n}, "input_length": 40, "output_length": 9, '
        f'"type": "text", "turn": 1, "hash_ids": [5, 6, {n}]}}'
        for n in (7, 8)
    ],
    "azure": [
        "TIMESTAMP,ContextTokens,GeneratedTokens",
        "2023-11-16 18:15:46.6805900,374,44",
        "2023-11-16 18:15:50.9951690,396,109",
    ],
    "burstgpt": [
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type",
        "5,12,3.5,ChatGPT,472,18,490,Conversation log",
        "45.5,,,GPT-4,1087,0,1087,API log",
    ],
    "lengths": ["prompt_tokens,completion_tokens", "100,", "120,"],  # no times, no answers
    "sharegpt": [
        json.dumps([{"id": "x", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Ha"}]}])
    ],
    "unmoor": [
        '{"unmoor_traffic":1,"overlap_block_tokens":1}',
        '{"arrival_s":0.5,"input_tokens":10,"output_tokens":5,"segments":[["a",4],["b",6]]}',
        '{"arrival_s":1.5,"input_tokens":4,"output_tokens":5,"segments":[["a",4]],"session":"s1"}',
    ],
    "openai": [chat(number) for number in range(30)],
    "vllm-log": [
        f"INFO 11-30 09:00:0{n} [logger.py:42] Received request {n}: prompt: 'Hello', params: SamplingParams(n=1), "
        "prompt_token_ids: [1, 2], prompt_embeds shape: None, lora_request: None."
        for n in range(2)
    ],
    "sglang-log": [
        f'{{"timestamp": "2026-11-30T09:00:0{n}", "event": "request.finished", "obj": {{"text": "Hello"}}, '
        '"out": {"meta_info": {"prompt_tokens": 5, "completion_tokens": 7, "e2e_latency": 1.5}}}'
        for n in range(2)
    ],
}
FEWER = {
    "one request": [MOONCAKE],
    "a moment": [MOONCAKE, MOONCAKE],
    "no content": ["arrival_s,input_tokens,output_tokens", "0,10,1", "3,12,5", "4,9,2"],
    "ours without content": [
        '{"unmoor_traffic":1,"overlap_block_tokens":null}',
        '{"arrival_s":0,"input_tokens":10,"output_tokens":5}',
    ],
}
ALL = {**LOGS, **FEWER}
ENGINES = {"x": EngineBlocks(block_tokens=16, prefix_caching=True)}
QUESTIONS = {
    "as it is": Question(engines=ENGINES),
    "asked": Question(kv_tokens=(2000,), replicas=(3,), engines=ENGINES),
}


def profiled(content: bytes, question: Question) -> Contract:
    watch, cutter = Watch(), BytesCutter(b"key")
    traffic = read_traffic(content, where="log", cutter=cutter, watch=watch)

    def find(kv_tokens: int | None) -> Findings:
        return Findings(breakers=watch.findings(cutter, kv_tokens=kv_tokens), caveats=watch.notes(cutter))

    return msgspec.json.decode(msgspec.json.encode(profile_log(traffic, question, find)), type=Contract)


def fingerprint_of(content: bytes) -> bytes:
    return b"".join(write(read_traffic(content, where="log"), key=secrets.token_bytes(32)))


def test_every_format_has_a_sample() -> None:
    assert {*LOGS, "fingerprint"} == set(FORMATS)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", ALL)
def test_every_key_of_the_contract_has_its_type_for_every_format(name: str, question: str) -> None:
    content = "\n".join(ALL[name]).encode()
    whole = profiled(content, QUESTIONS[question])
    cut = profiled(fingerprint_of(content), QUESTIONS[question])
    for seen in (whole, cut):
        known = seen.prefix_overlap is not None
        assert seen.replicas  # a row for each routing, whether or not its rate is known
        assert all((row.hit_rate is not None) <= known for row in seen.replicas)
        assert bool(seen.shared_prefixes) <= known
        assert known != ("content_unknown" in {caveat.code for caveat in seen.caveats})
    assert (whole.requests, whole.input_tokens) == (cut.requests, cut.input_tokens)


def test_what_is_found_in_text_is_listed_with_its_place_and_without_from_a_fingerprint() -> None:
    (found,) = profiled("\n".join(LOGS["openai"]).encode(), QUESTIONS["as it is"]).breakers
    assert found.what == "date_in_prefix"
    assert found.where is not None


def test_answers_that_no_log_tells_the_length_of_are_nulls_in_an_object() -> None:
    seen = profiled("\n".join(LOGS["lengths"]).encode(), QUESTIONS["as it is"])
    assert seen.output_tokens == Lengths(total=None, mean=None, p50=None, p95=None, max=None)
    assert (seen.input_tokens.total, seen.duration_s, seen.arrivals.rps) == (220, None, None)
