from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_logs import PROMPTS, Prompt, traffic_of_prompts

from unmoor.core.errors import TrafficError, UsageError
from unmoor.core.evidence import Caveat
from unmoor.traffic.coarsening import quantised
from unmoor.traffic.entry import Prompt as Text
from unmoor.traffic.fingerprint import write
from unmoor.traffic.log import BreakerShare, Features, Grain, Names, Traffic
from unmoor.traffic.profile.profile_log import profile_log
from unmoor.traffic.profile.question import EngineBlocks, Question
from unmoor.traffic.profile.report import TrafficReport
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.readers.contract import Cut
from unmoor.traffic.reuse.curve import curve_of, salt_of

KEY = bytes(range(32))
OTHER_KEY = bytes(32)
# What a fingerprint may change of a profile: where it came from, and names, of which it keeps only that they differ.
ORIGIN = ("source", "format", "fingerprint", "caveats")
CHANGED = (*ORIGIN, "adapters", "tenants", "models", "structured", "tools", "sampling")
FEATURES = Features(
    sampling={
        "temperature": {"0.7": 2, "0": 1},
        "stop": {'["Human: dear Alice"]': 1},
        "seed": {"20261130": 1},
        "reasoning_effort": {'"high"': 1},
        "x-customer": {"4711": 1, '"Alice"': 1},
        "max_tokens": {"...": 3},
    },
    tools={"lookup_alice": 2},
    models={"alice/private-model": 3},
    with_tools=2,
)


def file_of(traffic: Traffic, *, key: bytes = KEY, block_tokens: int | None = None) -> bytes:
    return b"".join(write(traffic, key=key, block_tokens=block_tokens))


def read_back(content: bytes) -> Traffic:
    return read_traffic(content, where="fingerprint.jsonl")


def figures(traffic: Traffic, kv_tokens: Sequence[int], block_tokens: int) -> TrafficReport:
    engines = {
        "same": EngineBlocks(block_tokens=block_tokens, prefix_caching=True),
        "twice": EngineBlocks(block_tokens=2 * block_tokens, prefix_caching=True),
    }
    question = Question(kv_tokens=kv_tokens, replicas=(2, 3), block_tokens=block_tokens, engines=engines)
    report = profile_log(traffic, question)
    return msgspec.structs.replace(report, **dict.fromkeys(CHANGED))


@given(PROMPTS, st.integers(1, 8), st.lists(st.integers(0, 400), min_size=1, max_size=4, unique=True))
def test_every_figure_of_the_log_in_blocks_comes_back_from_its_fingerprint(
    prompts: list[Prompt], size: int, kv_tokens: list[int]
) -> None:
    log = traffic_of_prompts(prompts)
    again = read_back(file_of(log, block_tokens=size))
    assert figures(again, kv_tokens, size) == figures(quantised(log, size), kv_tokens, size)


@given(PROMPTS, st.integers(1, 8), st.integers(1, 3))
def test_the_hit_rate_at_its_block_size_and_multiples_is_the_log_s_own_at_every_capacity(
    prompts: list[Prompt], size: int, times: int
) -> None:
    log = traffic_of_prompts(prompts)
    again = read_back(file_of(log, block_tokens=size))
    for salted in (False, True):
        own = curve_of(log, block_tokens=size * times, salt=salt_of(log.adapter) if salted else None)
        its = curve_of(again, block_tokens=size * times, salt=salt_of(again.adapter) if salted else None)
        assert own is not None
        assert its is not None
        for kv_tokens in range(0, 1 + sum(map(len, prompts)), size):
            assert own.at(kv_tokens) == its.at(kv_tokens)


def own_figures(traffic: Traffic, kv_tokens: Sequence[int]) -> TrafficReport:
    """Everything that is said of it by its own blocks, but its origin and names."""
    return msgspec.structs.replace(
        profile_log(traffic, Question(kv_tokens=kv_tokens, replicas=(2,))), **dict.fromkeys(CHANGED)
    )


@given(PROMPTS, st.integers(1, 8), st.integers(1, 3), st.integers(1, 400), st.sampled_from(("tokens", "blocks")))
def test_a_fingerprints_fingerprint_has_the_same_figures(
    prompts: list[Prompt], size: int, times: int, kv_tokens: int, told_apart_by: str
) -> None:
    log = traffic_of_prompts(prompts, breakers=(BreakerShare(what="tools_order", share_lost=0.5, gain=0.25),))
    if told_apart_by == "blocks":
        log = quantised(log, size)
    once = read_back(file_of(log, block_tokens=size))
    twice = read_back(file_of(once, key=OTHER_KEY, block_tokens=size))
    assert own_figures(twice, (kv_tokens,)) == own_figures(once, (kv_tokens,))
    assert twice.breakers == once.breakers == log.breakers
    coarser = read_back(file_of(once, block_tokens=size * times))
    assert own_figures(coarser, (kv_tokens,)) == own_figures(
        read_back(file_of(log, block_tokens=size * times)), (kv_tokens,)
    )


def test_a_fingerprint_from_before_it_said_so_goes_by_the_rule_of_its_log() -> None:
    log = traffic_of_prompts([(1,) * 40, (1,) * 20 + (2,) * 9])
    for made, whole in ((log, True), (quantised(log, 16), False)):
        older = file_of(made, block_tokens=16).replace(b',"whole_blocks":%s' % str(whole).lower().encode(), b"")
        assert b"whole_blocks" not in older
        body = older[: older.rindex(b'{"sha256"')]
        signed = body + b'{"sha256":"%s"}\n' % hashlib.sha256(body).hexdigest().encode()
        assert read_back(signed).whole_blocks == whole


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=8).map(sorted))
def test_times_come_back_to_the_microsecond(arrivals: list[float]) -> None:
    at_s = np.array(arrivals) - arrivals[0]
    log = traffic_of_prompts([(1, 2)] * len(arrivals), arrival_s=at_s, took_s=at_s)
    again = read_back(file_of(log))
    assert np.array_equal(again.arrival_s, np.round(at_s, 6))
    assert np.array_equal(again.took_s, np.round(at_s, 6))


def test_what_the_log_does_not_say_stays_unknown() -> None:
    log = traffic_of_prompts(
        [(1, 2), (3,)],
        arrival_s=np.full(2, np.nan),
        output_tokens=np.array([-1, 0]),
        node=np.full(2, -1, dtype=np.int32),
        tree=None,
        grain=None,
        tenant=Names(code=np.full(2, -1, dtype=np.int32)),
    )
    again = read_back(file_of(log))
    assert not again.timed
    assert again.output_tokens.tolist() == [-1, 0]
    assert (again.tree, again.grain, again.tenant.names) == (None, None, ())
    assert again.node.tolist() == [-1, -1]


def test_a_count_that_is_not_the_tree_s_comes_back_beside_it() -> None:
    """As in logs told apart by bytes, whose servers count tokens in their own way."""
    log = traffic_of_prompts([(1,) * 40, (1,) * 20 + (2,) * 9], input_tokens=np.array([37, 44]))
    again = read_back(file_of(log))
    assert again.tree is not None
    assert again.input_tokens.tolist() == [37, 44]
    assert again.tree.end[again.node].tolist() == [40, 29]


def test_what_only_the_header_knows_comes_back() -> None:
    log = traffic_of_prompts(
        [(1, 2)] * 3,
        features=FEATURES,
        skipped_lines=4,
        breakers=(BreakerShare(what="date", share_lost=0.25, gain=0.125),),
        grain=Grain(by="bytes", tokens=2, bytes_per_token=3.5, ratio_measured=True),
        caveats=(Caveat(code="clock_unit", text="Alice's times were read as milliseconds."),),
    )
    again = read_back(file_of(log))
    assert again.skipped_lines == 4
    assert again.breakers == log.breakers
    assert again.features.sampling["temperature"] == {"0.7": 2, "0": 1}
    assert again.features.sampling["reasoning_effort"] == {'"high"': 1}
    assert again.features.sampling["max_tokens"] == {"...": 3}
    assert list(again.features.models.values()) == [3]
    assert list(again.features.tools.values()) == [2]
    assert again.features.with_tools == 2
    assert [name.partition(":")[0] for name in again.schema.names] == ["json_schema"] * 2
    assert [caveat.text for caveat in again.caveats] == [
        "This is a fingerprint: content is told apart in blocks of 16 tokens, no finer.",
        (
            "The log behind it was told apart by bytes to within 2 tokens, at 3.50 bytes a token (measured): a shared "
            "prefix may be so much longer, not shorter."
        ),
        "The log behind it was read with these caveats: clock_unit.",
    ]


def test_found_breakers_take_the_place_of_carried_ones() -> None:
    found = [BreakerShare(what="tools_order", share_lost=0.5, gain=0.5)]
    content = b"".join(write(traffic_of_prompts([(1,)]), key=KEY, breakers=found))
    assert read_back(content).breakers == tuple(found)
    assert read_back(file_of(traffic_of_prompts([(1,)]))).breakers is None


SECRETS = (
    "You are Alice's assistant. Her account is 4711-0815.",
    "What did the doctor say about the biopsy?",
)
NAMES = ("alice@example.org", "company-acme", "lora-acme-legal", 'json_schema:{"patient":"string"}')


def log_of_text() -> Traffic:
    """A log whose tokens are words, with names that give people away."""
    prompts = [tuple(hash(word) for word in text.split()) for text in (*SECRETS, SECRETS[0])]
    columns: dict[str, object] = {
        column: Names(code=np.zeros(3, dtype=np.int32), names=(name,))
        for column, name in zip(("session", "tenant", "adapter", "schema"), NAMES, strict=True)
    }
    return traffic_of_prompts(
        prompts,
        features=FEATURES,
        source="/home/alice/acme-prod.jsonl",
        fingerprint="ab" * 32,
        skipped=("acme-prod.jsonl:7: not a JSON object",),
        gap_s=0.5,
        **columns,
    )


def encodings(word: str) -> set[bytes]:
    """A word as it could stand in a file: as it is, in hex, and in base64 at each of its three alignments."""
    raw = word.encode()
    middles = [base64.b64encode(b"x" * shift + raw)[4 if shift else 0 : -4] for shift in range(3)]
    return {form.lower() for form in (raw, raw.hex().encode(), *(m for m in middles if len(m) > 3))}


def test_no_word_of_a_prompt_a_name_or_a_path_is_in_it_in_any_encoding() -> None:
    written = file_of(log_of_text(), block_tokens=1).lower()
    texts = [*SECRETS, *NAMES, "/home/alice/acme-prod.jsonl", "ab" * 32, "lookup_alice alice/private-model x-customer"]
    words = {word for text in texts for word in re.findall(r"\w{4,}", text)}
    words -= {"json_schema", "string", "model"}  # words of the format itself
    assert len(words) > 20
    for word in words:
        for form in encodings(word):
            assert form not in written, word
    assert KEY.hex().encode() not in written


def test_no_hash_that_anyone_could_make_without_the_key_is_in_it() -> None:
    """SHA-256, the other fixed hashes and unkeyed BLAKE2b of a name would let anyone test a guess."""
    written = file_of(log_of_text(), block_tokens=1)
    for text in (*SECRETS, *NAMES, "lookup_alice", "4711", '"Alice"', "20261130", "ab" * 32):
        for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s"):
            assert hashlib.new(algorithm, text.encode()).hexdigest()[:16].encode() not in written
        for person in (b"session", b"tenant", b"adapter", b"schema", b"tool", b"value", b"log"):
            assert hashlib.blake2b(text.encode(), digest_size=8, person=person).hexdigest().encode() not in written


def test_content_is_in_it_only_as_a_shape() -> None:
    """Two logs of quite different words whose prompts part at the same places have the same bytes."""
    other = {word: f"other-{place}" for place, word in enumerate({w for text in SECRETS for w in text.split()})}
    one = log_of_text()
    prompts = [tuple(hash(other[word]) for word in text.split()) for text in (*SECRETS, SECRETS[0])]
    two = replace(one, tree=traffic_of_prompts(prompts).tree)
    assert file_of(one, block_tokens=1) == file_of(two, block_tokens=1)


class WordCutter:
    """A tokenizer of words, so that a log of text goes the whole way from its bytes to its fingerprint."""

    by: Literal["tokens", "bytes"] = "tokens"
    step = 1
    notes: Sequence[Caveat] = ()

    def cut(self, prompts: Sequence[Text]) -> list[Cut]:
        return [self._cut(" ".join(part.text for part in prompt.parts).split()) for prompt in prompts]

    def _cut(self, words: list[str]) -> Cut:
        chain = [hash(tuple(words[: i + 1])) & (2**64 - 1) for i in range(len(words))]
        return Cut(chain=np.array(chain, dtype=np.uint64), ends=np.arange(1, len(words) + 1))


@pytest.mark.parametrize("block_tokens", [1, 4, 16])
def test_a_log_of_dialogues_leaves_no_word_in_its_fingerprint_and_the_same_hits(block_tokens: int) -> None:
    turns = [f"paragraph {n} of Aurelia's diary mentions quicksilver and {n}-fold grief" for n in range(12)]
    dialogues = [
        {
            "id": f"aurelia-{n}",
            "conversations": [
                {"from": "human" if place % 2 == 0 else "gpt", "value": turns[place if place < 4 else (place + n) % 12]}
                for place in range(8)
            ],
        }
        for n in range(5)
    ]
    log = read_traffic(b"\n".join(map(msgspec.json.encode, dialogues)), where="aurelia.jsonl", cutter=WordCutter())
    assert len(log) == 20
    content = file_of(log, block_tokens=block_tokens)
    for word in {word for turn in turns for word in re.findall(r"\w{4,}", turn)} | {"aurelia"}:
        for form in encodings(word):
            assert form not in content.lower()
    own, its = curve_of(log, block_tokens=16), curve_of(read_back(content), block_tokens=16)
    assert own is not None
    assert its is not None
    assert own.ideal.low > 0
    assert [own.at(kv_tokens) for kv_tokens in range(0, 2000, 16)] == [its.at(n) for n in range(0, 2000, 16)]


def hashes(content: bytes) -> set[bytes]:
    return set(re.findall(rb"\b[0-9a-f]{16}\b", content))


def test_two_keys_give_other_hashes_throughout_and_the_same_figures() -> None:
    log = traffic_of_prompts([(1,) * 40, (1,) * 20 + (2,) * 9, (1,) * 40], features=FEATURES)
    one, two = file_of(log, key=KEY), file_of(log, key=OTHER_KEY)
    assert len(hashes(one)) == len(hashes(two)) > 10
    assert not hashes(one) & hashes(two)
    assert figures(read_back(one), [32, 64], 16) == figures(read_back(two), [32, 64], 16)
    assert file_of(log, key=KEY) == one


def test_one_key_gives_one_name_one_hash_and_another_in_another_column() -> None:
    same = Names(code=np.zeros(2, dtype=np.int32), names=("acme",))
    log = traffic_of_prompts([(1,), (2,)], session=same, tenant=same, adapter=same)
    later = traffic_of_prompts([(7, 8)] * 2, tenant=Names(code=np.array([1, 0], dtype=np.int32), names=("acme", "b")))
    first, second = read_back(file_of(log)), read_back(file_of(later))
    assert len({*first.session.names, *first.tenant.names, *first.adapter.names}) == 3
    assert set(first.tenant.names) < set(second.tenant.names)


@pytest.mark.parametrize("size", [0, 15, 65])
def test_a_key_that_is_too_short_or_too_long_is_refused_before_anything_is_written(size: int) -> None:
    with pytest.raises(UsageError, match="not a key") as refused:
        write(traffic_of_prompts([(1,)]), key=b"k" * size)
    assert "6b6b" not in str(refused.value)
    with pytest.raises(UsageError, match="block size"):
        write(traffic_of_prompts([(1,)]), key=KEY, block_tokens=0)


WHOLE = file_of(traffic_of_prompts([(1,) * 40, (1,) * 20 + (2,) * 9, (3,)], features=FEATURES))
LINES = WHOLE.splitlines(keepends=True)


def changed(place: int, old: bytes, new: bytes) -> bytes:
    assert old in LINES[place]
    return b"".join([*LINES[:place], LINES[place].replace(old, new, 1), *LINES[place + 1 :]])


@pytest.mark.parametrize("size", range(1, len(WHOLE) - 1, 7))
def test_a_fingerprint_cut_anywhere_is_refused(size: int) -> None:
    with pytest.raises(TrafficError) as refused:
        read_back(WHOLE[:size])
    assert refused.value.hint


@given(st.integers(0, len(WHOLE) - 2), st.integers(0, 255))
def test_a_byte_that_is_another_is_refused(place: int, byte: int) -> None:
    damaged = WHOLE[:place] + bytes([byte]) + WHOLE[place + 1 :]
    if damaged != WHOLE and byte not in b"\r\n":  # a line may end with CRLF, and blank lines are passed over
        with pytest.raises(TrafficError):
            read_traffic(damaged, where="f", format_name="fingerprint")


@pytest.mark.parametrize("pair", list(combinations(range(len(LINES)), 2)))
def test_lines_that_change_places_are_refused(pair: tuple[int, int]) -> None:
    lines = list(LINES)
    lines[pair[0]], lines[pair[1]] = lines[pair[1]], lines[pair[0]]
    with pytest.raises(TrafficError):
        read_traffic(b"".join(lines), where="f", format_name="fingerprint")


@pytest.mark.parametrize("place", range(len(LINES)))
def test_a_missing_line_is_refused(place: int) -> None:
    with pytest.raises(TrafficError):
        read_traffic(b"".join([*LINES[:place], *LINES[place + 1 :]]), where="f", format_name="fingerprint")


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        (changed(0, b'fingerprint":1', b'fingerprint":2'), "a version of the format that is not known", 1),
        (changed(0, b'"requests":3', b'"requests":"3"'), "wrong value for 'requests'", 1),
        (changed(0, b'"format":"made"', b'"format":"mode"'), "the fingerprint was changed", 9),
        (changed(2, b"[0,", b"[9,"), "a node before its parent", 3),
        (changed(2, b"16]", b"16000000001]"), "wrong value", 3),
        (changed(3, b"[2,", b"[2.5,"), "wrong value", 4),
        (changed(2, b",16]", b",17]"), "a node that follows a part of a block", 4),
        (changed(5, b",40,", b",41,"), "the fingerprint was changed", 9),
        (changed(5, b",40,", b",0,"), "wrong value", 6),
        (changed(5, b",null,4,", b",null,5,"), "a request at a node that is not there", 6),
        (changed(5, b",null,4,", b",null,null,"), "a request unlike the header", 6),
        (changed(6, b"]", b",1]"), "wrong value", 7),
        (changed(7, b"json_schema:", b"<b>"), "wrong value", 8),
        (WHOLE + LINES[5], "a line after the last", 10),
        (WHOLE + WHOLE, "a line after the last", 10),
        (b"".join(LINES[:-1]), "the fingerprint ends early", 8),
    ],
)
def test_damage_is_named_with_its_line(content: bytes, message: str, line: int) -> None:
    with pytest.raises(TrafficError) as refused:
        read_back(content)
    assert refused.value.message == message
    assert refused.value.where == f"fingerprint.jsonl:{line}"


def test_a_log_that_is_none_says_what_writes_one() -> None:
    with pytest.raises(TrafficError, match="not a fingerprint") as refused:
        read_traffic(b'{"timestamp": 0}\n', where="f", format_name="fingerprint")
    assert "unmoor profile LOG --fingerprint OUT" in str(refused.value)


def test_a_newer_version_says_so() -> None:
    with pytest.raises(TrafficError) as refused:
        read_back(changed(0, b'fingerprint":1', b'fingerprint":2'))
    assert refused.value.expected == "unmoor_fingerprint = 1; a newer Unmoor may have written it"
