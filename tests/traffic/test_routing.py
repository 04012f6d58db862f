from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmoor.traffic.log import UNKNOWN, Features, Grain, Names, Traffic
from unmoor.traffic.reuse import routing
from unmoor.traffic.reuse.curve import curve_of
from unmoor.traffic.reuse.routing import ROUTINGS, ReplicaHits, Routing, deal, replica_hits
from unmoor.traffic.reuse.timeline import Service
from unmoor.traffic.tree import TreeBuilder

SERVICE = Service(prefill_tps=1.0, tpot_s=1.0)
ROOM = 10**6


@dataclass(frozen=True)
class Ask:
    """One request: its prompt as tokens, and what is known of it."""

    prompt: tuple[int, ...]
    at_s: float = 0.0
    took_s: float = math.nan
    session: str | None = None
    salt: int = 0


def traffic_of(asks: Sequence[Ask], *, timed: bool = True, content: bool = True) -> Traffic:
    """A log of requests told apart by tokens, in the order given."""
    builder, symbols, nodes = TreeBuilder(), dict[tuple[int, ...], int](), []
    for ask in asks:
        ends = range(1, len(ask.prompt) + 1)
        chain = [symbols.setdefault(ask.prompt[:end], len(symbols) + 1) for end in ends]
        nodes.append(builder.add(np.array(chain, dtype=np.uint64), np.array(ends, dtype=np.int64)))
    size, names = len(asks), tuple(dict.fromkeys(ask.session for ask in asks if ask.session is not None))
    nobody = Names(np.full(size, UNKNOWN, dtype=np.int32))
    code = [UNKNOWN if ask.session is None else names.index(ask.session) for ask in asks]
    return Traffic(
        arrival_s=np.array([ask.at_s if timed else math.nan for ask in asks], dtype=np.float64),
        input_tokens=np.array([len(ask.prompt) for ask in asks], dtype=np.int64),
        output_tokens=np.full(size, UNKNOWN, dtype=np.int64),
        took_s=np.array([ask.took_s for ask in asks], dtype=np.float64),
        node=np.array(nodes, dtype=np.int32) if content else np.full(size, UNKNOWN, dtype=np.int32),
        line=np.arange(1, size + 1, dtype=np.int64),
        session=Names(np.array(code, dtype=np.int32), names),
        tenant=nobody,
        adapter=nobody,
        schema=nobody,
        tree=builder.build() if content else None,
        grain=Grain(by="tokens", tokens=1) if content else None,
        features=Features(),
        source="test",
        format="test",
        fingerprint="",
    )


def lru_matches(asks: Sequence[Ask], block: int, capacity: int) -> list[int]:
    """The tokens of each request's cached blocks in one pool, one request after another: by single blocks."""
    pool: OrderedDict[object, None] = OrderedDict()
    matches = []
    for ask in asks:
        keys = [(ask.salt, ask.prompt[:end]) for end in range(block, len(ask.prompt) + 1, block)]
        known = next((i for i, key in enumerate(keys) if key not in pool), len(keys))
        matches.append(known * block)
        for key in reversed(keys):
            pool[key] = None
            pool.move_to_end(key)
        while len(pool) > capacity:
            pool.popitem(last=False)
    return matches


def lru_hits(asks: Sequence[Ask], block: int, capacity: int) -> int:
    """The tokens that one pool serves: of each request, what is cached but for the last token's block."""
    matches = lru_matches(asks, block, capacity)
    return sum(
        min(match, max(len(ask.prompt) - 1, 0) // block * block) for match, ask in zip(matches, asks, strict=True)
    )


@st.composite
def logs(draw: st.DrawFn) -> list[Ask]:
    asks, at_s = [], 0.0
    for _ in range(draw(st.integers(1, 14))):
        asks.append(
            Ask(
                prompt=(draw(st.sampled_from([0, 0, 1])),) * draw(st.integers(0, 12))
                + tuple(draw(st.lists(st.integers(2, 3), max_size=3))),
                at_s=at_s,
                took_s=draw(st.sampled_from([math.nan, 0.0, 2.0, 30.0])),
                session=draw(st.sampled_from([None, "a", "b", "c", "d"])),
                salt=draw(st.integers(0, 1)),
            )
        )
        at_s += draw(st.sampled_from([0.0, 1.0, 8.0]))
    return asks


def salt_of(asks: Sequence[Ask]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([ask.salt for ask in asks], dtype=np.int64)


routings = st.sampled_from(ROUTINGS)


@given(asks=logs(), routing=routings, block=st.integers(1, 4), capacity=st.integers(0, 20))
def test_one_replica_is_the_single_pool_under_every_routing(
    asks: list[Ask], routing: Routing, block: int, capacity: int
) -> None:
    traffic = traffic_of(asks)
    seen = replica_hits(
        traffic, replicas=1, routing=routing, kv_tokens=capacity * block, block_tokens=block, service=SERVICE
    )
    curve = curve_of(traffic, block_tokens=block)
    assert curve is not None
    total = sum(len(ask.prompt) for ask in asks)
    assert seen.hit_rate == (curve.at(capacity * block) if total else None)
    assert seen.requests_share == (1.0,)
    assert seen.requests_imbalance == 1.0


@given(asks=logs(), routing=routings, block=st.integers(1, 4), capacity=st.integers(0, 20), replicas=st.integers(1, 4))
def test_each_replica_serves_what_a_pool_of_its_own_serves_of_the_requests_dealt_to_it(
    asks: list[Ask], routing: Routing, block: int, capacity: int, replicas: int
) -> None:
    traffic, salt, kv_tokens = traffic_of(asks), salt_of(asks), capacity * block
    dealt = deal(
        traffic,
        replicas=replicas,
        routing=routing,
        kv_tokens=kv_tokens,
        block_tokens=block,
        service=SERVICE,
        salt=salt,
    ).tolist()
    seen = replica_hits(
        traffic,
        replicas=replicas,
        routing=routing,
        kv_tokens=kv_tokens,
        block_tokens=block,
        service=SERVICE,
        salt=salt,
    )
    mine = [[a for a, at in zip(asks, dealt, strict=True) if at == r] for r in range(replicas)]
    total = sum(len(ask.prompt) for ask in asks)
    if total:
        assert seen.hit_rate is not None
        assert seen.hit_rate.value == sum(lru_hits(own, block, capacity) for own in mine) / total
        tokens = [sum(len(ask.prompt) for ask in own) for own in mine]
        assert seen.tokens_share == pytest.approx([t / total for t in tokens])
        assert seen.tokens_imbalance == pytest.approx(max(tokens) * replicas / total)
        computed = [count - lru_hits(own, block, capacity) for count, own in zip(tokens, mine, strict=True)]
        assert seen.computed_imbalance == pytest.approx(max(computed) * replicas / sum(computed))
    assert seen.requests_share == pytest.approx([len(own) / len(asks) for own in mine])


@settings(max_examples=300)
@given(asks=logs(), block=st.integers(1, 4), capacity=st.integers(0, 20), replicas=st.integers(1, 4))
def test_prefix_aware_takes_the_longest_cached_prefix_or_else_the_least_loaded(
    asks: list[Ask], block: int, capacity: int, replicas: int
) -> None:
    dealt = deal(
        traffic_of(asks),
        replicas=replicas,
        routing="prefix-aware",
        kv_tokens=capacity * block,
        block_tokens=block,
        service=SERVICE,
        salt=salt_of(asks),
    ).tolist()
    for row, ask in enumerate(asks):
        earlier = list(zip(asks[:row], dealt, strict=False))
        mine = [[a for a, at in earlier if at == r] for r in range(replicas)]
        cached = [lru_matches([*before, ask], block, capacity)[-1] for before in mine]
        busy = [sum(a.at_s + lasts(a) > ask.at_s for a in before) for before in mine]
        if max(cached) > routing.CACHE_THRESHOLD * len(ask.prompt):
            assert cached[dealt[row]] == max(cached)
            assert busy[dealt[row]] == min(b for b, c in zip(busy, cached, strict=True) if c == max(cached))
        else:
            assert busy[dealt[row]] == min(busy)


def lasts(ask: Ask) -> float:
    return len(ask.prompt) / SERVICE.prefill_tps if math.isnan(ask.took_s) else ask.took_s


@given(asks=logs(), replicas=st.integers(1, 4))
def test_least_loaded_takes_a_replica_with_the_fewest_running(asks: list[Ask], replicas: int) -> None:
    dealt = dealt_of(asks, "least-loaded", replicas)
    for row, ask in enumerate(asks):
        earlier = list(zip(asks[:row], dealt, strict=False))
        busy = [sum(at == r and a.at_s + lasts(a) > ask.at_s for a, at in earlier) for r in range(replicas)]
        assert busy[dealt[row]] == min(busy)


def dealt_of(asks: Sequence[Ask], way: Routing, replicas: int, *, timed: bool = True) -> list[int]:
    traffic = traffic_of(asks, timed=timed)
    dealt: list[int] = deal(
        traffic, replicas=replicas, routing=way, kv_tokens=ROOM, block_tokens=1, service=SERVICE
    ).tolist()
    return dealt


def hits_of(asks: Sequence[Ask], way: Routing, replicas: int, **known: bool) -> ReplicaHits:
    return replica_hits(
        traffic_of(asks, **known), replicas=replicas, routing=way, kv_tokens=ROOM, block_tokens=1, service=SERVICE
    )


@given(asks=logs(), replicas=st.integers(1, 5))
def test_round_robin_deals_in_turn(asks: list[Ask], replicas: int) -> None:
    assert dealt_of(asks, "round-robin", replicas) == [row % replicas for row in range(len(asks))]


@given(asks=logs(), replicas=st.integers(1, 5))
def test_a_session_stays_where_its_number_hashes_to_and_the_rest_are_dealt_in_turn(
    asks: list[Ask], replicas: int
) -> None:
    dealt, others, numbers = dealt_of(asks, "session-sticky", replicas), 0, dict[str, int]()
    for ask, replica in zip(asks, dealt, strict=True):
        if ask.session is None:
            assert replica == others % replicas
            others += 1
        else:
            number = numbers.setdefault(ask.session, len(numbers))
            digest = hashlib.blake2b(str(number).encode(), digest_size=8).digest()
            assert replica == int.from_bytes(digest, "big") % replicas


def test_equals_in_load_take_turns() -> None:
    asks = [Ask((1,), at_s=10.0 * i) for i in range(5)]
    assert dealt_of(asks, "least-loaded", 3) == [0, 1, 2, 0, 1]


def test_a_replica_with_a_long_request_gets_no_more_until_others_have_as_many() -> None:
    asks = [Ask((1,), took_s=99.0), *(Ask((1,), at_s=1.0 + i, took_s=3.0) for i in range(4))]
    assert dealt_of(asks, "least-loaded", 2) == [0, 1, 0, 1, 1]


def test_a_prefix_gives_way_when_the_loads_are_out_of_balance() -> None:
    hot = (1, 2, 3, 4)
    asks = [Ask(hot, at_s=float(i), took_s=1e6) for i in range(routing.BALANCE_ABS + 4)]
    dealt = dealt_of(asks, "prefix-aware", 2)
    assert dealt[: routing.BALANCE_ABS + 1] == [0] * (routing.BALANCE_ABS + 1)
    # 65 to 0 is out of balance; the other replica takes one, knows the prefix from then on, and is the less loaded.
    assert dealt[routing.BALANCE_ABS + 1 :] == [1, 1, 1]


def test_a_difference_that_is_small_for_the_load_leaves_prefixes_alone() -> None:
    strangers = [Ask((100 + i, 1), took_s=1e6) for i in range(272)]
    dealt = dealt_of([*strangers, *[Ask((1, 2, 3), took_s=1e6)] * 80], "prefix-aware", 2)
    assert dealt[:272] == [0, 1] * 136
    # To 136 running there may be up to 204 besides: more than 64 apart, and no more than half again as many.
    assert dealt[272:].index(1) == 204 + 1 - 136


def test_a_short_match_is_not_worth_following() -> None:
    system, own = (1, 1, 1), 10
    asks = [Ask((*system, *[own + i] * 7), at_s=float(i), took_s=1e6) for i in range(4)]
    assert dealt_of(asks, "prefix-aware", 2) == [0, 1, 0, 1]  # 3 of 10 tokens are not more than 0.3
    longer = [Ask((*system, 1, *[own + i] * 6), at_s=float(i), took_s=1e6) for i in range(4)]
    assert dealt_of(longer, "prefix-aware", 2) == [0, 0, 0, 0]


def test_prefix_awareness_buys_hits_and_costs_balance() -> None:
    # Three long prompts in turn over two replicas: in turn each replica computes all three, by prefix each but once.
    asks = [Ask((i % 3,) * 40, at_s=100.0 * i) for i in range(12)]
    turns, aware = hits_of(asks, "round-robin", 2), hits_of(asks, "prefix-aware", 2)
    assert turns.hit_rate is not None
    assert aware.hit_rate is not None
    assert (turns.hit_rate.value, aware.hit_rate.value) == (6 * 39 / 480, 9 * 39 / 480)
    assert turns.requests_imbalance == 1.0
    assert aware.requests_imbalance == pytest.approx(8 / 6)


@pytest.mark.parametrize("way", ROUTINGS)
def test_without_content_there_are_shares_and_no_hit_rate(way: Routing) -> None:
    seen = hits_of([Ask((1, 2)), Ask((1, 2, 3))], way, 2, content=False)
    assert seen.hit_rate is None
    assert sum(seen.tokens_share) == pytest.approx(1.0)


@pytest.mark.parametrize("way", ROUTINGS)
def test_a_log_without_times_has_no_loads_and_says_so(way: Routing) -> None:
    asks = [Ask((i, i)) for i in range(4)]
    assert dealt_of([Ask(a.prompt) for a in asks], way, 2, timed=False) == [0, 1, 0, 1]
    codes = [caveat.code for caveat in hits_of(asks, way, 2, timed=False).caveats]
    assert ("routing_without_load" in codes) == (way in {"least-loaded", "prefix-aware"})


@pytest.mark.parametrize("way", ROUTINGS)
def test_an_empty_log_has_nothing_to_share(way: Routing) -> None:
    seen = hits_of([], way, 3)
    assert (seen.hit_rate, seen.requests_imbalance, seen.tokens_imbalance) == (None, None, None)
    assert seen.requests_share == (0.0, 0.0, 0.0)


def test_requests_without_a_session_are_said() -> None:
    seen = hits_of([Ask((1,), session="a"), Ask((1,))], "session-sticky", 2)
    assert [(caveat.code, caveat.text[:6]) for caveat in seen.caveats] == [("routing_without_session", "1 of 2")]
    assert hits_of([Ask((1,), session="a")], "session-sticky", 2).caveats == ()


def test_assumed_durations_are_said_where_loads_rest_on_them() -> None:
    assert [c.code for c in hits_of([Ask((1,))], "least-loaded", 2).caveats] == ["routing_load_assumed"]
    assert hits_of([Ask((1,), took_s=1.0)], "least-loaded", 2).caveats == ()
