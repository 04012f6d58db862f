"""What an answer says, from the timed bytes of its body: when its tokens were there, how it ended, who counted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec

from unmoor.core.record import Outcome
from unmoor.engines.wire.ask import STREAMED, AnswerForm
from unmoor.engines.wire.chunk import (
    AN_ANSWER,
    Said,
    Usage,
    read_chunks,
    said_by,
    said_in,
    said_whole,
    said_without_text,
)
from unmoor.engines.wire.form_check import Spoken, has_form
from unmoor.engines.wire.sse import DONE, events, plain_events

__all__ = ["AnswerReading", "Usage", "all_text", "read_answer", "read_body", "read_stream"]

_FAILED_REASONS: Final = frozenset({"abort", "error", "cancelled", "canceled", "timeout"})
"""How engines say in `finish_reason` that an answer did not end as asked (vLLM, SGLang, TensorRT-LLM)."""


_REASON_CHARACTERS: Final = 40


class AnswerReading(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer said, and when. Times are those of the reads that completed the events.

    `chunk_at_ns` has one time per event that carried content, of any choice; the first and last of them are the first
    and last token's. `first_answer_at_ns` is the first whose content was not reasoning. `opened_at_ns` is that of the
    first event of any kind: a role-only chunk opens a stream, no more. An answer in one piece has none of the four.
    `finish_reason` is the first choice's, or that of one that failed; None unless every choice has one.
    `valid` says whether the answer has the form that was asked for; None where none was, or where it cannot be told.
    `ended` says that the answer itself said so ("[DONE]", or the last event of a response).
    """

    opened_at_ns: int | None = None
    chunk_at_ns: tuple[int, ...] = ()
    first_answer_at_ns: int | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    error: str | None = None
    ended: bool = False
    valid: bool | None = None

    @property
    def first_token_at_ns(self) -> int | None:
        """When the first content of any kind was there (text, reasoning, tool call); None when there was none."""
        return self.chunk_at_ns[0] if self.chunk_at_ns else None

    @property
    def last_token_at_ns(self) -> int | None:
        """When the last content was there; None when there was none."""
        return self.chunk_at_ns[-1] if self.chunk_at_ns else None

    @property
    def outcome(self) -> Outcome:
        """How the answer ended: an error or a failed finish_reason is an error, none at all is a cut."""
        if self.error is not None or self.finish_reason in _FAILED_REASONS:
            return Outcome.STREAM_ERROR
        return Outcome.CUT if self.finish_reason is None else Outcome.OK


def read_stream(chunks: Sequence[tuple[int, bytes]], form: AnswerForm = STREAMED) -> AnswerReading:
    """What a server-sent event stream says, from its body as received: (receive time in ns, bytes), in order.

    Works on the whole body, so that it does not matter where reads split it. An event gets the time of the read that
    completed it. Comments, empty and role-only events never count as a token; no usage block means no counts, and the
    last of several counts. An error ends the reading. Chat and completion chunks and the typed events of the Responses
    API are told apart by what they say, not by what was asked.
    """
    listener = _Listener(form)
    pieces = [piece for _, piece in chunks]
    ends = list(accumulate(map(len, pieces)))
    body = b"".join(pieces)
    if _hear_plain(listener, body, [at_ns for at_ns, _ in chunks], ends):
        return listener.reading()
    for event in events(body):
        at_ns = chunks[bisect_left(ends, event.end)][0]
        if event.content.strip() == DONE:
            listener.done(at_ns)
        elif not listener.hear(at_ns, said_by(event)):
            break
    return listener.reading()


def _hear_plain(listener: _Listener, body: bytes, read_at_ns: Sequence[int], read_ends: Sequence[int]) -> bool:
    """Whether the body was plain enough to be read in one go: most are, and there may be thousands of events in one."""
    plain = plain_events(body)
    if plain is None:
        return False
    event_ends, contents = plain
    is_done = contents[-1] == DONE
    chunks = read_chunks(contents[:-1] if is_done else contents)
    if chunks is None or len(chunks) != len(contents) - is_done:
        return False
    said = said_in if listener.checks else said_without_text
    place = 0
    for end, chunk in zip(event_ends, chunks, strict=False):
        while read_ends[place] < end:
            place += 1
        what = said(chunk)
        if what is AN_ANSWER:
            listener.hear_answer(read_at_ns[place])
        elif not listener.hear(read_at_ns[place], what):
            return True
    if is_done:
        listener.done(read_at_ns[-1])
    return True


def read_body(body: bytes, form: AnswerForm = STREAMED) -> AnswerReading:
    """What an answer in one piece says: its error as one message, or its counts and how it finished; no times."""
    listener = _Listener(form)
    listener.hear(None, said_whole(body))
    return listener.reading()


def read_answer(chunks: Sequence[tuple[int, bytes]], form: AnswerForm) -> AnswerReading:
    """What the answer to a request says, streamed or not as `form` asked; one that is not as asked is an error."""
    in_one_piece = _begins_with_a_brace(chunks)
    if in_one_piece is form.stream and chunks:
        # What a server that does the other says of an error is worth more than that it did.
        said = read_body(b"".join(piece for _, piece in chunks)).error if in_one_piece else read_stream(chunks).error
        instead = "answered in one piece, so there is no time to first token"
        return AnswerReading(error=said or (instead if in_one_piece else "a stream of events, which was not asked for"))
    if form.stream:
        return read_stream(chunks, form)
    return read_body(b"".join(piece for _, piece in chunks), form)


def _begins_with_a_brace(chunks: Sequence[tuple[int, bytes]]) -> bool:
    """Whether a body is JSON: a stream of events never begins with a brace."""
    return next((head.startswith(b"{") for _, piece in chunks if (head := piece.lstrip())), False)


def all_text(chunks: Sequence[tuple[int, bytes]]) -> str:
    """All that an answer said, streamed or in one piece, reasoning and calls too: for counting it, never to be kept."""
    body, spoken = b"".join(piece for _, piece in chunks), Spoken()
    if _begins_with_a_brace(chunks):
        said = [said_whole(body)]
    else:
        said = [said_by(event) for event in events(body) if event.content.strip() != DONE]
    for one in said:
        for piece in one.pieces:
            spoken.add(piece)
    return spoken.all_text()


class _Listener:
    """Hears the events of one answer."""

    def __init__(self, form: AnswerForm) -> None:
        self._form = form
        self._chunk_at_ns: list[int] = []
        self._opened_at_ns: int | None = None
        self._first_answer_at_ns: int | None = None
        self._usage: Usage | None = None
        self._finish: dict[int, str] = {}
        self._error: str | None = None
        self._ended = False
        self._spoken = Spoken() if form.is_checked else None

    @property
    def checks(self) -> bool:
        """Whether the text of the answer is needed."""
        return self._spoken is not None

    def done(self, at_ns: int) -> None:
        """Notes "[DONE]"."""
        self._opened_at_ns = at_ns if self._opened_at_ns is None else self._opened_at_ns
        self._ended = True

    def hear_answer(self, at_ns: int) -> None:
        """Takes in a token of the answer, whose text nobody checks."""
        if self._first_answer_at_ns is None:
            self._first_answer_at_ns = at_ns
            if self._opened_at_ns is None:
                self._opened_at_ns = at_ns
        self._chunk_at_ns.append(at_ns)

    def hear(self, at_ns: int | None, said: Said) -> bool:
        """Takes in what one event said; whether more may follow."""
        if self._opened_at_ns is None:
            self._opened_at_ns = at_ns
        self._usage = said.usage or self._usage
        self._ended = self._ended or said.over
        self._error = said.error
        reasons = answers = False
        for piece in said.pieces:
            reasons, answers = reasons or piece.reasons, answers or piece.answers
            if piece.finish is not None:
                self._finish[piece.choice] = piece.finish
            if self._spoken is not None:
                self._spoken.add(piece)
        if at_ns is not None and (reasons or answers):
            self._chunk_at_ns.append(at_ns)
            if answers and self._first_answer_at_ns is None:
                self._first_answer_at_ns = at_ns
        return said.error is None

    def reading(self) -> AnswerReading:
        """What was heard."""
        finish = self._finish_reason()
        checked = self._spoken is not None and self._error is None and finish is not None
        return AnswerReading(
            opened_at_ns=self._opened_at_ns,
            chunk_at_ns=tuple(self._chunk_at_ns),
            first_answer_at_ns=self._first_answer_at_ns,
            usage=self._usage,
            finish_reason=finish,
            error=self._error,
            ended=self._ended,
            valid=has_form(self._form, self._spoken) if checked and self._spoken is not None else None,
        )

    def _finish_reason(self) -> str | None:
        failed = [reason for reason in self._finish.values() if reason in _FAILED_REASONS]
        if failed:
            return failed[0]
        return _a_word(self._finish[min(self._finish)]) if len(self._finish) >= self._form.n else None


def _a_word(reason: str) -> str:
    """A finish reason as it may be kept: a server can write anything there."""
    return "".join(character if character.isprintable() else " " for character in reason[:_REASON_CHARACTERS])
