"""From requests as they are read to a whole log in columns; of a prompt's text only its place in a tree is kept."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Blocks, Content, Entry, Prompt, Segments
from unmoor.traffic.log import UNKNOWN, Grain, Names, Traffic
from unmoor.traffic.readers.asked_for import AskedFor
from unmoor.traffic.readers.chains import Chains
from unmoor.traffic.readers.columns import Column, NameColumn, as_column
from unmoor.traffic.readers.contract import Broken, Cutter
from unmoor.traffic.readers.lines import MOST_TOKENS, in_range
from unmoor.traffic.readers.text_sizes import TextSizes, size_of
from unmoor.traffic.tree import SymbolStore, TreeBuilder

MOST_TOOK_S = 10**7
"""Four months: no request takes longer, and times in another unit do."""

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
    """Grows the columns of a log. What its first request says of, a time or content, every other must say of too."""

    def __init__(self, cutter: Cutter | None, store: SymbolStore | None = None) -> None:
        self._cutter = cutter
        self._tree = TreeBuilder(store)
        self._first: Entry | None = None
        self._at_s, self._took_s = Column("d", _NAN), Column("d", _NAN)
        self._input, self._output = Column("i", UNKNOWN), Column("i", UNKNOWN)
        self._line, self._node = array("q"), array("i")
        self._text_size, self._answer_bytes = array("q"), Column("q", UNKNOWN)  # of content as text
        self._session, self._tenant, self._adapter, self._schema = (NameColumn() for _ in range(4))
        self._asked = AskedFor()
        self._prompts: list[Prompt] = []
        self._prompt_bytes = self._text_bytes = 0
        self._chains = Chains()
        self._waiting: list[int] = []  # rows whose content is not in the tree yet

    def __len__(self) -> int:
        return len(self._line)

    def add(self, line: int, entry: Entry) -> None:
        """Takes one request. Raises Broken for one that contradicts the first, or cannot be."""
        size = self._checked(entry)
        row = len(self._line)
        self._append(line, entry)
        if entry.content is not None:
            self._take(row, entry.content, entry.input_tokens or 0, size)

    def traffic(self, told: Told) -> Traffic:
        """All that was taken, in order of arrival."""
        self._flush()
        tree = None if self._first is None or self._first.content is None else self._tree.finished()
        inputs, outputs, grain = self._input.taken(), self._output.taken(), told.grain
        sizes = self._sizes(inputs)
        if sizes is not None:
            grain = sizes.grain
            tree = sizes.in_tokens(tree) if tree else None
            inputs, outputs = sizes.inputs(), sizes.outputs(outputs)
        notes = sizes.notes if sizes else ()
        del sizes
        at_s, order, late = _in_order(self._at_s.taken())
        return Traffic(
            arrival_s=at_s,
            input_tokens=_sorted(inputs, order),
            output_tokens=_sorted(outputs, order),
            took_s=_sorted(self._took_s.taken(), order),
            node=_sorted(as_column(self._node), order),
            line=_sorted(as_column(self._line), order),
            session=_names(self._session, order),
            tenant=_names(self._tenant, order),
            adapter=_names(self._adapter, order),
            schema=_names(self._schema, order),
            tree=tree,
            grain=grain,
            features=self._asked.features,
            source=told.source,
            format=told.format,
            fingerprint=told.fingerprint,
            skipped_lines=told.skipped_lines,
            skipped=told.skipped,
            caveats=(*late, *told.notes, *notes),
        )

    def _checked(self, entry: Entry) -> int:
        """The size of the entry's text in bytes, 0 for other content. Raises Broken."""
        first, size = self._first or entry, 0
        if (entry.at_s is None) != (first.at_s is None):
            raise _unlike_the_first("time", lacking=entry.at_s is None)
        if type(entry.content) is not type(first.content):
            raise _unlike_the_first("content", lacking=entry.content is None)
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
        self._first = first
        return size

    def _append(self, line: int, entry: Entry) -> None:
        self._line.append(line)
        self._at_s.append(entry.at_s)
        self._took_s.append(entry.took_s)
        self._input.append(entry.input_tokens)
        self._output.append(entry.output_tokens)
        self._node.append(UNKNOWN)
        self._session.append(entry.session)
        self._tenant.append(entry.tenant)
        self._adapter.append(entry.adapter)
        self._schema.append(entry.schema)
        self._asked.count(entry)
        if isinstance(entry.content, Prompt):
            self._answer_bytes.append(entry.answer_bytes)

    def _take(self, row: int, content: Content, input_tokens: int, size: int) -> None:
        """Content, of `size` bytes if it is text, waits until there is enough of it to work on at once."""
        self._waiting.append(row)
        if isinstance(content, Prompt):
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
            self._text_size.extend(int(cut.ends[-1]) if len(cut.ends) else 0 for cut in cuts)
            self._text_bytes += self._prompt_bytes
            self._prompts, self._prompt_bytes = [], 0
        else:
            cuts = self._chains.cuts()
        for row, cut in zip(self._waiting, cuts, strict=True):
            self._node[row] = self._tree.add(cut.chain, cut.ends)
        self._waiting = []

    def _sizes(self, counted: NDArray[np.int32]) -> TextSizes | None:
        """What content as text comes to in tokens; None for content of another kind."""
        if self._cutter is None or self._first is None or not isinstance(self._first.content, Prompt):
            return None
        return TextSizes(
            cutter=self._cutter,
            of_prompts=as_column(self._text_size),
            of_answers=self._answer_bytes.taken(),
            prompt_bytes=self._text_bytes,
            counted=counted,
        )


def _unlike_the_first(what: str, *, lacking: bool) -> Broken:
    message = f"no {what}" if lacking else f"a {what} of another kind than the log's first request"
    return Broken(message, seen="nothing" if lacking else "another kind", expected="what the log's first request has")


def _by_bytes() -> Cutter:
    from unmoor.traffic.text.pieces import BytesCutter  # noqa: PLC0415 - it imports this package's contract

    return BytesCutter(b"")


def _sorted(values: NDArray[_Kind], order: NDArray[np.int64] | None) -> NDArray[_Kind]:
    return values if order is None else values[order]


def _in_order(at_s: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64] | None, tuple[Caveat, ...]]:
    """Arrivals from the first, the order that sorts them (None where they are sorted) and the doubt about that.

    Sorted arrivals stay in their own memory, where there is one.
    """
    late = int(np.count_nonzero(at_s[1:] < at_s[:-1]))
    order = np.argsort(at_s, kind="stable") if late else None
    if order is not None:
        at_s = at_s[order]
    if at_s.flags.writeable and len(at_s):
        at_s -= at_s[0]
        np.round(at_s, 6, out=at_s)
    return at_s, order, (_out_of_order(late),) if late else ()


def _names(column: NameColumn, order: NDArray[np.int64] | None) -> Names:
    codes, names = column.taken()
    return Names(code=_sorted(codes, order), names=names)


def _out_of_order(late: int) -> Caveat:
    lines = "line came" if late == 1 else "lines came"
    return Caveat(code="out_of_order", text=f"{late:,} {lines} before the one above it in time; requests were sorted.")
