"""From requests as they are read to a whole log in columns; of a prompt's text only its place in a tree is kept."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Blocks, Content, Entry, Prompt, Segments
from unmoor.traffic.log import UNKNOWN, Grain, Names, Traffic
from unmoor.traffic.readers.asked_for import AskedFor
from unmoor.traffic.readers.beyond_text import lengthened, unshared
from unmoor.traffic.readers.chains import Chains, like_no_other
from unmoor.traffic.readers.columns import Column, NameColumn, as_column
from unmoor.traffic.readers.contract import Broken, Cutter
from unmoor.traffic.readers.lines import MOST_TOKENS, in_range
from unmoor.traffic.readers.models_apart import ModelsApart, several_models
from unmoor.traffic.readers.text_sizes import TextSizes, size_of
from unmoor.traffic.readers.text_taken_out import is_too_short
from unmoor.traffic.scratch import MEMORY, Scratch
from unmoor.traffic.tree import PromptTree, SymbolStore, TreeBuilder

MOST_TOOK_S = 10**7
"""Four months: no request takes longer, and times in another unit do."""

MOST_UNKNOWN = 0.01
"""The share of prompt tokens of unknown content up to which they are taken to share nothing.

Each such token may in truth have been served itself, and have kept another one in the cache that was computed again:
under a cache without a limit a share is too low by at most twice this. A smaller cache also loses what they take of it.
"""
_BATCH_PROMPTS = 256
_BATCH_BYTES = 512 * 1024  # what was read a moment ago is still in the core's cache when it is cut
_BATCH_PIECES = 65_536
_NAN = float("nan")
_Kind = TypeVar("_Kind", bound=np.generic)


@dataclass(frozen=True, kw_only=True)
class Told:
    """What is known of a log besides its requests."""

    source: str
    format: str
    fingerprint: str
    grain: Grain | None
    notes: Sequence[Caveat]
    skipped_lines: int
    skipped: tuple[str, ...]


class Collector:
    """Grows the columns of a log. Either all its requests have a time or none, and content is of one kind.

    Requests whose content is not known may stand among others: while they are few, of which MOST_UNKNOWN decides, they
    are taken to share nothing; beyond that nothing is said of what any prompt shares. Prompts for different models
    share nothing either, however equal they are.
    """

    def __init__(self, cutter: Cutter | None, store: SymbolStore | None = None, scratch: Scratch = MEMORY) -> None:
        self._cutter = cutter
        self._scratch = scratch
        self._tree = TreeBuilder(store, scratch)
        self._timed: bool | None = None
        self._kind: type[Prompt | Blocks | Segments] | None = None  # of the content, once there was any
        self._at_s, self._took_s = Column("d", _NAN, scratch), Column("d", _NAN, scratch)
        self._input, self._output = Column("i", UNKNOWN, scratch), Column("i", UNKNOWN, scratch)
        self._line = Column("i", UNKNOWN, scratch)
        self._node, self._text_size = Column("i", UNKNOWN, scratch), Column("i", UNKNOWN, scratch)  # known once cut
        self._answer_bytes = Column("i", UNKNOWN, scratch)
        self._beyond_text = array("i")  # rows of prompts that hold more than text
        self._rows = 0  # once all are taken
        self._stand_ins = 0
        self._session, self._tenant, self._adapter, self._schema = (NameColumn(scratch=scratch) for _ in range(4))
        self._asked = AskedFor()
        self._models = ModelsApart()
        self._prompts: list[Prompt] = []
        self._prompt_bytes = self._text_bytes = 0
        self._chains = Chains()
        self._waiting: list[int] = []  # rows whose content is not in the tree yet
        self._salts: list[int] = []  # of their models

    def __len__(self) -> int:
        return len(self._line)

    def expect(self, *, timed: bool | None) -> None:
        """Says before the first request whether requests have a time; it decides itself where nobody knows (None)."""
        self._timed = timed

    def add(self, line: int, entry: Entry) -> Entry:
        """Takes one request, and says as what: without content where its text cannot be the prompt.

        Raises Broken for one that contradicts those before it, or cannot be.
        """
        if _is_stand_in(entry):
            entry = msgspec.structs.replace(entry, content=None)
            self._stand_ins += 1
        size = self._checked(entry)
        row = len(self)
        self._append(line, entry)
        if entry.content is not None:
            self._salts.append(self._models.salt_of(entry.model))
            self._take(row, entry.content, entry.input_tokens or 0, size)
        return entry

    def traffic(self, told: Told) -> Traffic:
        """All that was taken, in order of arrival."""
        self._flush()
        self._rows = len(self)
        inputs, outputs, grain = self._input.taken(), self._output.taken(), told.grain
        sizes = self._sizes(inputs)
        if sizes is not None:
            grain = sizes.grain
            inputs, outputs = sizes.inputs(), sizes.outputs(outputs)
        tree, node, unknown = self._grown(inputs, sizes)
        grain = None if tree is None else grain
        notes = (*_stand_ins(self._stand_ins), *(sizes.notes if sizes else ()), *unknown)
        del sizes
        features = self._asked.features
        at_s, order, late = _in_order(self._at_s.taken(), self._scratch)
        return Traffic(
            arrival_s=at_s,
            input_tokens=self._sorted(inputs, order),
            output_tokens=self._sorted(outputs, order),
            took_s=self._sorted(self._took_s.taken(), order),
            node=self._sorted(node, order),
            line=self._sorted(self._line.taken(), order),
            session=self._names(self._session, order),
            tenant=self._names(self._tenant, order),
            adapter=self._names(self._adapter, order),
            schema=self._names(self._schema, order),
            tree=tree,
            grain=grain,
            features=features,
            source=told.source,
            format=told.format,
            fingerprint=told.fingerprint,
            skipped_lines=told.skipped_lines,
            skipped=told.skipped,
            caveats=(*late, *told.notes, *notes, *several_models(len(features.models))),
            scratch=self._scratch,
        )

    def _names(self, column: NameColumn, order: NDArray[np.int64] | None) -> Names:
        codes, names = column.taken()
        return Names(code=self._sorted(codes, order), names=names)

    def _sorted(self, values: NDArray[_Kind], order: NDArray[np.int64] | None) -> NDArray[_Kind]:
        return values if order is None else self._scratch.taken(values, order)

    def _checked(self, entry: Entry) -> int:
        """The size of the entry's text in bytes, 0 for other content. Raises Broken."""
        timed, kind, size = entry.at_s is not None, self._kind, 0
        if self._timed not in (None, timed):
            raise _unlike_the_first("time", lacking=not timed)
        if entry.content is not None:
            kind = type(entry.content)
            if self._kind not in (None, kind):
                raise _unlike_the_first("content", lacking=False)
        if entry.input_tokens is not None:
            in_range("input tokens", entry.input_tokens, least=1, most=MOST_TOKENS)
        elif not isinstance(entry.content, Prompt):
            raise Broken("no input length", seen="nothing", expected="the prompt's tokens")
        if entry.output_tokens is not None:
            in_range("output tokens", entry.output_tokens, least=0, most=MOST_TOKENS)
        if entry.took_s is not None:
            in_range("time taken", entry.took_s, least=0, most=MOST_TOOK_S)
        if isinstance(entry.content, Prompt) and not (size := size_of(entry.content)):
            raise Broken("an empty prompt", seen="no text", expected="a prompt")
        self._timed, self._kind = timed, kind
        return size

    def _append(self, line: int, entry: Entry) -> None:
        self._line.append(line)
        self._at_s.append(entry.at_s)
        self._took_s.append(entry.took_s)
        self._input.append(entry.input_tokens)
        self._output.append(entry.output_tokens)
        self._session.append(entry.session)
        self._tenant.append(entry.tenant)
        self._adapter.append(entry.adapter)
        self._schema.append(entry.schema)
        self._asked.count(entry)
        self._answer_bytes.append(entry.answer_bytes)

    def _take(self, row: int, content: Content, input_tokens: int, size: int) -> None:
        """Content, of `size` bytes if it is text, waits until there is enough of it to work on at once."""
        self._waiting.append(row)
        if isinstance(content, Prompt):
            if content.others:
                self._beyond_text.append(row)
            self._prompts.append(content)
            self._prompt_bytes += size
            full = len(self._prompts) >= _BATCH_PROMPTS or self._prompt_bytes >= _BATCH_BYTES
        else:
            if isinstance(content, Blocks):
                self._chains.add_blocks(content, input_tokens, unlike_any=row)
            elif isinstance(content, Segments):
                self._chains.add_segments(content.chain)
            full = len(self._chains) >= _BATCH_PIECES
        if full:
            self._flush()

    def _flush(self) -> None:
        if self._prompts:
            self._cutter = self._cutter or _by_bytes()
            cuts = self._cutter.cut(self._prompts)
            for row, cut in zip(self._waiting, cuts, strict=True):
                self._text_size.append_at(row, int(cut.ends[-1]) if len(cut.ends) else 0)
            self._text_bytes += self._prompt_bytes
            self._prompts, self._prompt_bytes = [], 0
        else:
            cuts = self._chains.cuts()
        for row, cut, salt in zip(self._waiting, cuts, self._salts, strict=True):
            self._node.append_at(row, self._tree.add(cut.chain ^ np.uint64(salt) if salt else cut.chain, cut.ends))
        self._waiting, self._salts = [], []

    def _sizes(self, counted: NDArray[np.int32]) -> TextSizes | None:
        """What content as text comes to in tokens; None for content of another kind."""
        if self._cutter is None or self._kind is not Prompt:
            return None
        text_only = np.ones(self._rows, dtype=np.bool_)
        text_only[as_column(self._beyond_text)] = False
        return TextSizes(
            cutter=self._cutter,
            text_only=text_only,
            of_prompts=self._filled(self._text_size),
            of_answers=self._answer_bytes.taken(),
            prompt_bytes=self._text_bytes,
            counted=counted,
            scratch=self._scratch,
        )

    def _filled(self, column: Column[int]) -> NDArray[np.int32]:
        """A column that may lack rows at its end, with all of them."""
        if len(column) < self._rows:
            column.append_at(self._rows - 1, None)
        return column.taken()

    def _grown(
        self, inputs: NDArray[np.int32], sizes: TextSizes | None
    ) -> tuple[PromptTree | None, NDArray[np.int32], tuple[Caveat, ...]]:
        """The tree of all prompts in tokens, none where many are of unknown content; where they end; and doubts."""
        node, count = self._filled(self._node), self._rows
        if self._kind is None:
            return None, node, ()
        unknown = np.flatnonzero(node == UNKNOWN)
        share = float(inputs[unknown].sum(dtype=np.int64) / inputs.sum(dtype=np.int64)) if len(unknown) else 0.0
        if share > MOST_UNKNOWN:
            nowhere = np.broadcast_to(np.int32(UNKNOWN), (count,))
            return None, nowhere, (_partly_unknown(len(unknown), count, share),)
        ratio = sizes.bytes_per_token if sizes and sizes.cutter.by == "bytes" else 1.0
        for row in unknown.tolist():
            node[row] = self._tree.add([like_no_other(row)], [max(1, round(int(inputs[row]) * ratio))])
        tree = self._tree.finished()
        notes = (_partly_unknown(len(unknown), count, share),) if len(unknown) else ()
        if sizes is None:
            return tree, node, notes
        tree, added = sizes.in_tokens(tree), 0
        if len(self._beyond_text):
            rows = as_column(self._beyond_text).astype(np.int64)
            tree, added = lengthened(tree, node, rows, sizes.counted, self._scratch)
        return tree, node, (*notes, *unshared(added, int(inputs.sum(dtype=np.int64))))


def _is_stand_in(entry: Entry) -> bool:
    """Whether the text is too short for the tokens that are counted; what is beyond text counts any number."""
    content, counted = entry.content, entry.input_tokens
    if not isinstance(content, Prompt) or not counted or content.others:
        return False
    characters = sum(len(part.text) for part in content.parts)  # at most as many as bytes, and quickly counted
    return is_too_short(characters, counted) and is_too_short(size_of(content), counted)


def _stand_ins(count: int) -> tuple[Caveat, ...]:
    if not count:
        return ()
    were = "request has" if count == 1 else "requests have"
    text = (
        f"{count:,} {were} a text far too short for the prompt's tokens by the log: it stands for one that was taken "
        "out, and what these prompts share is unknown."
    )
    return (Caveat(code="text_redacted", text=text),)


def _unlike_the_first(what: str, *, lacking: bool) -> Broken:
    message = f"no {what}" if lacking else f"a {what} of another kind than the log's first requests"
    return Broken(message, seen="nothing" if lacking else "another kind", expected="what the log's first requests have")


def _partly_unknown(count: int, of: int, share: float) -> Caveat:
    among = f"{count:,} of {of:,} requests, with {share:.2%} of prompt tokens, say nothing of their content"
    if share > MOST_UNKNOWN:
        text = (
            f"{among}: what prompts share is left open for all of them, and what ruins sharing is said of the others. "
            "Profile those with content in a log of their own."
        )
    else:
        text = (
            f"{among}: they were taken to share nothing, so what is shared may be more, not less; without a limit to "
            f"the cache by at most {2 * share:.2%} of prompt tokens."
        )
    return Caveat(code="content_partly_unknown", text=text)


def _by_bytes() -> Cutter:
    from unmoor.traffic.text.pieces import BytesCutter  # noqa: PLC0415 - it imports this package's contract

    return BytesCutter(b"")


def _in_order(
    at_s: NDArray[np.float64], scratch: Scratch
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None, tuple[Caveat, ...]]:
    """Arrivals from the first, the order that sorts them (None where they are sorted) and the doubt about that.

    Sorted arrivals stay in their own memory, where there is one.
    """
    late = int(np.count_nonzero(at_s[1:] < at_s[:-1]))
    order = scratch.copy(np.argsort(at_s, kind="stable")) if late else None
    if order is not None:
        at_s = scratch.taken(at_s, order)
    if at_s.flags.writeable and len(at_s):
        first_s = float(at_s[0])
        for some in scratch.stretches(len(at_s)):
            at_s[some] = np.round(at_s[some] - first_s, 6)
    return at_s, order, (_out_of_order(late),) if late else ()


def _out_of_order(late: int) -> Caveat:
    lines = "line came" if late == 1 else "lines came"
    return Caveat(code="out_of_order", text=f"{late:,} {lines} before the one above it in time; requests were sorted.")
