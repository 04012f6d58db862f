"""What the usage in answers says: cached tokens, several answers, and whether streams end with it."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import number, said, sides
from unmoor.leave.uses import ABSENT, Rows

CACHED = Kind(
    id="UM122",
    name="cached-tokens-null",
    title="Cached tokens that are gone from the usage",
    bites="Bills and dashboards read usage.prompt_tokens_details.cached_tokens. Some engines give it only with a flag: "
    "after the move it is null, and all prompts seem to be paid in full.",
    look="Recorded answers that have it are counted; both engines' surfaces say when they give it.",
    mend="Start the target with its flag for it; send one prompt twice and look that the second count is above 0.",
    threads=threads("noonghunna/club-3090#1297", "gpustack/gpustack#5189"),
)
SEVERAL = Kind(
    id="UM127",
    name="usage-with-n",
    title="Usage that counts one of several answers",
    bites="With n above 1 most engines count the tokens of all answers, one only those of a single one: bills and "
    "limits are off by a factor of n.",
    look="Requests with n above 1 are counted; both engines' surfaces say what their usage counts.",
    mend="Send n requests, or count tokens yourself.",
)
STREAMED = Kind(
    id="UM130",
    name="usage-in-stream",
    title="Usage at the end of a stream, and stream_options without a stream",
    bites="Engines differ in whether a stream that did not ask ends with its usage, and in whether stream_options "
    "without stream are an error. Metering loses its counts, or requests fail.",
    look="Streams without stream_options, and stream_options without stream, are counted and compared with what both "
    "engines do.",
    mend="Send stream_options = {include_usage: true} with each stream, and never without one.",
)

_UNASKED = {
    "chat": frozenset(("yes",)),
    "completions": frozenset(("yes", "completions_only")),
}


def _look(case: Case) -> Iterator[Hit]:
    yield from _cached(case)
    yield from _several(case)
    yield from _streams(case)
    yield from _options(case)


def _cached(case: Case) -> Iterator[Hit]:
    rows = case.uses.rows("usage.cached_tokens", "answer")
    if not rows or (both := sides(case, "cached_tokens", "cached tokens in the usage")) is None:
        return
    features = ["answer.usage.cached_tokens"]
    if both.there.value == "never":
        yield hit(
            CACHED,
            "lost",
            "warning",
            features=features,
            rows=rows,
            seen=f"{both.target.title} does not say how many tokens came from its cache.",
            fix="Take it from its metrics, in sum.",
            sources=both.sources,
        )
    elif flag := both.flag_needed:
        yield hit(
            CACHED,
            "translated",
            "warning",
            features=features,
            rows=rows,
            seen=f"Without {flag} {both.target.title} leaves cached_tokens null.",
            fix=f"Start {both.target.title} with {flag}.",
            sources=both.sources,
            needs=(flag,),
        )
    yield from _grain(case, rows)


def _grain(case: Case, rows: Rows) -> Iterator[Hit]:
    both = sides(case, "cached_tokens_grain", "of how many tokens cached ones are a multiple")
    if both is None or not both.differ or None in {both.here.value, both.there.value}:
        return
    yield hit(
        CACHED,
        "same",
        "note",
        features=["answer.usage.cached_tokens"],
        rows=rows,
        seen=f"Cached tokens are multiples of {both.there.value} on {both.target.title}{said(both.there)}, of "
        f"{both.here.value} on {both.source.title}: the same hits count a little otherwise.",
        fix="Compare bills over many requests, not one by one.",
        sources=both.sources,
    )


def _several(case: Case) -> Iterator[Hit]:
    rows = case.uses.pair("several answers")
    if not rows or (both := sides(case, "usage_with_n", "usage with several answers")) is None or not both.differ:
        return
    one = both.there.value == "one_choice"
    yield hit(
        SEVERAL,
        "translated",
        "warning",
        features=sorted({use.feature for use in case.uses.of("n") if (number(use.value) or 0) > 1}),
        rows=rows,
        seen=f"{both.target.title} counts the tokens of "
        + ("one answer" if one else "all answers")
        + f" where {both.source.title} counts those of {'all' if one else 'one'}{said(both.there)}.",
        fix="Send n requests of one answer each, or count the answers' tokens yourself."
        if one
        else "Do not multiply by n any more.",
        sources=both.sources,
    )


def _streams(case: Case) -> Iterator[Hit]:
    """Streams that did not ask for usage, and get it on one side."""
    for place, words in _UNASKED.items():
        rows = case.uses.pair(f"stream without usage on {place}")
        if not rows or (both := sides(case, "usage_in_stream", f"streams without stream_options in {place}")) is None:
            continue
        here, there = both.here.value in words, both.there.value in words
        if here == there:
            continue
        yield hit(
            STREAMED,
            "translated" if here else "same",
            "warning" if here else "note",
            features=[f"{place}.stream"],
            rows=rows,
            seen=f"Streams that did not ask for it end with their usage on {both.source.title}, and without on "
            f"{both.target.title}."
            if here
            else f"On {both.target.title} these streams end with their usage, unasked.",
            fix="Send stream_options = {include_usage: true}."
            if here
            else "Let clients take a last chunk without choices.",
            sources=both.sources,
        )


def _options(case: Case) -> Iterator[Hit]:
    rows = case.uses.pair("stream_options without stream")
    about = "stream_options without stream"
    if not rows or (both := sides(case, "stream_options_without_stream", about)) is None or not both.differ:
        return
    refused = both.there.value == "refused"
    if refused:
        yield hit(
            STREAMED,
            "translated",
            "error",
            features=sorted({use.feature for use in case.uses.of("stream_options") if use.value not in {ABSENT, None}}),
            rows=rows,
            seen=f"{both.target.title} refuses stream_options without stream{said(both.there)}.",
            fix="Leave stream_options out where stream is not set.",
            sources=both.sources,
        )


CHECK = Check(kinds=(CACHED, SEVERAL, STREAMED), look=_look)
