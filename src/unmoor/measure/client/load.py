"""The nouns of a load: where it goes, what is sent and when, and how the sending itself went."""

from __future__ import annotations

from typing import Literal

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.engines.wire import STREAMED, AnswerForm, Endpoint


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A URL of this machine that answers the OpenAI-compatible API, with or without a trailing `/v1`.

    `served_name` is the model's name in requests, `form` what their answers are to be, each unless a request says
    otherwise. `localhost` means 127.0.0.1; an engine on ::1 is named so.
    """

    url: str
    served_name: str
    endpoint: Endpoint = "chat"
    form: AnswerForm = STREAMED


class PlannedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to send: `due_s` counts from the start of the replay, `index` is its place in the workload.

    `model` is who is asked, an adapter's name say, and `form` what the answer is to be; None: as the target says.
    """

    index: int
    due_s: float
    prompt: str
    max_tokens: int
    ignore_eos: bool = False
    seed: int | None = None
    session: str | None = None
    model: str | None = None
    form: AnswerForm | None = None


class Pacing(msgspec.Struct, frozen=True, kw_only=True):
    """What a request waits for, beside its own time.

    With `concurrency` (a closed loop) so many users ask at a time, one session after the other, whatever the requests'
    own times. With `wait_for_turns` (an open loop) a session's turn waits for the answer to the one before it. Between
    an answer and what waited for it lie `think_s`. Nothing is sent from `until_s` on.
    """

    concurrency: int | None = None
    wait_for_turns: bool = False
    think_s: float = 0.0
    until_s: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the end of one request is what another waits for."""
        return self.concurrency is not None or self.wait_for_turns


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a replay went, as a client: the engine's figures are in the records.

    `requests` were recorded out of `planned`; `partial` means that it was stopped, and is always so when they are
    fewer. `ended_by` says what ended the sending: "all" were sent, the time was over ("duration"), there were "enough",
    or it was "stopped"; but for the last, `planned` are those that were due by then. Stores of before know
    None. `failures` are those recorded that
    did not end well, cancelled ones included.
    `offered_rps` is the rate at which requests were due and `achieved_rps` that of the sending, each as gaps per second
    between the first and the last request; None under two requests or when all fall on one moment. A closed loop offers
    no rate.
    Send lag is sent - scheduled; loop stall is how late the client's own timer woke, the bound of what a time stamp
    of the client's can be late by. All in seconds; None when nothing was sent.
    `clock` "kernel": times of arrival are the kernel's, and receive lag is how much later the client read. "user": they
    are the client's own, and receive lag is None. `stamps_dropped` reads had a stamp of the kernel's that could not be
    (the wall clock was set, say) and have the client's time. `retried` requests were sent again because the server had
    closed the kept connection they went out on. `stood_still_ns` are the client's stalls above 5 ms, from and to: of
    what came meanwhile on one connection only the last has its own time.
    """

    planned: int
    requests: int
    failures: int
    partial: bool
    offered_rps: float | None
    achieved_rps: float | None
    send_lag_p50_s: float | None
    send_lag_p99_s: float | None
    send_lag_max_s: float | None
    loop_stall_p99_s: float | None
    loop_stall_max_s: float | None
    started_at_ns: int
    ended_at_ns: int
    clock: Literal["kernel", "user"] = "user"
    receive_lag_p50_s: float | None = None
    receive_lag_p99_s: float | None = None
    receive_lag_max_s: float | None = None
    ended_by: Literal["all", "duration", "enough", "stopped"] | None = None
    stamps_dropped: int = 0
    retried: int = 0
    stood_still_ns: tuple[tuple[int, int], ...] = ()
    caveats: tuple[Caveat, ...] = ()
