"""The doubts that travel with a log's report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.log import Traffic
from unmoor.traffic.profile.question import Question
from unmoor.traffic.readers.beyond_text import UNSHARED
from unmoor.traffic.scratch import Scratch
from unmoor.traffic.tree import PromptTree

_FEW_CUT, _SHARE_CUT = 20, 0.05
_FEW_LENGTHS, _MANY_LENGTHS, _UNLIKE = 5, 20, 0.5
_HEAP = 3
"""So many times as many prompts are of the longest length as of any other where they were cut there."""


def once(caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
    """Each doubt once, as a sentence."""
    said = (Caveat(code=c.code, text=f"{c.text[:1].upper()}{c.text[1:].rstrip('.')}.") for c in caveats)
    return tuple(dict.fromkeys(said))


def doubts_of(traffic: Traffic, question: Question) -> tuple[Caveat, ...]:
    """What is not known of the log, or was assumed: its grain, its times and lengths, a replica's speed."""
    return (
        *_of_grain(traffic),
        *_of_times(traffic),
        *_of_lengths(traffic),
        *_of_cuts(traffic),
        *_of_service(traffic, question),
    )


def of_part(traffic: Traffic, simulated: Traffic) -> tuple[Caveat, ...]:
    """That only the beginning of a long log was simulated."""
    if len(simulated) == len(traffic):
        return ()
    text = f"Concurrency and replicas were simulated for the first {len(simulated):,} of {len(traffic):,} requests."
    return _caveat("simulated_part", text)


def _of_grain(traffic: Traffic) -> tuple[Caveat, ...]:
    grain = traffic.grain
    if grain is None:
        if any(caveat.code == "content_partly_unknown" for caveat in traffic.caveats):
            return ()
        return _caveat("content_unknown", "The source says nothing of content: prefix overlap is unknown, not zero.")
    if grain.by == "bytes":
        how = "" if grain.ratio_measured else "; --tokenizer counts tokens"
        return _caveat(
            "overlap_in_bytes",
            f"Prompts are compared by bytes: a shared prefix is known to within {grain.tokens} tokens and may be "
            f"longer, not shorter{how}.",
        )
    if grain.tokens > 1:
        what = "segments" if grain.by == "segments" else "blocks"
        return _caveat(
            "overlap_in_blocks",
            f"The source tells content apart in {what} of {grain.tokens} tokens: prefix overlap may be higher, not "
            "lower, and engines with smaller blocks have a range.",
        )
    return ()


def _of_times(traffic: Traffic) -> tuple[Caveat, ...]:
    if traffic.timed:
        return ()
    return _caveat("no_times", "The log has no times: requests are taken in its order, one after another.")


def _of_lengths(traffic: Traffic) -> tuple[Caveat, ...]:
    missing = int((traffic.output_tokens < 0).sum())
    if not missing:
        return ()
    return _caveat("answers_unknown", f"{missing:,} of {len(traffic):,} requests have no answer's length.")


def _of_cuts(traffic: Traffic) -> tuple[Caveat, ...]:
    """That prompts may have been cut when they were logged: many of one length, none longer, and all others unlike.

    Prompts from one template have few lengths between them, cut or not. Those with images end where their count says.
    """
    if traffic.tree is None or traffic.grain is None or traffic.grain.by not in {"bytes", "tokens"}:
        return ()
    if any(caveat.code == UNSHARED for caveat in traffic.caveats):
        return ()
    counts = _counts_by_length(traffic.tree, traffic.node, traffic.scratch)
    count, below = int(counts[-1]), counts[:-1]
    if count < max(_FEW_CUT, _SHARE_CUT * len(traffic)) or len(below) < _FEW_LENGTHS:
        return ()
    if len(below) < min(_MANY_LENGTHS, _UNLIKE * below.sum()) or count < _HEAP * below.max():
        return ()
    return _caveat(
        "prompts_cut",
        f"{count:,} of {len(traffic):,} prompts have exactly the length of the longest: they may have been cut when "
        "they were logged, and then share more than they did.",
    )


def _counts_by_length(tree: PromptTree, node: NDArray[np.int32], scratch: Scratch) -> NDArray[np.int64]:
    """How many prompts have each length, the shortest first."""
    lengths, counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    for some in scratch.stretches(len(node)):
        own, own_counts = np.unique(tree.end[node[some]], return_counts=True)
        lengths, place = np.unique(np.concatenate((lengths, own)), return_inverse=True)
        summed = np.zeros(len(lengths), dtype=np.int64)
        np.add.at(summed, place.reshape(-1), np.concatenate((counts, own_counts)))
        counts = summed
    return counts


def _of_service(traffic: Traffic, question: Question) -> tuple[Caveat, ...]:
    """How fast a replica is taken to be, where that bears on a figure, and whether the user said so or nobody did."""
    if traffic.tree is None or not traffic.timed:
        return ()
    service, took_known = question.service, not bool(np.isnan(traffic.took_s).any())
    if took_known and not traffic.duration_s:  # nothing came while something else was computed
        return ()
    prefill = _or_assumed(f"a prefill of {service.prefill_tps:,.6g} tokens/s a replica", question.prefill_tps)
    answers = _or_assumed(f"answers at {service.tpot_s * 1000:,.6g} ms a token", question.tpot_s)
    rests_on = prefill if took_known else f"{prefill}, and {answers}, where the log does not say how long requests took"
    assumed = question.prefill_tps is None or (question.tpot_s is None and not took_known)
    return _caveat(
        "service_assumed" if assumed else "service_given",
        f"What concurrency and routing by load do rests on {rests_on}.",
    )


def _or_assumed(said: str, given: float | None) -> str:
    return f"{said} ({'assumed' if given is None else 'given'})"


def _caveat(code: str, text: str) -> tuple[Caveat, ...]:
    return (Caveat(code=code, text=text),)
