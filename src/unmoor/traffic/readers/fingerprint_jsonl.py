"""A fingerprint: a header, the prompt tree's nodes, one request a line, and a sum. `traffic.fingerprint` writes it.

Unlike a log's, its lines mean nothing without each other: the first one that is broken ends the reading.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from unmoor.core.evidence import Caveat
from unmoor.core.traffic import Segment
from unmoor.traffic.entry import Entry, Segments
from unmoor.traffic.log import BreakerShare, Carried, Features, Grain
from unmoor.traffic.readers.contract import Broken, FirstLine, RecordFormat, Unreadable
from unmoor.traffic.readers.json_lines import decoded
from unmoor.traffic.readers.lines import MOST_TOKENS
from unmoor.traffic.readers.models_apart import SEVERAL_MODELS, several_models

VERSION = 1
_HEADER = '{"unmoor_fingerprint": 1, "block_tokens": tokens or null, "requests": n, "nodes": n, ...}'
_NODE = "[parent, tokens]"
_ROW = "[arrival_us, input_tokens, output_tokens, took_us, node, session, tenant, adapter, schema]"
_SUM = '{"sha256": "..."}'
_AGAIN = "the file as `unmoor profile --fingerprint` wrote it, whole and unchanged"
_MICROSECONDS = 1e6

Count = Annotated[int, Meta(ge=0, le=10**12)]
Tokens = Annotated[int, Meta(ge=1, le=MOST_TOKENS)]
Time = Annotated[int, Meta(ge=0, le=10**18)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
Schema = Annotated[str, Meta(pattern="^[a-z_]{1,20}:[0-9a-f]{16}$")]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line. `grain` and `format` are those of the log behind it.

    `block_tokens`, `grain` None and `nodes` 0 where the log says nothing of content. `caveats` are codes.
    `whole_blocks` is whether its blocks go by an engine's rule, as `Traffic.whole_blocks`; files without it are of logs
    that were no fingerprints themselves, where that follows from `grain`.
    """

    unmoor_fingerprint: int
    block_tokens: Tokens | None
    requests: Count
    nodes: Count
    grain: Grain | None
    format: str
    features: Features
    breakers: tuple[BreakerShare, ...] | None
    skipped_lines: Count
    caveats: tuple[str, ...]
    columns: tuple[str, ...]
    made_by: dict[str, Any]
    whole_blocks: bool | None = None


class Node(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A run of `tokens` that follows node `parent` (0 is the root, the first line's node is 1).

    A node that others follow ends at a whole number of blocks.
    """

    parent: Count
    tokens: Tokens


class Row(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One request: times in whole microseconds, the arrival from the first one; names as keyed hashes."""

    arrival_us: Time | None
    input_tokens: Tokens
    output_tokens: Count | None
    took_us: Time | None
    node: Count | None
    session: Hash | None
    tenant: Hash | None
    adapter: Hash | None
    schema: Schema | None


class Sum(msgspec.Struct, frozen=True):
    """The last line: the SHA-256 of all lines before it, each with its LF. It tells damage, and is no signature."""

    sha256: str


class _Nodes:
    """The tree as it is read: for each node its parent, its own run of tokens, and where it ends."""

    def __init__(self, block_tokens: int) -> None:
        self._block_tokens = block_tokens
        self._parent, self._tokens, self._end = array("q", [0]), array("q", [0]), array("q", [0])

    def __len__(self) -> int:
        return len(self._parent) - 1

    def add(self, node: Node) -> None:
        """Takes the next node. Raises Unreadable for one whose place cannot be."""
        if node.parent >= len(self._parent):
            raise _damaged("a node before its parent", seen=f"parent {node.parent} of node {len(self._parent)}")
        start = self._end[node.parent]
        if start % self._block_tokens:
            raise _damaged("a node that follows a part of a block", seen=f"{start} tokens before it")
        end = start + node.tokens
        if end > MOST_TOKENS:
            raise _damaged("a prompt that is too long", seen=f"{end:,} tokens")
        self._parent.append(node.parent)
        self._tokens.append(node.tokens)
        self._end.append(end)

    def path(self, node: int) -> tuple[Segment, ...]:
        """The runs from the root to `node`, named by their node's number. Raises Unreadable for one that is not."""
        if node > len(self):
            raise _damaged("a request at a node that is not there", seen=f"node {node} of {len(self)}")
        path = []
        while node:
            path.append(Segment(str(node), self._tokens[node]))
            node = self._parent[node]
        return tuple(reversed(path))


class _Reader:
    def __init__(self) -> None:
        self._header: Header | None = None
        self._nodes = _Nodes(1)
        self._rows = 0
        self._sum: str | None = None
        self._digest = hashlib.sha256()
        self._node = msgspec.json.Decoder(Node)
        self._row = msgspec.json.Decoder(Row)

    @property
    def grain(self) -> Grain | None:
        block_tokens = self._header.block_tokens if self._header else None
        return None if block_tokens is None else Grain(by="blocks", tokens=block_tokens)

    @property
    def notes(self) -> Sequence[Caveat]:
        return () if self._header is None else tuple(_notes(self._header))

    def read(self, record: bytes) -> tuple[Entry, ...]:
        try:
            return self._read(record.rstrip(b"\r\n"))
        except Unreadable:
            raise
        except Broken as broken:
            raise Unreadable(broken.message, seen=broken.seen, expected=broken.expected) from None

    def carried(self) -> Carried:
        if self._header is None or self._sum is None:
            raise _damaged("the fingerprint ends early", seen=f"{self._rows:,} requests and no sum after them")
        header = self._header
        cut_anew = header.grain is not None and header.grain != self.grain
        return Carried(
            features=header.features,
            breakers=header.breakers,
            skipped_lines=header.skipped_lines,
            whole_blocks=cut_anew if header.whole_blocks is None else header.whole_blocks,
        )

    def _read(self, line: bytes) -> tuple[Entry, ...]:
        header = self._header
        if header is None:
            self._header = _header(line)
            self._nodes = _Nodes(self._header.block_tokens or 1)
        elif len(self._nodes) < header.nodes:
            self._nodes.add(decoded(self._node, line, expected=_NODE))
        elif self._rows < header.requests:
            self._rows += 1
            row = decoded(self._row, line, expected=_ROW)
            self._digest.update(line + b"\n")
            return (self._entry(row),)
        else:
            self._check(line)
        self._digest.update(line + b"\n")
        return ()

    def _check(self, line: bytes) -> None:
        if self._sum is not None:
            raise _damaged("a line after the last", seen="more requests than the header counts")
        self._sum = decoded(msgspec.json.Decoder(Sum), line, expected=_SUM).sha256
        if self._sum != self._digest.hexdigest():
            raise _damaged("the fingerprint was changed", seen="a sum that its lines do not have")

    def _entry(self, row: Row) -> Entry:
        if (row.node is None) != (self._header is None or self._header.block_tokens is None):
            raise _damaged("a request unlike the header", seen="no node" if row.node is None else "a node")
        return Entry(
            at_s=_seconds(row.arrival_us),
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            content=None if row.node is None else Segments(self._nodes.path(row.node)),
            session=row.session,
            tenant=row.tenant,
            adapter=row.adapter,
            schema=row.schema,
            took_s=_seconds(row.took_us),
        )


def _header(line: bytes) -> Header:
    try:
        tree = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        tree = None
    version = tree.get("unmoor_fingerprint") if isinstance(tree, dict) else None
    if version is None:
        raise Unreadable(
            "not a fingerprint",
            seen="a first line without 'unmoor_fingerprint'",
            expected="what `unmoor profile LOG --fingerprint OUT` writes, from its first line on",
        )
    if isinstance(version, int) and version != VERSION:
        raise Unreadable(
            "a version of the format that is not known",
            seen=f"unmoor_fingerprint = {version}",
            expected=f"unmoor_fingerprint = {VERSION}; a newer Unmoor may have written it",
        )
    header = decoded(msgspec.json.Decoder(Header), line, expected=_HEADER)
    if header.block_tokens is None and header.nodes:
        raise _damaged("nodes without a block's size", seen=f"{header.nodes} nodes, and block_tokens = null")
    return header


def _notes(header: Header) -> list[Caveat]:
    notes = []
    if header.block_tokens is not None:
        text = f"This is a fingerprint: content is told apart in blocks of {header.block_tokens} tokens, no finer."
        notes.append(Caveat(code="fingerprint", text=text))
    grain = header.grain
    if grain is not None and grain.by != "blocks" and grain.tokens > 1:
        ratio, how = grain.bytes_per_token, "measured" if grain.ratio_measured else "assumed"
        by_bytes = f", at {ratio:.2f} bytes a token ({how})" if ratio else ""
        text = (
            f"The log behind it was told apart by {grain.by} to within {grain.tokens} tokens{by_bytes}: "
            "a shared prefix may be so much longer, not shorter."
        )
        notes.append(Caveat(code="fingerprint_grain", text=text))
    if header.caveats:
        text = f"The log behind it was read with these caveats: {', '.join(header.caveats)}."
        notes.append(Caveat(code="fingerprint_of_caveats", text=text))
    notes += several_models(len(header.features.models), apart=SEVERAL_MODELS in header.caveats)
    return notes


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / _MICROSECONDS


def _damaged(message: str, *, seen: str) -> Unreadable:
    return Unreadable(message, seen=seen, expected=_AGAIN)


def _looks_like(first: FirstLine) -> bool:
    return "unmoor_fingerprint" in first.keys


FORMAT = RecordFormat(name="fingerprint", expected=_HEADER, looks_like=_looks_like, start=_Reader)
