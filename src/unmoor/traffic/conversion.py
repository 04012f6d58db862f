"""Between a log in columns and a workload of requests: the tree's edges are a workload's segments, and back."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from unmoor.core.errors import TrafficError
from unmoor.core.evidence import Caveat
from unmoor.core.traffic import Request, Segment, Workload
from unmoor.traffic.log import UNKNOWN, Features, Grain, Names, Traffic, Whole
from unmoor.traffic.tree import ROOT, PromptTree, TreeBuilder

FEW_UNKNOWN = 0.1
"""Up to this share of requests may have an answer of unknown length, for load and prediction."""
_HOW_TO_SAY_ANSWERS = (
    "`unmoor profile` reads it as it is; to decide, bring a gateway's log with usage blocks, or state the mean as "
    "output_tokens of [traffic.synthetic]"
)
_NEAR = 0.1


def workload_of(traffic: Traffic) -> Workload:
    """The log as requests for prediction, load and synthesis; segments are the edges of its tree.

    Where the source's count of a prompt differs by more than a tenth from the text's (content told apart by bytes), the
    count is kept: its last segments are cut, or a segment of its own is added; nearer, the text's is taken, which is
    said where it changes the total (`lengths_by_text`). An answer of 0 tokens (the request failed) becomes one of 1
    token, the least that can be asked for (`empty_answers`); up to a tenth of all answers may have no length, and get
    the median one (`answers_filled`). Raises TrafficError for a log without times, and for one with more unknown
    answers, since neither can be invented.
    """
    _check(traffic)
    taken = replace(traffic, input_tokens=_lengths(traffic))
    by_text = _by_text(traffic, taken)
    traffic, filled = _with_answers(taken)
    columns = zip(
        traffic.arrival_s.tolist(),
        traffic.input_tokens.tolist(),
        np.maximum(traffic.output_tokens, 1).tolist(),
        _prompts(traffic),
        _spelled(traffic.session),
        _spelled(traffic.adapter),
        _spelled(traffic.schema),
        strict=True,
    )
    return Workload(
        requests=tuple(
            Request(
                arrival_s=arrival_s,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                segments=segments,
                session=session,
                adapter=adapter,
                schema=schema,
            )
            for arrival_s, input_tokens, output_tokens, segments, session, adapter, schema in columns
        ),
        source=traffic.source,
        format=traffic.format,
        fingerprint=traffic.fingerprint,
        overlap_block_tokens=traffic.grain.tokens if traffic.grain is not None else None,
        caveats=(*traffic.caveats, *by_text, *filled, *_empty_answers(traffic)),
    )


def traffic_of(workload: Workload) -> Traffic:
    """The workload in columns, with the tree that its segments make; content is told apart by segments."""
    requests = workload.requests
    told_apart = workload.overlap_block_tokens is not None
    tree, node = _tree(requests) if told_apart else (None, np.full(len(requests), UNKNOWN, dtype=np.int32))
    return Traffic(
        arrival_s=np.array([request.arrival_s for request in requests], dtype=np.float64),
        input_tokens=np.array([request.input_tokens for request in requests], dtype=np.int64),
        output_tokens=np.array([request.output_tokens for request in requests], dtype=np.int64),
        took_s=np.full(len(requests), np.nan),
        node=node,
        line=np.arange(1, len(requests) + 1),
        session=_names(request.session for request in requests),
        tenant=_names(None for _ in requests),
        adapter=_names(request.adapter for request in requests),
        schema=_names(request.schema for request in requests),
        tree=tree,
        grain=Grain(by="segments", tokens=workload.overlap_block_tokens) if workload.overlap_block_tokens else None,
        features=Features(),
        source=workload.source,
        format=workload.format,
        fingerprint=workload.fingerprint,
        caveats=workload.caveats,
    )


def _check(traffic: Traffic) -> None:
    if len(traffic) and not traffic.timed:
        raise TrafficError(
            "the log has no times, which this needs",
            where=traffic.source,
            seen="requests without an arrival",
            expected="a time on every request",
            hint="`unmoor profile` reads it as it is; to load or predict, bring a log with times",
        )
    unknown = np.flatnonzero(traffic.output_tokens == UNKNOWN)
    if len(unknown) > FEW_UNKNOWN * len(traffic):
        raise TrafficError(
            "the log does not say how long answers were, which this needs",
            where=f"{traffic.source}:{int(traffic.line[unknown[0]])}",
            seen=f"{len(unknown):,} of {len(traffic):,} requests without output tokens",
            expected="each request's output tokens",
            hint=_HOW_TO_SAY_ANSWERS,
        )


def _with_answers(traffic: Traffic) -> tuple[Traffic, tuple[Caveat, ...]]:
    """The few answers of unknown length, as those of failed requests, as long as the median one."""
    unknown = traffic.output_tokens == UNKNOWN
    count = int(unknown.sum())
    if not count:
        return traffic, ()
    median = int(np.median(traffic.output_tokens[~unknown]))
    text = f"{count:,} of {len(traffic):,} requests have no answer's length: {median:,} tokens, the median, were taken."
    filled = replace(traffic, output_tokens=np.where(unknown, median, traffic.output_tokens))
    return filled, (Caveat(code="answers_filled", text=text),)


def _lengths(traffic: Traffic) -> Whole:
    """Prompts' lengths: the source's, or where text comes near to them by bytes, the text's.

    Cut to the source's count, a prompt would no longer share the edge in which it is cut.
    """
    if traffic.tree is None or traffic.grain is None or traffic.grain.by != "bytes":
        return traffic.input_tokens
    told = traffic.tree.end[traffic.node]
    near = np.abs(told - traffic.input_tokens) <= _NEAR * traffic.input_tokens
    return np.where(near & (told > 0), told, traffic.input_tokens)


def _by_text(logged: Traffic, taken: Traffic) -> tuple[Caveat, ...]:
    """That prompts are as long as their text, not as the log counts them, where that changes the total."""
    total, by_text = (int(traffic.input_tokens.sum(dtype=np.int64)) for traffic in (logged, taken))
    if total == by_text:
        return ()
    text = (
        f"Prompts are taken as long as their text comes to by bytes, {by_text:,} tokens, where that is near to "
        f"the log's own count, {total:,}, which `unmoor profile` gives: cut to that, they would share less."
    )
    return (Caveat(code="lengths_by_text", text=text),)


def _empty_answers(traffic: Traffic) -> tuple[Caveat, ...]:
    count = int(np.count_nonzero(traffic.output_tokens == 0))
    if not count:
        return ()
    text = f"{count:,} of {len(traffic):,} answers have 0 tokens: they are predicted and replayed as 1 token."
    return (Caveat(code="empty_answers", text=text),)


def _prompts(traffic: Traffic) -> list[tuple[Segment, ...]]:
    """Each request's prompt as segments that sum to its length; empty where the source says nothing of content."""
    if traffic.tree is None:
        return [()] * len(traffic)
    nodes = traffic.node.tolist()
    segments = _segments(traffic.tree, set(nodes))
    lengths = zip(nodes, traffic.input_tokens.tolist(), strict=True)
    return [_fitted(segments[node], tokens, row) for row, (node, tokens) in enumerate(lengths)]


def _segments(tree: PromptTree, nodes: Iterable[int]) -> dict[int, tuple[Segment, ...]]:
    """The prompts that end at `nodes` as segments; prompts share the objects of the edges they share."""
    edges = (tree.end - tree.end[np.maximum(tree.parent, ROOT)]).tolist()
    edge_of = [Segment(name=f"n{node}", tokens=tokens) for node, tokens in enumerate(edges)]
    return {node: tuple(edge_of[n] for n in tree.path(node) if edges[n]) for node in nodes}


def _fitted(segments: tuple[Segment, ...], tokens: int, row: int) -> tuple[Segment, ...]:
    """The segments as far as `tokens` go; what they lack is a segment that no other request has."""
    fitted = []
    for segment in segments:
        if tokens <= 0:
            break
        fitted.append(segment if segment.tokens <= tokens else Segment(name=segment.name, tokens=tokens))
        tokens -= segment.tokens
    if tokens > 0:
        fitted.append(Segment(name=f"r{row}", tokens=tokens))
    return tuple(fitted)


def _spelled(column: Names) -> list[str | None]:
    return [column.names[code] if code != UNKNOWN else None for code in column.code.tolist()]


def _names(column: Iterable[str | None]) -> Names:
    code_of: dict[str, int] = {}
    codes = [UNKNOWN if name is None else code_of.setdefault(name, len(code_of)) for name in column]
    return Names(code=np.array(codes, dtype=np.int32), names=tuple(code_of))


def _tree(requests: Sequence[Request]) -> tuple[PromptTree, NDArray[np.int32]]:
    """Segments are numbered by what stands before them, so a number is as good as a chained hash, and exact."""
    numbers: dict[tuple[int, str, int], int] = {}
    builder = TreeBuilder()
    nodes = array("i")
    for request in requests:
        chain, ends, number, end = array("Q"), array("q"), 0, 0
        for segment in request.segments:
            number = numbers.setdefault((number, segment.name, segment.tokens), len(numbers) + 1)
            end += segment.tokens
            chain.append(number)
            ends.append(end)
        nodes.append(builder.add(chain, ends))
    return builder.build(), np.array(nodes, dtype=np.int32)
