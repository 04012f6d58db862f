from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.errors import TrafficError
from unmoor.core.evidence import Caveat
from unmoor.core.traffic import Segment
from unmoor.traffic.entry import Blocks, Content, Entry, Part, Prompt, Segments
from unmoor.traffic.log import UNKNOWN, Grain, Traffic
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.readers.asked_for import MOST_VALUES, REST, AskedFor
from unmoor.traffic.readers.chains import Chains
from unmoor.traffic.readers.collect import Collector, Told
from unmoor.traffic.readers.contract import Broken, Cut

TOLD = Told(source="s", format="f", fingerprint="p", grain=None, notes=(), skipped_lines=0, skipped=())


class ByCharacter:
    """A cutter whose symbols are single characters, hashed with all before them."""

    step = 1
    notes: Sequence[Caveat] = ()

    def __init__(self, by: Literal["tokens", "bytes"] = "bytes") -> None:
        self.by: Literal["tokens", "bytes"] = by
        self.batches: list[int] = []

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        self.batches.append(len(prompts))
        return [self._cut("".join(part.text for part in prompt.parts)) for prompt in prompts]

    def _cut(self, text: str) -> Cut:
        sums = [int.from_bytes(hashlib.sha256(text[: n + 1].encode()).digest()[:8], "big") for n in range(len(text))]
        return Cut(np.array(sums, dtype=np.uint64), np.arange(1, len(text) + 1))


def entry(content: Content = None, **told: Any) -> Entry:  # noqa: ANN401 - any field of an entry
    given = {"at_s": 0.0, "input_tokens": 5, "output_tokens": 1} | told
    return Entry(content=content, **given)


def said(text: str) -> Prompt:
    return Prompt(parts=(Part(role="user", text=text),))


def collected(entries: Iterable[Entry], cutter: ByCharacter | None = None, grain: Grain | None = None) -> Traffic:
    collector = Collector(cutter)
    for number, one in enumerate(entries, 1):
        collector.add(number, one)
    return collector.traffic(
        Told(source="s", format="f", fingerprint="p", grain=grain, notes=(), skipped_lines=0, skipped=())
    )


def shared(traffic: Traffic, one: int, other: int) -> int:
    """How many tokens the prompts of two requests share."""
    assert traffic.tree is not None
    common = set(traffic.tree.path(int(traffic.node[one]))) & set(traffic.tree.path(int(traffic.node[other])))
    return max((int(traffic.tree.end[node]) for node in common), default=0)


NAMES = st.sampled_from(["a", "b", "c"])
CHAINS = st.lists(st.tuples(NAMES, st.integers(1, 3)), min_size=1, max_size=5)


@given(st.lists(CHAINS, min_size=2, max_size=6))
def test_segments_share_exactly_as_far_as_names_and_tokens_are_equal(chains: list[list[tuple[str, int]]]) -> None:
    traffic = collected(
        (
            entry(Segments([Segment(*pair) for pair in chain]), input_tokens=sum(t for _, t in chain))
            for chain in chains
        ),
        grain=Grain(by="segments", tokens=1),
    )
    for one, chain in enumerate(chains):
        for other, second in enumerate(chains):
            common = 0
            for left, right in zip(chain, second, strict=False):
                if left != right:
                    break
                common += left[1]
            assert shared(traffic, one, other) == common


@given(st.lists(st.tuples(st.lists(st.integers(-3, 2**64), min_size=1, max_size=4), st.integers(1, 4)), max_size=6))
def test_blocks_are_equal_where_id_place_and_size_are(prompts: list[tuple[list[int], int]]) -> None:
    chains = Chains()
    for ids, last in prompts:
        chains.add_blocks(Blocks(ids=ids, block_tokens=4), 4 * (len(ids) - 1) + last, unlike_any=0)
    cuts = chains.cuts()
    known: dict[int, tuple[object, ...]] = {}
    for (ids, last), cut in zip(prompts, cuts, strict=True):
        assert cut.ends.tolist() == [*range(4, 4 * len(ids), 4), 4 * (len(ids) - 1) + last]
        for count, symbol in enumerate(cut.chain.tolist(), 1):
            prefix = (tuple(ids[:count]), last if count == len(ids) else 4)
            assert known.setdefault(symbol, prefix) == prefix
    assert len(chains) == 0


def test_many_requests_are_worked_on_in_batches_and_land_where_they_belong() -> None:
    cutter = ByCharacter()
    traffic = collected((entry(said(f"shared {n % 7}"), at_s=float(n)) for n in range(1000)), cutter)
    assert cutter.batches == [256, 256, 256, 232]
    assert traffic.node.tolist()[:7] == traffic.node.tolist()[7:14]
    assert len(set(traffic.node.tolist())) == 7


def test_tokens_are_bytes_over_a_ratio_that_the_log_itself_tells() -> None:
    told = [(said("x" * 100), 20), (said("x" * 100 + "y" * 80), None), (said("x" * 50), 10)]
    traffic = collected((entry(text, input_tokens=tokens) for text, tokens in told), ByCharacter())
    assert traffic.grain == Grain(by="bytes", tokens=1, bytes_per_token=5.0, ratio_measured=True)
    assert traffic.input_tokens.tolist() == [20, 36, 10]
    assert traffic.tree is not None
    assert traffic.tree.end[traffic.node].tolist() == [20, 36, 10]
    assert [caveat.code for caveat in traffic.caveats] == ["tokens_measured"]
    assert "5, measured on 2 requests" in traffic.caveats[0].text


def test_without_any_count_four_bytes_are_taken_for_a_token_and_a_caveat_says_so() -> None:
    traffic = collected([entry(said("x" * 40), input_tokens=None, output_tokens=None, answer_bytes=9)], ByCharacter())
    assert traffic.input_tokens.tolist() == [10]
    assert traffic.output_tokens.tolist() == [3]
    assert [caveat.code for caveat in traffic.caveats] == ["tokens_assumed"]


def test_a_tokenizers_own_count_stands_beside_the_sources() -> None:
    texts = [entry(said("abcdef"), input_tokens=9), entry(said("abc"), input_tokens=None)]
    traffic = collected(texts, ByCharacter("tokens"))
    assert traffic.grain == Grain(by="tokens", tokens=1)
    assert traffic.input_tokens.tolist() == [9, 3]
    assert traffic.tree is not None
    assert traffic.tree.end[traffic.node].tolist() == [6, 3]


def test_rounding_to_tokens_leaves_every_node_above_its_parent() -> None:
    texts = [said("x" * n + tail) for n in range(1, 40) for tail in ("", "a", "b")]
    traffic = collected((entry(text, input_tokens=None) for text in texts), ByCharacter())
    assert traffic.tree is not None
    assert (traffic.tree.end[1:] > traffic.tree.end[traffic.tree.parent[1:]]).all()


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (entry(), entry(at_s=None), "no time"),
        (entry(at_s=None), entry(at_s=3.0), "a time of another kind than the log's first requests"),
        (entry(said("a")), entry(Blocks([1], 16)), "a content of another kind than the log's first requests"),
        (entry(said("a")), entry(input_tokens=None), "no input length"),
        (entry(said("a")), entry(said("")), "an empty prompt"),
        (entry(), entry(input_tokens=None), "no input length"),
        (entry(), entry(input_tokens=0), "'input tokens' is out of range"),
        (entry(), entry(input_tokens=-3), "'input tokens' is out of range"),
        (entry(), entry(took_s=-0.5), "'time taken' is out of range"),
        (entry(), entry(took_s=float("nan")), "'time taken' is out of range"),
        (entry(), entry(output_tokens=-1), "'output tokens' is out of range"),
    ],
)
def test_a_request_that_contradicts_the_first_or_cannot_be_is_broken(first: Entry, second: Entry, message: str) -> None:
    collector = Collector(ByCharacter())
    collector.add(1, first)
    with pytest.raises(Broken) as caught:
        collector.add(2, second)
    assert caught.value.message == message
    assert len(collector.traffic(TOLD)) == 1


def test_one_request_is_a_log() -> None:
    traffic = collected(
        [entry(said("a"), session="s", tenant="t", adapter="l", schema="regex:1", took_s=2.0)], ByCharacter()
    )
    assert (traffic.duration_s, traffic.timed, len(traffic)) == (0.0, True, 1)
    assert [c.names for c in (traffic.session, traffic.tenant, traffic.adapter, traffic.schema)] == [
        ("s",),
        ("t",),
        ("l",),
        ("regex:1",),
    ]
    assert traffic.took_s.tolist() == [2.0]


def test_names_are_kept_once_and_follow_their_requests_when_these_are_sorted() -> None:
    traffic = collected(entry(at_s=at, session=name) for at, name in ((3.0, "b"), (1.0, None), (2.0, "b"), (2.5, "a")))
    assert traffic.session.names == ("b", "a")
    assert traffic.session.code.tolist() == [UNKNOWN, 0, 1, 0]
    assert traffic.line.tolist() == [2, 3, 4, 1]


def test_what_was_asked_for_is_counted_within_limits_and_shows_no_text() -> None:
    asked = AskedFor()
    for n in range(MOST_VALUES + 5):
        sampling = {"seed": n, "temperature": 0.7, "effort": "low", "stop": ["my secret"], "user": "my secret"}
        asked.count(entry(model="m", tools=("b", "a", "b"), sampling=sampling))
    features = asked.features
    assert features.sampling["seed"][REST] == 5
    assert len(features.sampling["seed"]) == MOST_VALUES + 1
    assert features.sampling["temperature"] == {"0.7": 55}
    assert features.sampling["effort"] == {'"low"': 55}
    assert features.sampling["stop"] == {"a list of 1": 55}
    assert features.sampling["user"] == {"a text": 55}
    assert features.tools == {"a": 55, "b": 55}
    assert (features.models, features.with_tools) == ({"m": 55}, 55)


GOOD = '{"timestamp": 0, "input_length": 600, "output_length": 7, "hash_ids": [0, 1]}'
BAD = GOOD.replace("600", "-3")


def log(good: int, bad: int) -> bytes:
    return "\n".join([*[BAD] * bad, *[GOOD] * good]).encode()


def test_broken_lines_are_counted_skipped_and_said() -> None:
    seen: list[int] = []
    traffic = read_traffic(log(90, 10), where="log", watch=lambda line, _: seen.append(line))
    assert (len(traffic), traffic.skipped_lines) == (90, 10)
    assert traffic.skipped[0] == "line 1: 'input_length' is out of range (seen -3)"
    assert len(traffic.skipped) == 5
    assert [caveat.code for caveat in traffic.caveats] == ["lines_skipped"]
    assert traffic.caveats[0].text.startswith("10 of 100 lines were broken and skipped; the first is line 1")
    assert seen == list(range(11, 101))


@pytest.mark.parametrize(
    ("good", "bad", "most"), [(90, 11, None), (5000, 60, None), (1, 1, 0), (90, 3, 2), (0, 1, None), (4, 5, None)]
)
def test_too_many_broken_lines_are_an_error_that_shows_the_first(good: int, bad: int, most: int | None) -> None:
    with pytest.raises(TrafficError) as caught:
        read_traffic(log(good, bad), where="log", most_broken=most, format_name="mooncake")
    assert caught.value.where == "log:1"
    assert caught.value.seen
    assert "-3" in caught.value.seen


@pytest.mark.parametrize(("good", "bad", "most"), [(5000, 50, None), (90, 3, 3), (1, 20, 20), (10, 10, None)])
def test_as_many_as_are_allowed_are_none(good: int, bad: int, most: int | None) -> None:
    traffic = read_traffic(log(good, bad), where="log", most_broken=most, format_name="mooncake")
    assert (len(traffic), traffic.skipped_lines) == (good, bad)


def test_a_log_of_nothing_but_broken_lines_is_given_up_before_its_end() -> None:
    stream = io.BytesIO(log(0, 100_000))
    with pytest.raises(TrafficError, match="too many broken lines"):
        read_traffic(stream, where="log", format_name="mooncake")
    assert stream.tell() < 3 * 1024 * 1024 < len(stream.getvalue())


def test_a_log_may_begin_in_the_middle_of_a_line() -> None:
    traffic = read_traffic(b'ngth": 600}\n' + log(3, 0), where="log")
    assert (traffic.format, len(traffic), traffic.skipped_lines) == ("mooncake", 3, 1)


def test_times_of_another_clock_in_the_same_log_are_broken() -> None:
    rows = [{"t": 1_764_590_400 + n} for n in range(20)] + [{"t": 1_764_590_400_000}]
    text = "timestamp,input_tokens,output_tokens\n" + "\n".join(f"{row['t']},5,1" for row in rows)
    traffic = read_traffic(text.encode(), where="log")
    assert traffic.skipped == ("line 22: 'arrival' contradicts the log's first time (seen milliseconds since 1970)",)
    assert json.dumps(traffic.caveats[1].code) == '"clock_unit"'
