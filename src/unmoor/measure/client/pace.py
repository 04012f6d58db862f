"""When each request of a load is due: at its own time, after the one before it, or when one of N users is free."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from unmoor.measure.client.load import Pacing, PlannedRequest


class Pace:
    """Hands out requests in the order in which they are due, and learns when each has ended.

    `place` is a request's place in the sequence given. Under `Pacing.wait_for_turns` those of one session are a chain:
    each is due at its own time, but `think_s` after the end of the one before it at the earliest. Under
    `Pacing.concurrency` so many chains (a request without a session is one of its own) are under way at a time; each
    takes the next of its chain, or the next chain, `think_s` after an end, whatever the requests' own times.
    How the one before ended does not matter: every request is sent.

    With `until_s` nothing is due so long after the start, or later.
    """

    def __init__(self, requests: Sequence[PlannedRequest], pacing: Pacing, *, started_at_ns: int) -> None:
        self.taken = 0
        self.fixed_taken = 0
        self._own_at_ns = [started_at_ns + round(request.due_s * 1e9) for request in requests]
        self._until_ns = None if pacing.until_s is None else started_at_ns + round(pacing.until_s * 1e9)
        self._think_ns = round(pacing.think_s * 1e9)
        self._closed = pacing.concurrency is not None
        self._after: dict[int, int] = {}
        self._chains: deque[int] = deque()
        self._following: list[tuple[int, int]] = []  # a heap of (due, place)
        heads = self._chained(requests) if pacing.waits else list(range(len(requests)))
        self._fixed = [(self._own_at_ns[place], place) for place in heads]
        if pacing.concurrency is not None:
            self._fixed = [(started_at_ns, place) for place in heads[: pacing.concurrency]]
            self._chains.extend(heads[pacing.concurrency :])
        self._fixed = [due for due in sorted(self._fixed) if self._in_time(due[0])]

    def next_at_ns(self) -> int | None:
        """When the next is due; None when none is, or none before another has ended."""
        fixed_ns = self.fixed_at_ns(self.fixed_taken)
        if not self._following:
            return fixed_ns
        return self._following[0][0] if fixed_ns is None else min(fixed_ns, self._following[0][0])

    def fixed_at_ns(self, number: int) -> int | None:
        """When the `number`-th of those is due that wait for no other; None beyond the last."""
        return self._fixed[number][0] if number < len(self._fixed) else None

    def take(self) -> tuple[int, int]:
        """The (due, place) of the next one. Only where `next_at_ns` gave a time."""
        self.taken += 1
        fixed_ns = self.fixed_at_ns(self.fixed_taken)
        if fixed_ns is None or (self._following and self._following[0][0] < fixed_ns):
            return heappop(self._following)
        self.fixed_taken += 1
        return self._fixed[self.fixed_taken - 1]

    def ended(self, place: int, at_ns: int) -> None:
        """A request has ended: what waited for it gets its time."""
        follower = self._after.pop(place, None)
        if follower is None and self._closed and self._chains:
            follower = self._chains.popleft()
        if follower is None:
            return
        due_ns = at_ns + self._think_ns
        if not self._closed:
            due_ns = max(due_ns, self._own_at_ns[follower])
        if self._in_time(due_ns):
            heappush(self._following, (due_ns, follower))

    def end(self) -> bool:
        """Hands out nothing more; whether something was left."""
        left = self.next_at_ns() is not None or bool(self._after or self._chains)
        self._fixed = self._fixed[: self.fixed_taken]
        self._following.clear()
        self._after.clear()
        self._chains.clear()
        return left

    def _in_time(self, due_ns: int) -> bool:
        return self._until_ns is None or due_ns < self._until_ns

    def _chained(self, requests: Sequence[PlannedRequest]) -> list[int]:
        """The first of each chain; `_after` gets the others."""
        heads: list[int] = []
        last: dict[str, int] = {}
        for place, request in enumerate(requests):
            if request.session is None or request.session not in last:
                heads.append(place)
            else:
                self._after[last[request.session]] = place
            if request.session is not None:
                last[request.session] = place
        return heads
