"""Traffic as requests to send: prompts of words as long as the traffic's, by the server's own count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from unmoor.core.evidence import Caveat
from unmoor.core.plural import plural
from unmoor.core.record import Record
from unmoor.core.traffic import Request, Segment, Workload
from unmoor.measure.client.load import Pacing, PlannedRequest, Target
from unmoor.measure.client.replay import replay
from unmoor.traffic.overlap import prefix_overlap
from unmoor.traffic.words import prompt_text

PROBE_TOKENS = 64
_ANSWER_TOKENS = 8


def planned_requests(
    requests: Sequence[Request], indices: Iterable[int], *, overhead_tokens: int, salt: str, seed: int | None
) -> tuple[PlannedRequest, ...]:
    """Those of `requests` at `indices`, by their index in the traffic; the first of them is due at once.

    Prompts are as long as the traffic's after the chat template's `overhead_tokens`; answers are as long, without
    ending before. `salt` makes every prompt another, so that no cache of prefixes is warm from another run.
    """
    chosen = list(indices)
    start_s = requests[chosen[0]].arrival_s if chosen else 0.0
    return tuple(
        PlannedRequest(
            index=index,
            due_s=requests[index].arrival_s - start_s,
            prompt=prompt_text(requests[index], overhead_tokens=overhead_tokens, salt=salt),
            max_tokens=requests[index].output_tokens,
            ignore_eos=True,
            seed=seed,
            session=requests[index].session,
        )
        for index in chosen
    )


def not_asked_for(requests: Sequence[Request], pacing: Pacing) -> tuple[Caveat, ...]:
    """What the traffic has and the load does not ask for: adapters, schemas, turns that wait for answers."""
    turns = sum(count - 1 for count in Counter(one.session for one in requests if one.session is not None).values())
    left_out = (
        (sum(one.schema is not None for one in requests), "a schema"),
        (sum(one.adapter is not None for one in requests), "an adapter"),
        (0 if pacing.waits else turns, "an earlier turn, whose answer they do not wait for"),
    )
    said = ", ".join(f"{count:,} have {what}" for count, what in left_out if count)
    if not said:
        return ()
    text = f"Not all that the traffic asks is asked here: of {plural(len(requests), 'request')} {said}."
    return (Caveat(code="not_asked_for", text=text),)


def foreign(tokens: int) -> Request:
    """A request that shares no word with any traffic but by chance: for a first one, which is not of the traffic."""
    return Request(
        arrival_s=0.0,
        input_tokens=tokens,
        output_tokens=_ANSWER_TOKENS,
        segments=(Segment(f"warm-up-{tokens}", tokens),),
    )


def ask_once(target: Target, request: Request, *, overhead_tokens: int, salt: str, timeout_s: float) -> Record | None:
    """What became of one request; None when it was stopped (Ctrl-C)."""
    records: list[Record] = []
    planned = planned_requests([request], [0], overhead_tokens=overhead_tokens, salt=salt, seed=None)
    report = replay(target, planned, sink=records.append, timeout_s=timeout_s)
    return None if report.partial or not records else records[0]


def overhead_of(probe: Record) -> int:
    """The tokens that the chat template added to a probe of `PROBE_TOKENS`; 0 where the server does not count."""
    return 0 if probe.input_tokens is None else max(0, probe.input_tokens - PROBE_TOKENS)


def shared_at_most(workload: Workload, *, overhead_tokens: int) -> float:
    """The share of prompt tokens that a cache can know from this load itself: what its prompts share, and the template.

    With words of its own for every run, a server that had more in its cache knew them from before.
    """
    asked = sum(request.input_tokens for request in workload.requests)
    template = min(asked, overhead_tokens * len(workload.requests))
    return min(1.0, (prefix_overlap(workload) or 0.0) + template / asked) if asked else 0.0
