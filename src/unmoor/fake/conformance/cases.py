"""The cases: what the server plays, and what a client should make of it. docs/reference/conformance.md prints them."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from unmoor.core.errors import UsageError
from unmoor.core.nearest import nearest
from unmoor.fake.conformance import answers
from unmoor.fake.conformance.answers import FIRST_S, GAP_S, TOKENS, Answer, Event, chunk, ended, lf, tokens, words


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One case. Requests get `good` and `other` by turns, in the order in which they come; all get `good` without one.

    `other_fails` says whether those that get `other` have failed; None: both can be argued, so it is not judged.
    `output_tokens` is the server's count of a good answer, `reported` whether the server says so to who asks.
    With `serial_s` the server begins one answer every so many seconds: slower than requests come.
    A `capped` case is for a client told to have one request in flight at a time.
    """

    code: str
    title: str
    expect: str
    good: Answer
    other: Answer | None = None
    other_fails: bool | None = True
    output_tokens: int = TOKENS
    reported: bool = True
    serial_s: float = 0.0
    capped: bool = False
    endpoint: Literal["chat", "completions"] = "chat"


def case_named(code: str) -> Case:
    """The case of this code. Raises UsageError for none."""
    found = next((case for case in CASES if case.code == code), None)
    if found is None:
        close = nearest(code, [case.code for case in CASES])
        raise UsageError(
            "no such case",
            where="--only",
            seen=code,
            expected="the code of a case",
            hint=f"did you mean '{close}'?" if close else "unmoor conformance --list prints them",
        )
    return found


def _at(at_s: float, content: bytes) -> Event:
    return Event(at_s=at_s, content=content)


def _plain(framing: answers.Framing = lf) -> Answer:
    return Answer(events=ended(tokens(words(), framing=framing), framing=framing))


def _broken(*after: Event, ending: answers.Ending = "whole") -> Answer:
    """Half of the tokens, and then what follows instead of an end."""
    return Answer(events=(*tokens(words(TOKENS // 2)), *after), ending=ending)


def _error(at_s: float, *, name: bytes = b"") -> Event:
    body = answers.error_body("the conformance server was told to fail", 500)
    return _at(at_s, name + lf(body))


def _unseen_role(content: str | None) -> Answer:
    return Answer(events=(_at(0.0, lf(chunk({"role": "assistant", "content": content}))), *ended(tokens(words()))))


def _empty_chunks() -> Answer:
    empty = [_at(0.1, lf(chunk({"content": ""}))), _at(0.2, lf(answers.without_choices())), _at(0.3, lf(chunk({})))]
    return Answer(events=(*empty, *ended(tokens(words()))))


def _comments() -> Answer:
    before = [_at(0.1, b": ping\n\n"), _at(0.2, b":\n\n"), _at(0.3, b": keep-alive\n\n")]
    between = _at(FIRST_S + 5.5 * GAP_S, b": ping\n\n")
    events = sorted((*tokens(words()), between), key=lambda event: event.at_s)
    return Answer(events=(*before, *ended(events)))


def _thinking(field: str, *, answer: bool = True) -> Answer:
    """Half of the tokens are reasoning, one every 40 ms, so that the first of the answer is 0.4 s after the first."""
    half = TOKENS // 2
    thought = tokens([{"content": None, field: answers.WORD}] * half, gap_s=2 * GAP_S)
    if not answer:
        return Answer(events=ended(thought, usage=half))
    return Answer(events=ended([*thought, *tokens(words(half), start_s=FIRST_S + 2 * half * GAP_S)]))


def _tool_call() -> Answer:
    named: dict[str, object] = {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": ""}}
    arguments: list[dict[str, object]] = [{"function": {"arguments": answers.WORD}}] * (TOKENS - 1)
    deltas = [{"content": None, "tool_calls": [{"index": 0, **call}]} for call in (named, *arguments)]
    return Answer(events=ended(tokens(deltas), finish="tool_calls"))


def _usage_beside(*, every: bool) -> Answer:
    """Usage in chunks that have choices: in the last alone, or a running count in every one."""
    blocks = [answers.usage_block(place + 1) if every else None for place in range(TOKENS)]
    events = [
        Event(
            at_s=FIRST_S + place * GAP_S,
            content=lf(chunk(delta, usage=block)),
            token=True,
        )
        for place, (delta, block) in enumerate(zip(words(), blocks, strict=True))
    ]
    end = _at(events[-1].at_s, lf(chunk({}, finish="stop", usage=answers.usage_block(TOKENS))))
    return Answer(events=(*events, end, _at(end.at_s, lf(b"[DONE]"))))


def _split() -> Answer:
    accented = [{"content": " w\u00f6rd"}] * TOKENS
    # Inside "data", inside the two bytes of the letter, and before the last line feed.
    letter = lf(chunk(accented[0])).index("\u00f6".encode()) + 1
    return Answer(events=ended(tokens(accented, gap_s=2 * GAP_S)), cuts=(3, letter, -1))


def _two_choices() -> Answer:
    """The second choice speaks first; together they have as many tokens as the usage says."""
    half = TOKENS // 2
    events = [
        Event(
            at_s=FIRST_S + (2 * place + (1 - index)) * GAP_S,
            content=lf(chunk({"content": answers.WORD}, index=index)),
            token=True,
        )
        for place in range(half)
        for index in (1, 0)
    ]
    end = _at(events[-1].at_s, lf(chunk({}, finish="stop", index=1)))
    return Answer(events=ended([*events, end]))


def _stalled() -> Answer:
    half = TOKENS // 2
    rest = tokens(words(half), start_s=FIRST_S + half * GAP_S + 2.0)
    return Answer(events=ended([*tokens(words(half)), *rest]))


def _large_event() -> Answer:
    events = tokens(words())
    padding = b" " * (256 << 10)
    whole = events[4].content[:-3] + padding + b"}\n\n"
    return Answer(events=ended([*events[:4], msgspec.structs.replace(events[4], content=whole), *events[5:]]))


def _completion() -> Answer:
    texts = [Event(at_s=FIRST_S + place * GAP_S, content=lf(answers.text_chunk(answers.WORD)), token=True)
             for place in range(TOKENS)]  # fmt: skip
    at_s = texts[-1].at_s
    usage = lf(answers.without_choices(chat=False, usage=answers.usage_block(TOKENS)))
    end = (
        _at(at_s, lf(answers.text_chunk("", finish="stop"))),
        Event(at_s=at_s, content=usage, usage=True),
        _at(at_s, lf(b"[DONE]")),
    )
    return Answer(events=(*texts, *end))


_HALF_S: Final = FIRST_S + (TOKENS // 2) * GAP_S
_AS_PLAIN: Final = "the same figures as without it"
_FAILED: Final = (
    "half of the requests have failed, and are in no latency; the others have the figures of a plain stream"
)

CASES: Final[tuple[Case, ...]] = (
    Case(
        code="plain",
        title="20 tokens, one a chunk, the first after 0.4 s",
        expect="TTFT 0.4 s, TPOT 20 ms, 20 output tokens, none failed",
        good=_plain(),
    ),
    Case(
        code="role-first",
        title='a chunk with the role and content "" at 0 s',
        expect="it is no token: TTFT 0.4 s",
        good=_unseen_role(""),
    ),
    Case(
        code="role-null",
        title="a chunk with the role and content null at 0 s",
        expect="it is no token: TTFT 0.4 s",
        good=_unseen_role(None),
    ),
    Case(
        code="empty-chunks",
        title="chunks with empty content, without choices and with an empty delta, from 0.1 s on",
        expect="they are no tokens: TTFT 0.4 s",
        good=_empty_chunks(),
    ),
    Case(
        code="comments",
        title="comment lines (pings) before and between the tokens",
        expect=f"they are nothing: {_AS_PLAIN}",
        good=_comments(),
    ),
    Case(
        code="reasoning",
        title="10 tokens in `reasoning` from 0.4 s, then 10 in `content` from 0.8 s",
        expect="reasoning is output: TTFT 0.4 s, 20 output tokens",
        good=_thinking("reasoning"),
    ),
    Case(
        code="reasoning-content",
        title="10 tokens in `reasoning_content` from 0.4 s, then 10 in `content` from 0.8 s",
        expect="reasoning is output: TTFT 0.4 s, 20 output tokens",
        good=_thinking("reasoning_content"),
    ),
    Case(
        code="reasoning-only",
        title="10 tokens in `reasoning_content`, and no `content`",
        expect="an answer like any other: TTFT 0.4 s, 10 output tokens, none failed",
        good=_thinking("reasoning_content", answer=False),
        output_tokens=TOKENS // 2,
    ),
    Case(
        code="tool-call",
        title="a tool call in 20 deltas, and no `content`",
        expect="an answer like any other: TTFT 0.4 s, 20 output tokens, none failed",
        good=_tool_call(),
    ),
    Case(
        code="several-a-chunk",
        title="4 tokens in each of 5 chunks, 80 ms apart",
        expect="20 output tokens; TPOT 16.8 ms, by tokens and not by chunks",
        good=Answer(events=ended(tokens(words(each=4), gap_s=4 * GAP_S))),
    ),
    Case(
        code="usage-beside",
        title="usage in the last chunk, beside its choices",
        expect="20 output tokens",
        good=_usage_beside(every=False),
    ),
    Case(
        code="usage-running",
        title="a running usage count in every chunk",
        expect="20 output tokens: the last count, not the first, nor their sum",
        good=_usage_beside(every=True),
    ),
    Case(
        code="usage-differs",
        title="10 words of text, and a usage block of 30 tokens for who asks",
        expect="30 output tokens: the server's count is the one that counts",
        good=Answer(events=ended(tokens(words(10)), usage=30)),
        output_tokens=30,
    ),
    Case(
        code="no-usage",
        title="no usage block, though asked",
        expect="output tokens not said, or 20 by a tokenizer; never the 32 that were asked for",
        good=Answer(events=ended(tokens(words()), usage=None)),
        reported=False,
    ),
    Case(code="crlf", title="lines that end in CR LF", expect=_AS_PLAIN, good=_plain(answers.crlf)),
    Case(code="cr", title="lines that end in CR alone", expect=_AS_PLAIN, good=_plain(answers.cr)),
    Case(code="no-space", title="no space after `data:`", expect=_AS_PLAIN, good=_plain(answers.no_space)),
    Case(code="multi-line", title="one event's data over two lines", expect=_AS_PLAIN, good=_plain(answers.many_lines)),
    Case(
        code="bom",
        title="a byte order mark before the stream",
        expect=_AS_PLAIN,
        good=Answer(events=answers.with_bom(ended(tokens(words())))),
    ),
    Case(
        code="event-lines",
        title="`event: message`, `id:` and `retry:` lines in every event",
        expect=_AS_PLAIN,
        good=_plain(answers.named),
    ),
    Case(
        code="split-bytes",
        title="every event in four pieces, cut inside `data`, inside a UTF-8 letter and before its last byte",
        expect="TTFT 0.4 s, TPOT 40 ms, 20 output tokens, none failed",
        good=_split(),
    ),
    Case(
        code="large-event",
        title="one event of 256 KiB",
        expect=_AS_PLAIN,
        good=_large_event(),
    ),
    Case(
        code="error-mid",
        title="every second answer: an `error` event after 10 tokens, then [DONE]",
        expect=_FAILED,
        good=_plain(),
        other=_broken(_error(_HALF_S), _at(_HALF_S, lf(b"[DONE]"))),
    ),
    Case(
        code="error-first",
        title="every second answer: HTTP 200, then an `error` event before any token, then [DONE]",
        expect=_FAILED,
        good=_plain(),
        other=Answer(events=(_error(FIRST_S), _at(FIRST_S, lf(b"[DONE]")))),
    ),
    Case(
        code="error-named",
        title="every second answer: an event named `error` after 10 tokens",
        expect=_FAILED,
        good=_plain(),
        other=_broken(_error(_HALF_S, name=b"event: error\n")),
    ),
    Case(
        code="finish-abort",
        title="every second answer: 10 tokens, then finish_reason `abort`",
        expect=_FAILED,
        good=_plain(),
        other=Answer(events=ended(tokens(words(TOKENS // 2)), finish="abort", usage=TOKENS // 2)),
    ),
    Case(
        code="finish-error",
        title="every second answer: 10 tokens, then finish_reason `error`",
        expect=_FAILED,
        good=_plain(),
        other=Answer(events=ended(tokens(words(TOKENS // 2)), finish="error", usage=TOKENS // 2)),
    ),
    Case(
        code="ends-early",
        title="every second answer: 10 tokens, then the HTTP answer ends without finish_reason, usage or [DONE]",
        expect=_FAILED,
        good=_plain(),
        other=_broken(),
    ),
    Case(
        code="no-done",
        title="every answer is whole, with its finish_reason, and has no [DONE]",
        expect="an answer like any other: none failed",
        good=Answer(events=ended(tokens(words()), done=False)),
    ),
    Case(
        code="cut",
        title="every second answer: the connection is reset in the middle of a chunk after 10 tokens",
        expect=_FAILED,
        good=_plain(),
        other=_broken(ending="cut"),
    ),
    Case(
        code="http-429",
        title="every second request is refused with 429 and Retry-After",
        expect=_FAILED,
        good=_plain(),
        other=answers.refusal(429),
    ),
    Case(
        code="http-503",
        title="every second request is refused with 503 and Retry-After",
        expect=_FAILED,
        good=_plain(),
        other=answers.refusal(503),
    ),
    Case(
        code="no-tokens",
        title="every second answer is whole and empty: finish_reason `stop`, usage 0",
        expect="TTFT 0.4 s: an answer without a token has none, and is in no mean as 0; whether it failed is open",
        good=_plain(),
        other=Answer(events=ended([_at(0.1, lf(chunk({"role": "assistant", "content": ""})))], usage=0)),
        other_fails=None,
    ),
    Case(
        code="one-token",
        title="an answer of one token",
        expect="TTFT 0.4 s; TPOT not said (never 0); 1 output token",
        good=Answer(events=ended(tokens(words(1)), usage=1)),
        output_tokens=1,
    ),
    Case(
        code="two-choices",
        title="two choices in one stream; the second speaks first",
        expect="TTFT 0.4 s, by the first token of any choice; 20 output tokens, of both",
        good=_two_choices(),
    ),
    Case(
        code="stall",
        title="no byte for 2 s after 10 tokens, then the rest",
        expect="the stall is in TPOT (125 ms) and in the end-to-end latency (2.8 s); none failed",
        good=_stalled(),
    ),
    Case(
        code="late-done",
        title="[DONE] comes 0.5 s after the last token",
        expect="TPOT 20 ms: the wait is no token's time; end to end may end at either, and which is told",
        good=Answer(events=ended(tokens(words()), done_after_s=0.5)),
    ),
    Case(
        code="slow-server",
        title="a server that begins an answer every 0.25 s, with requests due every 0.1 s",
        expect="requests go out when they are due, and TTFT has the queue in it: 1.1 s on average",
        good=_plain(),
        serial_s=0.25,
    ),
    Case(
        code="own-queue",
        title="a client told to have one request in flight, with requests due every 0.1 s",
        expect="TTFT runs from when a request was due, or the client's own queue is hidden: 3.5 s on average",
        good=_plain(),
        capped=True,
    ),
    Case(
        code="completions",
        title="a plain stream of /v1/completions, with its usage in a chunk without choices",
        expect="TTFT 0.4 s, TPOT 20 ms, 20 output tokens, none failed",
        good=_completion(),
        endpoint="completions",
    ),
)
