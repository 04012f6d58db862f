"""A discrete-event simulation of one replica: iterations as long as the kernel table says, formed as the engine does.

What is modelled: arrivals, first come first served; prefill in chunks within a token budget; a prefix cache over the
requests' own segments; a finite KV pool with eviction and preemption. What is not: host work (scheduling, tokenizing,
HTTP), variance within an iteration, speculative decoding, reuse of generated tokens by a later prompt.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.choose.prediction.kernel_tables import StepTable
from unmoor.choose.prediction.kv_pool import Chains, KvPool, chains_of
from unmoor.core.traffic import Request
from unmoor.engines.contract import SchedulerModel


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """When a run may be given up: once more than `misses` requests have missed one bound, the SLO cannot be met."""

    misses: float
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """What became of every request, in the order given; times in seconds of the traffic's clock, NaN where none.

    A request that fits no KV pool, or no batch where prompts may not be chunked, has `failed` set and no times.
    `busy_peak` is the highest share of the KV pool that running requests held. `blocked` counts how often
    a request had to wait for KV memory, `preemptions` how often one lost its own: past either the pool is saturated.
    With `gave_up` the run stopped early and the rest of the requests have no times.
    """

    arrival_s: NDArray[np.float64]
    first_token_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    output_tokens: NDArray[np.int64]
    input_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    failed: NDArray[np.bool_]
    busy_peak: float
    blocked: int
    preemptions: int
    iterations: int
    gave_up: bool

    @property
    def ttft_s(self) -> NDArray[np.float64]:
        """First token - arrival."""
        return self.first_token_s - self.arrival_s

    @property
    def e2e_s(self) -> NDArray[np.float64]:
        """End - arrival."""
        return self.end_s - self.arrival_s

    @property
    def tpot_s(self) -> NDArray[np.float64]:
        """(End - first token) / (output tokens - 1); NaN under two tokens."""
        gaps = np.where(self.output_tokens > 1, self.output_tokens - 1, np.nan)
        return (self.end_s - self.first_token_s) / gaps

    @property
    def saturated(self) -> bool:
        """Whether a request waited for, or lost, KV memory."""
        return self.blocked > 0 or self.preemptions > 0


class _Seat:
    """One admitted request: its prompt being computed, or its answer being decoded."""

    __slots__ = ("chain", "done", "held", "index", "joined_at", "joined_kv", "left", "order", "private", "prompt")

    def __init__(self, index: int, prompt: int, left: int, chain: tuple[int, ...]) -> None:
        self.index = index
        self.prompt = prompt
        self.left = left
        self.chain = chain
        self.order = 0
        self.done = 0
        self.held = 0
        self.private = 0
        self.joined_at = -1
        self.joined_kv = 0


class Replica:
    """One replica's state; `run` is the whole of its use."""

    def __init__(
        self,
        requests: Sequence[Request],
        chains: Chains,
        table: StepTable,
        scheduler: SchedulerModel,
        patience: Patience | None,
    ) -> None:
        self._requests = requests
        self._chains = chains.of_request if scheduler.prefix_caching else ((),) * len(requests)
        self._table = table
        self._rules = scheduler
        limits = (patience.ttft_s, patience.tpot_s, patience.e2e_s) if patience else (None, None, None)
        self._limits = tuple(math.inf if limit is None else limit for limit in limits)
        self._misses_allowed = patience.misses if patience else math.inf
        self._gave_up = False
        self._pool = KvPool(table.kv_tokens, chains.tokens)
        self._waiting: deque[_Seat] = deque()
        self._prefilling: list[_Seat] = []
        self._decoding: dict[int, _Seat] = {}
        self._finishing: list[tuple[int, int]] = []
        self._now = 0.0
        self._decode_steps = 0
        self._decode_kv = 0
        self._seated = 0
        self._next = 0
        self._blocked = self._preemptions = self._iterations = 0
        self._misses = [0, 0, 0]
        n = len(requests)
        self._first = np.full(n, np.nan)
        self._end = np.full(n, np.nan)
        self._cached = np.full(n, -1, dtype=np.int64)
        self._failed = np.zeros(n, dtype=np.bool_)

    def run(self) -> Outcomes:
        """Every request's outcome. Ends when all have ended or failed, or when patience does."""
        while not self._gave_up:
            self._arrive()
            chunks = self._form_prefill()
            if chunks:
                self._prefill_step(chunks)
            elif self._decoding:
                self._decode_run()
            elif self._waiting:
                self._fail(self._waiting.popleft())
            elif self._next < len(self._requests):
                self._now = self._requests[self._next].arrival_s
            else:
                return self._outcomes()
        return self._outcomes()

    def _arrive(self) -> None:
        while self._next < len(self._requests) and self._requests[self._next].arrival_s <= self._now:
            request = self._requests[self._next]
            seat = _Seat(self._next, request.input_tokens, max(1, request.output_tokens), self._chains[self._next])
            if self._can_ever_run(request):
                self._waiting.append(seat)
            else:
                self._fail(seat)
            self._next += 1

    def _can_ever_run(self, request: Request) -> bool:
        fits_batch = self._rules.chunked_prefill or request.input_tokens <= self._rules.max_batch_tokens
        whole = self._in_blocks(request.input_tokens + max(1, request.output_tokens))
        return fits_batch and whole <= self._pool.capacity

    def _in_blocks(self, tokens: int) -> int:
        block = self._rules.kv_block_tokens
        return -(-tokens // block) * block

    def _form_prefill(self) -> list[tuple[_Seat, int]]:
        """The prompts of the next iteration with the tokens to compute of each: those begun, then those waiting."""
        mixed = self._rules.policy == "mixed"
        budget = self._rules.max_batch_tokens - (len(self._decoding) if mixed else 0)
        chunks: list[tuple[_Seat, int]] = []
        for seat in self._prefilling:
            if budget <= 0:
                return chunks
            chunks.append((seat, min(seat.prompt - seat.done, budget)))
            budget -= chunks[-1][1]
        while self._waiting and budget > 0 and len(self._prefilling) + len(self._decoding) < self._rules.max_running:
            seat = self._waiting[0]
            if not self._seat(seat, budget):
                break
            self._waiting.popleft()
            self._prefilling.append(seat)
            chunks.append((seat, min(seat.prompt - seat.done, budget)))
            budget -= chunks[-1][1]
        return chunks

    def _seat(self, seat: _Seat, budget: int) -> bool:
        """Whether the request was admitted: its whole prompt, and its answer where that is reserved, fit the pool."""
        pool, block = self._pool, self._rules.kv_block_tokens
        count = pool.matched(seat.chain)
        shared = sum(map(pool.tokens_of, seat.chain[:count]))
        # The last token is always computed: its logits are the first token of the answer.
        hit = min(shared, seat.prompt - 1) // block * block
        if not self._rules.chunked_prefill and seat.prompt - hit > budget:
            return False
        need = self._in_blocks(seat.prompt) - shared + (seat.left if self._rules.reserve_output else 0)
        pool.hold(seat.chain[:count])
        if not pool.take(need):
            pool.release(seat.chain[:count])
            self._blocked += 1
            return False
        seat.held, seat.private, seat.done = count, need, hit
        self._seated += 1
        seat.order = self._seated
        if self._cached[seat.index] < 0:
            self._cached[seat.index] = hit
        return True

    def _prefill_step(self, chunks: list[tuple[_Seat, int]]) -> None:
        decodes = self._make_room(1) if self._rules.policy == "mixed" else 0
        new = sum(tokens for _, tokens in chunks)
        cached = sum(seat.done for seat, _ in chunks)
        self._now += self._table.step_s(len(chunks), new, cached, decodes, self._decode_kv if decodes else 0)
        self._iterations += 1
        if decodes:
            self._decoded(1)
        for seat, tokens in chunks:
            seat.done += tokens
            if seat.done >= seat.prompt:
                self._prefilled(seat)

    def _prefilled(self, seat: _Seat) -> None:
        """The prompt is computed: its segments become hits for others, its first token is out."""
        self._prefilling.remove(seat)
        turned = self._pool.publish(seat.chain[seat.held :])
        seat.held = len(seat.chain)
        seat.private -= turned
        if math.isnan(self._first[seat.index]):
            self._first[seat.index] = self._now
            self._judge(0, self._now - self._requests[seat.index].arrival_s)
        seat.left -= 1
        if seat.left <= 0:
            self._finish(seat, generated=0)
            return
        seat.joined_at, seat.joined_kv = self._decode_steps, seat.prompt + 1
        self._decode_kv += seat.joined_kv
        self._decoding[seat.order] = seat
        heapq.heappush(self._finishing, (self._decode_steps + seat.left, seat.order))

    def _decode_run(self) -> None:
        """Iterations of decodes alone, as many at once as change nothing but lengths."""
        decodes = self._make_room(1)
        if not decodes:
            return
        steps = self._next_finish() - self._decode_steps
        if not self._rules.reserve_output:
            steps = min(steps, max(1, (self._pool.capacity - self._pool.busy) // decodes))
        if not self._waiting and self._next < len(self._requests):
            one = self._table.step_s(0, 0, 0, decodes, self._decode_kv)
            until = self._requests[self._next].arrival_s - self._now
            steps = min(steps, max(1, math.ceil(until / one)))
        # Decode time is linear in mean KV within a cell of the table, so the middle stands for the whole stretch.
        middle = self._decode_kv + decodes * (steps - 1) / 2
        self._now += steps * self._table.step_s(0, 0, 0, decodes, middle)
        self._iterations += steps
        self._decoded(steps)

    def _next_finish(self) -> int:
        """The decode step at which the next answer ends."""
        while self._finishing[0][1] not in self._decoding:
            heapq.heappop(self._finishing)
        return self._finishing[0][0]

    def _make_room(self, steps: int) -> int:
        """How many requests decode next, after the last admitted were preempted until a step's tokens fit."""
        if not self._rules.reserve_output:
            while self._decoding and self._pool.busy + steps * len(self._decoding) > self._pool.capacity:
                self._preempt(self._decoding[max(self._decoding)])
        return len(self._decoding)

    def _preempt(self, seat: _Seat) -> None:
        """Frees a request's memory; it waits again, first in line, with its answer so far as part of its prompt."""
        generated = self._decode_steps - seat.joined_at
        del self._decoding[seat.order]
        self._decode_kv -= seat.joined_kv + generated
        self._pool.give(seat.private + generated)
        self._pool.release(seat.chain)
        self._preemptions += 1
        self._waiting.appendleft(_Seat(seat.index, seat.joined_kv + generated, seat.left - generated, seat.chain))

    def _decoded(self, steps: int) -> None:
        """`steps` tokens for every decoding request; those whose answer is whole leave."""
        decodes = len(self._decoding)
        if not self._rules.reserve_output:
            self._pool.take(steps * decodes)
        self._decode_steps += steps
        self._decode_kv += steps * decodes
        while self._finishing and self._finishing[0][0] <= self._decode_steps:
            seat = self._decoding.pop(heapq.heappop(self._finishing)[1], None)
            if seat is not None:
                generated = self._decode_steps - seat.joined_at
                self._decode_kv -= seat.joined_kv + generated
                self._finish(seat, generated=0 if self._rules.reserve_output else generated)

    def _finish(self, seat: _Seat, generated: int) -> None:
        self._pool.give(seat.private + generated)
        self._pool.release(seat.chain[: seat.held])
        self._end[seat.index] = self._now
        request = self._requests[seat.index]
        if request.output_tokens > 1:
            self._judge(1, (self._now - self._first[seat.index]) / (request.output_tokens - 1))
        self._judge(2, self._now - request.arrival_s)

    def _fail(self, seat: _Seat) -> None:
        self._failed[seat.index] = True
        for bound in range(3):
            self._judge(bound, math.inf)

    def _judge(self, bound: int, seen_s: float) -> None:
        if seen_s > self._limits[bound]:
            self._misses[bound] += 1
            self._gave_up = self._gave_up or self._misses[bound] > self._misses_allowed

    def _outcomes(self) -> Outcomes:
        return Outcomes(
            arrival_s=np.array([r.arrival_s for r in self._requests], dtype=np.float64),
            first_token_s=self._first,
            end_s=self._end,
            output_tokens=np.array([r.output_tokens for r in self._requests], dtype=np.int64),
            input_tokens=np.array([r.input_tokens for r in self._requests], dtype=np.int64),
            cached_tokens=np.maximum(self._cached, 0),
            failed=self._failed,
            busy_peak=self._pool.peak / self._pool.capacity,
            blocked=self._blocked,
            preemptions=self._preemptions,
            iterations=self._iterations,
            gave_up=self._gave_up,
        )


def simulate(
    requests: Sequence[Request],
    table: StepTable,
    scheduler: SchedulerModel,
    *,
    chains: Chains | None = None,
    patience: Patience | None = None,
) -> Outcomes:
    """What becomes of `requests`, in order of arrival, on one replica.

    `chains` are those of the same requests, where they are known already: they do not change with the rate.
    """
    return Replica(requests, chains or chains_of(requests), table, scheduler, patience).run()
