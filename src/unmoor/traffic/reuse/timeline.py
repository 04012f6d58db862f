"""Prefix reuse over time: what one replica's KV pool serves while running requests occupy it.

The model, and where engines differ from it (read in the sources of vLLM 0.32, SGLang and TensorRT-LLM, 2026-12):

- A block can be shared once it is computed. vLLM offers a full block from the step that computes it, chunk by chunk of
  a prefill; SGLang inserts a prompt into its tree after each chunk; TensorRT-LLM stores the blocks of a prompt when its
  whole prefill is done. Here a prefill advances evenly at `prefill_tps` from its request's start and offers each block
  as its last token is done: the limit of small chunks, between which vLLM and SGLang lie; TensorRT-LLM shares later.
- Each prefill has that speed, whatever else runs. An engine that is short of compute queues prefills and matches a
  prompt when its turn comes, so it loses less to "still being computed" than is counted here.
- A request matches, and takes its memory, when it is admitted: in order of arrival, as soon as what others hold leaves
  room for its prompt and its whole answer. TensorRT-LLM reserves so by default; vLLM takes blocks as the answer grows
  and preempts when they run out. A partial block is a whole block of memory, and is not shared.
- A prompt that is computed though another request is computing the same occupies its own memory until its end, as in
  vLLM; SGLang drops the copy after each chunk.
- Blocks become idle when their last request ends, and the least recently idle leaves first, a prompt's end before its
  beginning. An answer's blocks are freed at its end: the log says nothing of their content.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from heapq import heappop, heappush

import msgspec
import numpy as np

from unmoor.core.evidence import Caveat
from unmoor.traffic.log import Traffic, Whole
from unmoor.traffic.reuse.block_pool import BlockPaths, BlockPool, prompt_tokens, rule_for, served_tokens
from unmoor.traffic.reuse.curve import engine_rule
from unmoor.traffic.reuse.stack_distance import CacheRule
from unmoor.traffic.running import Running

NO_RUNS: tuple[list[int], list[int]] = ([], [])


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """How fast a replica is taken to be: an assumption of the caller's, never a measurement.

    A request's prefill advances at `prefill_tps` tokens per second (above 0), and its answer at a token every `tpot_s`
    where the log does not say how long it took. `math.inf` and 0 make requests that take no time.
    """

    prefill_tps: float
    tpot_s: float


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The requests that arrived from `start_s` to `end_s` (the last window includes its end), and who ran meanwhile.

    `hit_rate` and `still_computing` are shares (0-1) of the window's prompt tokens; None where it has none, or where
    the log says nothing of content. `mean_running` is weighted by time.
    """

    start_s: float
    end_s: float
    requests: int
    prompt_tokens: int
    hit_rate: float | None
    still_computing: float | None
    peak_running: int
    mean_running: float


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica's pool served of a log over time. Shares are 0-1 of all prompt tokens.

    `block_tokens` are the blocks that were simulated: the log's own where it tells content apart more coarsely than was
    asked for (a caveat says so). `hit_rate` is None where the log says nothing of content, or has no prompt tokens.
    `still_computing` is what would have been a hit had it not been in the midst of being computed for another request:
    the price of concurrency, beside that of the memory that running requests hold. `too_large` requests need more than
    the whole pool: they never run, their tokens are misses, and `too_large_tokens` are their prompts'. `waited`
    requests could not be admitted when they arrived; the mean wait is over all that ran. `peak_pinned_tokens` is the
    most that running requests held at once, in whole blocks. `mean_running` is weighted by time, from the first arrival
    to the last; None where all arrived at one moment.

    A log without times is taken one request after another: everything that needs a clock is None, `windows` is empty.
    """

    kv_tokens: int
    block_tokens: int
    requests: int
    prompt_tokens: int
    hit_tokens: int | None
    hit_rate: float | None
    still_computing: float | None
    too_large: int
    too_large_tokens: int
    waited: int | None
    mean_wait_s: float | None
    longest_wait_s: float | None
    peak_running: int | None
    mean_running: float | None
    peak_pinned_tokens: int
    windows: tuple[Window, ...] = ()
    caveats: tuple[Caveat, ...] = ()


def simulate(
    traffic: Traffic,
    *,
    kv_tokens: int,
    block_tokens: int | None,
    service: Service,
    salt: Whole | None = None,
    windows: int = 24,
) -> Timeline:
    """What a pool of `kv_tokens` in blocks of `block_tokens` (None: the log's own) serves of the log as it arrives.

    A request takes the log's `took_s`, from its admission; where that is unknown, what `service` says. Requests under
    different `salt`s share nothing. Arrivals at one moment are in the log's order, after whatever ends at that moment.
    Where nothing takes time this is the sequential least-recently-used pool, and with room for everything the ideal.
    The time from first to last arrival is cut into `windows` equal ones. Cost: about one step a request and edge of its
    path in the tree, whatever the block size.
    """
    rule, caveats = _rule_and_doubts(traffic, block_tokens)
    replica = _Replica(traffic, rule, kv_tokens // rule.block_tokens, service, salt)
    replica.run()
    return _summary(traffic, replica, kv_tokens, windows, caveats)


def _rule_and_doubts(traffic: Traffic, block_tokens: int | None) -> tuple[CacheRule, tuple[Caveat, ...]]:
    if traffic.grain is None:
        return engine_rule(block_tokens or 1), ()
    if block_tokens is None or block_tokens >= traffic.grain.tokens:
        return rule_for(traffic.grain, block_tokens), ()
    text = f"content is told apart by {traffic.grain.tokens} tokens: simulated in such blocks, not in {block_tokens}"
    return rule_for(traffic.grain, None), (Caveat(code="timeline_blocks_coarse", text=text),)


class _Replica:
    """The event simulation: a pool, who runs, who waits, and what is being computed."""

    def __init__(
        self,
        traffic: Traffic,
        rule: CacheRule,
        capacity: int,
        service: Service,
        salt: Whole | None,
    ) -> None:
        size = len(traffic)
        self.rule = rule
        self.pool = BlockPool(capacity)
        # Columns are memory views or arrays in the loop: their items are Python's own numbers, in little memory.
        self.prompt = np.ascontiguousarray(prompt_tokens(traffic)).data
        self.hit_tokens = array("q", bytes(8 * size))
        self.computing_tokens = array("q", bytes(8 * size))
        self.start_s = array("d", [math.nan]) * size
        self.end_s = array("d", [math.nan]) * size
        self.running = array("q")  # with each that starts, in order
        self.peak_in_use = 0
        self._paths = None if traffic.tree is None else BlockPaths(traffic.tree, rule)
        self._node = np.ascontiguousarray(traffic.node).data
        self._salt = None if salt is None else np.ascontiguousarray(salt).data
        self._output = np.maximum(traffic.output_tokens, 0).data
        # Without times, one request after another: all at one moment, and none takes any.
        self._arrival = np.ascontiguousarray(traffic.arrival_s if traffic.timed else np.zeros(size)).data
        self._took = np.ascontiguousarray(traffic.took_s if traffic.timed else np.zeros(size)).data
        self._service = service if traffic.timed else Service(prefill_tps=math.inf, tpot_s=0.0)
        self._ends: list[tuple[float, int, list[int], int, int]] = []
        self._waiting: deque[int] = deque()
        # Runs being computed: block from which, since when, from which token, and when the last block is done.
        self._computing: dict[int, tuple[int, float, int, float]] = {}

    def run(self) -> None:
        """Every request, from the first arrival to the last end."""
        for row, at_s in enumerate(self._arrival):
            self._advance(at_s)
            if self._footprint(row) <= self.pool.capacity and (self._waiting or not self._admitted(row, at_s)):
                self._waiting.append(row)
        self._advance(math.inf)

    def _footprint(self, row: int) -> int:
        """The blocks that a request needs, when nothing is shared with one that runs."""
        return -(-(self.prompt[row] + self._output[row]) // self.rule.block_tokens)

    def _advance(self, to_s: float) -> None:
        """Everything that ends up to a moment, and the admissions that this makes room for."""
        ends = self._ends
        while ends and ends[0][0] <= to_s:
            end_s = ends[0][0]
            while ends and ends[0][0] == end_s:
                _, _, runs, private, new = heappop(ends)
                self.pool.release(runs, private)
                for run in runs[new:]:
                    self._computing.pop(run, None)
            while self._waiting and self._admitted(self._waiting[0], end_s):
                self._waiting.popleft()

    def _admitted(self, row: int, now_s: float) -> bool:
        """Whether the request could be admitted now; then it runs."""
        runs, sizes = NO_RUNS
        if self._paths is not None:
            runs, sizes = self._paths.of(self._node[row], 0 if self._salt is None else self._salt[row])
        resident, computed = self._match(runs, sizes, now_s)
        private = self._footprint(row) - sum(sizes) + resident - computed
        if not self.pool.hold(runs, sizes, private):
            return False
        prompt = self.prompt[row]
        hit = served_tokens(self.rule, computed, prompt)
        self.hit_tokens[row] = hit
        self.computing_tokens[row] = served_tokens(self.rule, resident, prompt) - hit
        self.peak_in_use = max(self.peak_in_use, self.pool.in_use)
        end_s = now_s + self._duration_s(row, prompt - hit)
        self.start_s[row], self.end_s[row] = now_s, end_s
        new = self._compute(runs, sizes, resident, (now_s, hit, prompt, end_s))
        heappush(self._ends, (end_s, row, runs, private, new))
        self.running.append(len(self._ends))
        return True

    def _duration_s(self, row: int, uncached: int) -> float:
        took_s = self._took[row]
        if took_s == took_s:  # noqa: PLR0124 - the cheapest test for NaN, a million times over
            return took_s
        return uncached / self._service.prefill_tps + self._output[row] * self._service.tpot_s

    def _match(self, runs: list[int], sizes: list[int], now_s: float) -> tuple[int, int]:
        """How many leading blocks are in the pool, and how many of these are computed by now."""
        there = self.pool.resident
        resident = computed = 0
        for run, size in zip(runs, sizes, strict=True):
            have = there.get(run)
            if have is None:
                break
            if computed == resident:
                computed += self._computed_of(run, resident, have, now_s)
            resident += have
            if have < size:
                break
        return resident, computed

    def _computed_of(self, run: int, start: int, have: int, now_s: float) -> int:
        """How many of a run's blocks are computed by now; the run begins at block `start`."""
        state = self._computing.get(run)
        if state is None:
            return have
        first, since_s, from_token, done_s = state
        if done_s <= now_s:
            del self._computing[run]
            return have
        reached = from_token + (now_s - since_s) * self._service.prefill_tps
        return min(max(int(reached // self.rule.block_tokens), first) - start, have)

    def _compute(self, runs: list[int], sizes: list[int], resident: int, prefill: tuple[float, int, int, float]) -> int:
        """Notes when the blocks that were not in the pool will be computed; from which run on there are such blocks."""
        now_s, hit, prompt, end_s = prefill
        stop, new = sum(sizes), len(runs)
        while stop > resident:
            new -= 1
            start = stop - sizes[new]
            last = min(stop * self.rule.block_tokens, prompt)
            # However slow the service is taken to be, a request that ended by its log has computed its prompt.
            done_s = min(now_s + (last - hit) / self._service.prefill_tps, end_s)
            self._computing[runs[new]] = (max(start, resident), now_s, hit, done_s)
            stop = start
        return new


def _summary(
    traffic: Traffic, replica: _Replica, kv_tokens: int, windows: int, caveats: tuple[Caveat, ...]
) -> Timeline:
    prompt = np.asarray(replica.prompt, dtype=np.int64)
    hits = np.frombuffer(replica.hit_tokens, dtype=np.int64)
    computing = np.frombuffer(replica.computing_tokens, dtype=np.int64)
    start_s, end_s = np.frombuffer(replica.start_s), np.frombuffer(replica.end_s)
    ran = ~np.isnan(start_s)
    known, total = traffic.tree is not None, int(prompt.sum())
    running = (
        Running(start_s[ran], end_s[ran], np.frombuffer(replica.running, dtype=np.int64)) if traffic.timed else None
    )
    waits = (start_s - traffic.arrival_s)[ran] if running is not None else None
    duration_s = traffic.duration_s
    return Timeline(
        kv_tokens=kv_tokens,
        block_tokens=replica.rule.block_tokens,
        requests=len(traffic),
        prompt_tokens=total,
        hit_tokens=int(hits.sum()) if known else None,
        hit_rate=_share(hits, total) if known else None,
        still_computing=_share(computing, total) if known and traffic.timed else None,
        too_large=int((~ran).sum()),
        too_large_tokens=int(prompt[~ran].sum()),
        waited=None if waits is None else int((waits > 0).sum()),
        mean_wait_s=None if waits is None or not len(waits) else float(waits.mean()),
        longest_wait_s=None if waits is None or not len(waits) else float(waits.max()),
        peak_running=None if running is None else running.peak(-math.inf, math.inf),
        mean_running=running.mean(0.0, duration_s) if running is not None and duration_s else None,
        peak_pinned_tokens=replica.peak_in_use * replica.rule.block_tokens,
        windows=_windows(traffic, (prompt, hits, computing), running, windows) if running is not None else (),
        caveats=caveats,
    )


def _share(tokens: Whole, total: int) -> float | None:
    return int(tokens.sum()) / total if total else None


def _windows(traffic: Traffic, tokens: tuple[Whole, Whole, Whole], running: Running, count: int) -> tuple[Window, ...]:
    duration_s = traffic.duration_s
    if not duration_s or count < 1:
        return ()
    edges = np.linspace(0.0, duration_s, count + 1)
    row = np.searchsorted(traffic.arrival_s, edges, side="left")
    row[0], row[-1] = 0, len(traffic)
    known = traffic.tree is not None
    made = []
    for index in range(count):
        start_s, end_s = float(edges[index]), float(edges[index + 1])
        prompt, hits, computing = (column[row[index] : row[index + 1]] for column in tokens)
        total = int(prompt.sum())
        made.append(
            Window(
                start_s=start_s,
                end_s=end_s,
                requests=len(prompt),
                prompt_tokens=total,
                hit_rate=_share(hits, total) if known else None,
                still_computing=_share(computing, total) if known else None,
                peak_running=running.peak(start_s, end_s),
                mean_running=running.mean(start_s, end_s),
            )
        )
    return tuple(made)
