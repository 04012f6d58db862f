"""The event simulation against a direct one that knows single blocks, and against pools without a clock."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmoor.traffic.log import UNKNOWN, Features, Grain, Names, Traffic
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.block_pool import BlockPool
from unmoor.traffic.reuse.curve import curve_of
from unmoor.traffic.reuse.timeline import Service, Timeline, simulate
from unmoor.traffic.tree import TreeBuilder

AT_ONCE = Service(prefill_tps=math.inf, tpot_s=0.0)
ROOM = 10**6


@dataclass(frozen=True)
class Ask:
    """One request: its prompt as tokens, and what is known of it."""

    prompt: tuple[int, ...]
    at_s: float = 0.0
    output: int = 0
    took_s: float = math.nan
    salt: int = 0


def traffic_of(asks: Sequence[Ask], *, timed: bool = True, content: bool = True, grain: int = 1) -> Traffic:
    """A log of requests told apart by tokens (or in blocks of `grain`), in the order given."""
    builder, symbols, nodes = TreeBuilder(), dict[tuple[int, ...], int](), []
    for ask in asks:
        ends = [*range(grain, len(ask.prompt), grain), len(ask.prompt)] if ask.prompt else []
        chain = [symbols.setdefault(ask.prompt[:end], len(symbols) + 1) for end in ends]
        nodes.append(builder.add(np.array(chain, dtype=np.uint64), np.array(ends, dtype=np.int64)))
    size, nobody = len(asks), Names(np.full(len(asks), UNKNOWN, dtype=np.int32))
    at_s = np.array([ask.at_s for ask in asks], dtype=np.float64)
    return Traffic(
        arrival_s=at_s - at_s[:1] if timed else np.full(size, np.nan),
        input_tokens=np.array([len(ask.prompt) for ask in asks], dtype=np.int64),
        output_tokens=np.array([ask.output for ask in asks], dtype=np.int64),
        took_s=np.array([ask.took_s for ask in asks], dtype=np.float64),
        node=np.array(nodes, dtype=np.int32) if content else np.full(size, UNKNOWN, dtype=np.int32),
        line=np.arange(1, size + 1, dtype=np.int64),
        session=nobody,
        tenant=nobody,
        adapter=nobody,
        schema=nobody,
        tree=builder.build() if content else None,
        grain=Grain(by="blocks" if grain > 1 else "tokens", tokens=grain) if content else None,
        features=Features(),
        source="test",
        format="test",
        fingerprint="",
    )


def blocks_of(ask: Ask, block: int, *, partial: bool) -> list[tuple[object, ...]]:
    """What the pool can share of a prompt: each full block by all up to its end, and a partial one by the whole."""
    blocks: list[tuple[object, ...]] = [
        (ask.salt, ask.prompt[:end]) for end in range(block, len(ask.prompt) + 1, block)
    ]
    if partial and len(ask.prompt) % block:
        blocks.append((ask.salt, ask.prompt, "ends here"))
    return blocks


def served(ask: Ask, blocks: int, block: int, *, partial: bool) -> int:
    """The tokens that leading blocks spare: an engine computes the last token in any case."""
    most = len(ask.prompt) if partial else max(len(ask.prompt) - 1, 0) // block * block
    return min(blocks * block, most)


@dataclass
class Oracle:
    """The model block by block, without runs, heaps or shared accounts: slow, and plain enough to be read."""

    capacity: int
    block: int
    service: Service
    partial: bool = False
    holders: dict[object, int] = field(default_factory=dict)
    ready_s: dict[object, float] = field(default_factory=dict)
    used_at: dict[object, int] = field(default_factory=dict)
    private: int = 0
    clock: int = 0
    running: list[tuple[float, int, Ask, int]] = field(default_factory=list)
    waiting: list[tuple[int, Ask]] = field(default_factory=list)
    hits: dict[int, int] = field(default_factory=dict)
    computing: int = 0
    waited_s: dict[int, float] = field(default_factory=dict)
    too_large: int = 0
    peak_held: int = 0

    def run(self, asks: Sequence[Ask]) -> None:
        for row, ask in enumerate(asks):
            self.pass_to(ask.at_s)
            if self.size(ask) > self.capacity:
                self.too_large += 1
            elif self.waiting or not self.admit(row, ask, ask.at_s):
                self.waiting.append((row, ask))
        self.pass_to(math.inf)
        assert not self.waiting

    def size(self, ask: Ask) -> int:
        return math.ceil((len(ask.prompt) + ask.output) / self.block)

    def held(self) -> int:
        return sum(1 for count in self.holders.values() if count) + self.private

    def pass_to(self, to_s: float) -> None:
        while self.running and (now_s := min(self.running)[0]) <= to_s:
            for ends in sorted(entry for entry in self.running if entry[0] == now_s):
                self.running.remove(ends)
                self.private -= ends[3]
                for key in reversed(blocks_of(ends[2], self.block, partial=self.partial)):
                    self.holders[key] -= 1
                    self.clock += 1
                    self.used_at[key] = self.clock
            while self.waiting and self.admit(*self.waiting[0], now_s):
                self.waiting.pop(0)

    def admit(self, row: int, ask: Ask, now_s: float) -> bool:
        keys = blocks_of(ask, self.block, partial=self.partial)
        there = [key for key in keys if key in self.holders]
        assert there == keys[: len(there)], "a block without those before it"
        done = next((i for i, key in enumerate(there) if self.ready_s[key] > now_s), len(there))
        private = self.size(ask) - len(keys) + len(there) - done
        mine = sum(1 for key in keys if not self.holders.get(key))
        if self.held() + mine + private > self.capacity:
            return False
        hit = served(ask, done, self.block, partial=self.partial)
        took_s = ask.took_s
        if math.isnan(took_s):
            took_s = (len(ask.prompt) - hit) / self.service.prefill_tps + ask.output * self.service.tpot_s
        for place, key in enumerate(keys):
            if key not in self.holders:
                end = min((place + 1) * self.block, len(ask.prompt))
                self.ready_s[key] = now_s + min((end - hit) / self.service.prefill_tps, took_s)
            self.holders[key] = self.holders.get(key, 0) + 1
        self.private += private
        while len(self.holders) + self.private > self.capacity:
            idle = [key for key, count in self.holders.items() if not count]
            del self.holders[min(idle, key=self.used_at.__getitem__)]
        self.peak_held = max(self.peak_held, self.held())
        self.hits[row] = hit
        self.computing += served(ask, len(there), self.block, partial=self.partial) - hit
        self.waited_s[row] = now_s - ask.at_s
        self.running.append((now_s + took_s, row, ask, private))
        return True


@st.composite
def logs(draw: st.DrawFn, *, salts: int = 1, outputs: int = 5) -> list[Ask]:
    """A few requests with much in common; all times are whole quarters, so that every sum is exact."""
    prompt = st.builds(
        lambda first, shared, own: (first,) * shared + tuple(own),
        st.sampled_from([0, 0, 1]),
        st.integers(0, 12),
        st.lists(st.integers(2, 3), max_size=4),
    )
    asks, at_s = [], 0.0
    for _ in range(draw(st.integers(1, 12))):
        asks.append(
            Ask(
                prompt=draw(prompt),
                at_s=at_s,
                output=draw(st.integers(0, outputs)),
                took_s=draw(st.sampled_from([math.nan, math.nan, math.nan, 0.0, 0.5, 9.0])),
                salt=draw(st.integers(0, salts - 1)),
            )
        )
        at_s += draw(st.sampled_from([0.0, 0.25, 1.0, 4.0]))
    return asks


services = st.builds(
    Service, prefill_tps=st.sampled_from([0.5, 1.0, 2.0, 4.0, math.inf]), tpot_s=st.sampled_from([0.0, 0.25, 1.0])
)


def ideal(asks: Sequence[Ask], block: int, *, partial: bool = False) -> int:
    """The tokens that a cache without a limit would serve: by looking at all earlier prompts."""
    seen: set[object] = set()
    total = 0
    for ask in asks:
        keys = blocks_of(ask, block, partial=partial)
        known = next((i for i, key in enumerate(keys) if key not in seen), len(keys))
        total += served(ask, known, block, partial=partial)
        seen.update(keys)
    return total


@settings(max_examples=300)
@given(asks=logs(salts=2), block=st.integers(1, 4), capacity=st.integers(0, 30), service=services)
def test_runs_of_blocks_do_what_single_blocks_would(
    asks: list[Ask], block: int, capacity: int, service: Service
) -> None:
    oracle = Oracle(capacity=capacity, block=block, service=service)
    oracle.run(asks)
    salt = np.array([ask.salt for ask in asks])
    seen = simulate(traffic_of(asks), kv_tokens=capacity * block, block_tokens=block, service=service, salt=salt)
    waits = oracle.waited_s.values()
    assert (seen.hit_tokens, seen.too_large) == (sum(oracle.hits.values()), oracle.too_large)
    assert seen.waited == sum(wait > 0 for wait in waits)
    assert seen.longest_wait_s == (max(waits) if waits else None)
    assert seen.peak_pinned_tokens == oracle.peak_held * block
    if seen.prompt_tokens:
        assert seen.still_computing == oracle.computing / seen.prompt_tokens


@settings(max_examples=200)
@given(asks=logs(), block=st.integers(2, 4), capacity=st.integers(0, 30), service=services)
def test_a_block_trace_in_its_own_blocks_shares_partial_ones_too(
    asks: list[Ask], block: int, capacity: int, service: Service
) -> None:
    oracle = Oracle(capacity=capacity, block=block, service=service, partial=True)
    oracle.run(asks)
    seen = simulate(traffic_of(asks, grain=block), kv_tokens=capacity * block, block_tokens=None, service=service)
    assert (seen.block_tokens, seen.hit_tokens) == (block, sum(oracle.hits.values()))
    assert seen.peak_pinned_tokens == oracle.peak_held * block


def sequential_lru(asks: Sequence[Ask], block: int, capacity: int) -> int:
    """One request after another; each touches its blocks from the last to the first. The tokens served."""
    pool: OrderedDict[object, None] = OrderedDict()
    total = 0
    for ask in asks:
        keys = blocks_of(ask, block, partial=False)
        known = next((i for i, key in enumerate(keys) if key not in pool), len(keys))
        total += served(ask, known, block, partial=False)
        for key in reversed(keys):
            pool[key] = None
            pool.move_to_end(key)
        while len(pool) > capacity:
            pool.popitem(last=False)
    return total


@given(asks=logs(outputs=0), block=st.integers(1, 4), data=st.data())
def test_where_nothing_takes_time_it_is_the_sequential_pool_at_every_capacity(
    asks: list[Ask], block: int, data: st.DataObject
) -> None:
    # A partial block takes room while its request runs, which the sequential pool knows nothing of: whole ones only.
    whole = [Ask(prompt=a.prompt[: len(a.prompt) // block * block], at_s=a.at_s) for a in asks]
    capacity = data.draw(st.integers(max(len(a.prompt) for a in whole) // block, 60))
    traffic = traffic_of(whole)
    seen = simulate(traffic, kv_tokens=capacity * block, block_tokens=block, service=AT_ONCE)
    assert seen.hit_tokens == sequential_lru(whole, block, capacity)
    curve = curve_of(traffic, block_tokens=block)
    assert curve is not None
    assert seen.hit_tokens == curve.hit_tokens_at(capacity * block)
    assert (seen.too_large, seen.waited, seen.still_computing or 0.0) == (0, 0, 0.0)


@given(asks=logs(), block=st.integers(1, 4))
def test_with_room_for_all_and_no_time_taken_it_is_the_ideal(asks: list[Ask], block: int) -> None:
    instant = [Ask(prompt=a.prompt, at_s=a.at_s, output=a.output) for a in asks]
    seen = simulate(traffic_of(instant), kv_tokens=ROOM, block_tokens=block, service=AT_ONCE)
    assert seen.hit_tokens == ideal(instant, block)


@given(asks=logs(), block=st.integers(1, 4), capacity=st.integers(0, 40), service=services)
def test_it_never_exceeds_the_ideal_and_what_is_lost_to_computing_stays_within_it(
    asks: list[Ask], block: int, capacity: int, service: Service
) -> None:
    seen = simulate(traffic_of(asks), kv_tokens=capacity * block, block_tokens=block, service=service)
    most = ideal(asks, block)
    assert seen.hit_tokens is not None
    assert seen.hit_tokens <= most
    assert seen.hit_tokens + round((seen.still_computing or 0.0) * seen.prompt_tokens) <= most
    assert seen.peak_pinned_tokens <= capacity * block


@given(asks=logs(), count=st.integers(1, 5), service=services)
def test_windows_add_up_to_the_whole(asks: list[Ask], count: int, service: Service) -> None:
    seen = simulate(traffic_of(asks), kv_tokens=64, block_tokens=2, service=service, windows=count)
    if asks[0].at_s == asks[-1].at_s:
        assert seen.windows == ()
        assert seen.mean_running is None
        return
    assert sum(w.requests for w in seen.windows) == seen.requests
    assert sum(w.prompt_tokens for w in seen.windows) == seen.prompt_tokens
    assert sum(round((w.hit_rate or 0.0) * w.prompt_tokens) for w in seen.windows) == seen.hit_tokens
    assert seen.mean_running is not None
    assert np.mean([w.mean_running for w in seen.windows]) == pytest.approx(seen.mean_running)
    assert seen.peak_running is not None
    assert max(w.peak_running for w in seen.windows) <= seen.peak_running
    assert all(w.mean_running <= w.peak_running + 1e-9 for w in seen.windows)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=40), st.integers(0, 12))
def test_a_pool_never_overflows_and_keeps_every_prefix(steps: list[tuple[int, int, bool]], capacity: int) -> None:
    # Prompts are paths 0, 0-1, 0-1-2, 0-1-2-3 of runs with sizes 2, 3, 1, 2 under four first tokens.
    pool, held = BlockPool(capacity), list[tuple[list[int], int]]()
    for branch, depth, lets_go in steps:
        runs, sizes = [10 * branch + d for d in range(depth + 1)], [2, 3, 1, 2][: depth + 1]
        if lets_go and held:
            pool.release(*held.pop(0))
        elif pool.hold(runs, sizes, branch):
            held.append((runs, branch))
        assert pool.used <= capacity
        assert pool.used == sum(pool.resident.values()) + sum(private for _, private in held)
        assert all(pool.resident.values())
        for run in pool.resident:
            above = run - 1
            assert run % 10 == 0 or pool.resident.get(above) == [2, 3, 1, 2][above % 10]


def at(asks: Sequence[Ask], service: Service, *, kv_tokens: int = ROOM, block_tokens: int = 4) -> Timeline:
    return simulate(traffic_of(asks), kv_tokens=kv_tokens, block_tokens=block_tokens, service=service)


SIXTEEN = tuple(range(16))


@pytest.mark.parametrize(
    ("later_s", "hit", "lost"), [(0.0, 0, 12), (2.0, 0, 12), (4.0, 4, 8), (11.0, 8, 4), (99.0, 12, 0)]
)
def test_a_prefix_that_is_still_being_computed_is_a_hit_as_far_as_it_has_come(
    later_s: float, hit: int, lost: int
) -> None:
    asks = [Ask(SIXTEEN, output=50), Ask(SIXTEEN, at_s=later_s, output=50)]
    seen = at(asks, Service(prefill_tps=1.0, tpot_s=1.0))
    assert seen.hit_tokens == hit
    assert seen.still_computing == lost / 32


@pytest.mark.parametrize(("later_s", "hit"), [(5.0, 12), (8.0, 16), (9.0, 16), (10.0, 18)])
def test_what_follows_a_hit_is_computed_from_there_on_and_a_partial_block_when_its_last_token_is(
    later_s: float, hit: int
) -> None:
    # In blocks of 4: 8 of 18 tokens are cached, the other 10 take 10 s.
    prompt = (*SIXTEEN[:8], *range(20, 30))
    asks = [Ask(SIXTEEN[:8], took_s=0.0), Ask(prompt, output=50), Ask(prompt, at_s=later_s, output=50)]
    slow = Service(prefill_tps=1.0, tpot_s=1.0)
    seen = simulate(traffic_of(asks, grain=4), kv_tokens=ROOM, block_tokens=None, service=slow)
    assert seen.hit_tokens == 8 + hit


def test_what_comes_after_a_block_that_is_being_computed_is_no_hit_however_ready_it_is() -> None:
    # The second request's log says it took no time, so its own blocks are there before those that they continue.
    longer = (*SIXTEEN, *range(20, 28))
    asks = [Ask(SIXTEEN, took_s=50.0), Ask(longer, at_s=1.0, took_s=0.0), Ask((*longer, 1), at_s=2.0, took_s=1.0)]
    seen = at(asks, Service(prefill_tps=1.0, tpot_s=0.0))
    assert (seen.hit_tokens, seen.still_computing) == (0, (16 + 24) / 65)


def test_a_request_that_ended_by_its_log_has_computed_its_prompt_however_slow_the_service() -> None:
    # Both that wait start when the first ends, and the earlier of them ends at that moment too.
    asks = [Ask((0,), output=2), Ask((0, 0), took_s=0.0), Ask((0, 0), output=1)]
    seen = at(asks, Service(prefill_tps=0.5, tpot_s=0.0), kv_tokens=4, block_tokens=1)
    assert (seen.waited, seen.hit_tokens, seen.still_computing, seen.peak_pinned_tokens) == (2, 2, 0.0, 3)


def test_a_copy_of_what_another_computes_takes_room_of_its_own() -> None:
    asks = [Ask(SIXTEEN, output=4), Ask(SIXTEEN, output=4)]
    assert at(asks, Service(prefill_tps=1.0, tpot_s=1.0)).peak_pinned_tokens == 2 * 20
    later = [asks[0], Ask(SIXTEEN, at_s=16.0, output=4)]
    assert at(later, Service(prefill_tps=1.0, tpot_s=1.0)).peak_pinned_tokens == 16 + 2 * 4


def test_running_requests_occupy_what_others_would_have_found() -> None:
    # The first prompt is cached; a long-running stranger of 12 tokens takes all but one of the pool's blocks.
    asks = [
        Ask((1, 1, 1, 1, 2, 2, 2, 2)),
        Ask((3,) * 12, at_s=1.0, took_s=9.0),
        Ask((1, 1, 1, 1, 2, 2, 2, 2), at_s=2.0),
    ]
    seen = at([*asks[:2], Ask((1, 1, 1, 1), at_s=2.0)], AT_ONCE, kv_tokens=16)
    assert (seen.hit_tokens, seen.waited) == (0, 0)  # its last token is computed in any case: no whole block is left
    seen = at([*asks[:2], Ask((1, 1, 1, 1, 5), at_s=2.0)], AT_ONCE, kv_tokens=20)
    assert (seen.hit_tokens, seen.waited) == (4, 0)
    seen = at(asks, AT_ONCE, kv_tokens=16)
    assert (seen.waited, seen.longest_wait_s, seen.hit_tokens) == (1, 8.0, 4)


def test_requests_wait_in_order_of_arrival_even_where_a_later_one_would_fit() -> None:
    asks = [
        Ask((1,) * 12, took_s=10.0),
        Ask((2,) * 8, at_s=1.0, took_s=1.0),
        Ask((3,) * 4, at_s=2.0, took_s=1.0),
    ]
    seen = at(asks, AT_ONCE, kv_tokens=16)
    assert (seen.waited, seen.longest_wait_s) == (2, 9.0)
    assert seen.mean_wait_s == pytest.approx((9.0 + 8.0) / 3)
    assert seen.peak_running == 2


def test_a_request_larger_than_the_pool_never_runs_and_is_a_miss() -> None:
    asks = [Ask(SIXTEEN), Ask(SIXTEEN, at_s=1.0, output=1), Ask(SIXTEEN, at_s=2.0)]
    seen = at(asks, AT_ONCE, kv_tokens=16)
    assert (seen.too_large, seen.too_large_tokens, seen.waited) == (1, 16, 0)
    assert seen.hit_rate == 12 / 48


def test_the_log_s_own_durations_come_before_what_the_service_would_take() -> None:
    asks = [Ask((1, 2, 3, 4), took_s=3.0), Ask((5, 6, 7, 8), at_s=6.0, output=2)]
    seen = at(asks, Service(prefill_tps=1.0, tpot_s=0.5))
    assert (seen.peak_running, seen.mean_running) == (1, 0.5)


def test_of_equal_arrivals_the_first_in_the_log_goes_first() -> None:
    # The pool holds three blocks: of the first of the log only its first block remains.
    asks = [Ask((1,) * 8), Ask((2,) * 8), Ask((2,) * 9, at_s=1.0)]
    assert at(asks, AT_ONCE, kv_tokens=12).hit_tokens == 8
    assert at([asks[1], asks[0], asks[2]], AT_ONCE, kv_tokens=12).hit_tokens == 4


def test_the_end_of_a_prompt_is_evicted_block_by_block_within_one_edge() -> None:
    asks = [Ask((1,) * 16), Ask((2,) * 4, at_s=1.0), Ask((1,) * 16, at_s=2.0)]
    assert at(asks, AT_ONCE, kv_tokens=20).hit_tokens == 12
    assert at(asks, AT_ONCE, kv_tokens=16).hit_tokens == 12
    asks[1] = Ask((2,) * 12, at_s=1.0)
    assert at(asks, AT_ONCE, kv_tokens=16).hit_tokens == 4


def test_a_log_without_times_is_one_request_after_another_and_has_no_clock() -> None:
    asks = [Ask(SIXTEEN, took_s=99.0), Ask(SIXTEEN, took_s=99.0)]
    slow = Service(prefill_tps=1.0, tpot_s=1.0)
    seen = simulate(traffic_of(asks, timed=False), kv_tokens=16, block_tokens=4, service=slow)
    assert (seen.hit_tokens, seen.hit_rate) == (12, 12 / 32)
    assert seen.windows == ()
    clocked = (seen.still_computing, seen.waited, seen.mean_wait_s, seen.longest_wait_s)
    assert clocked == (None, None, None, None)
    assert (seen.peak_running, seen.mean_running) == (None, None)


def test_without_content_requests_occupy_the_pool_but_nothing_is_a_hit() -> None:
    asks = [Ask(SIXTEEN, took_s=4.0), Ask(SIXTEEN, at_s=2.0, took_s=4.0)]
    seen = simulate(traffic_of(asks, content=False), kv_tokens=ROOM, block_tokens=4, service=AT_ONCE)
    assert (seen.hit_tokens, seen.hit_rate, seen.still_computing) == (None, None, None)
    assert (seen.prompt_tokens, seen.peak_running, seen.peak_pinned_tokens) == (32, 2, 32)
    assert all(window.hit_rate is None for window in seen.windows)


def test_blocks_finer_than_the_log_tells_content_apart_become_the_log_s_own() -> None:
    asks = [Ask(SIXTEEN), Ask(SIXTEEN, at_s=1.0)]
    seen = simulate(traffic_of(asks, grain=8), kv_tokens=ROOM, block_tokens=4, service=AT_ONCE)
    assert (seen.block_tokens, seen.hit_tokens) == (8, 16)
    assert [caveat.code for caveat in seen.caveats] == ["timeline_blocks_coarse"]


def test_prompts_without_a_token_and_a_log_without_a_request_are_no_trouble() -> None:
    seen = at([Ask(()), Ask((), at_s=1.0)], AT_ONCE)
    assert (seen.prompt_tokens, seen.hit_rate, seen.peak_running) == (0, None, 1)
    empty = at([], AT_ONCE)
    assert (empty.requests, empty.hit_rate, empty.windows, empty.mean_wait_s) == (0, None, (), None)


@pytest.mark.trace
def test_the_real_mooncake_trace_has_the_known_rates_where_nothing_takes_time(mooncake_trace: Path) -> None:
    traffic = read_traffic(mooncake_trace.read_bytes(), where="mooncake")
    known = {500_000: 0.045, 1_300_000: 0.061, 3_000_000: 0.139, 10_000_000: 0.291, 30_000_000: 0.366}
    for kv_tokens, share in known.items():
        instant = simulate(traffic, kv_tokens=kv_tokens, block_tokens=None, service=AT_ONCE)
        assert instant.hit_rate == pytest.approx(share, abs=0.0005)
    slow = simulate(traffic, kv_tokens=500_000, block_tokens=None, service=Service(prefill_tps=2000.0, tpot_s=0.05))
    assert slow.waited is not None
    assert slow.waited > 10_000
    assert slow.peak_pinned_tokens <= 500_000
