"""The nouns of an engine's surface: all that its users' requests, dashboards and start scripts touch, at one version.

Every statement names one of the surface's sources, so that it carries how it was seen, in which version, and when.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Literal

import msgspec

from unmoor.core.evidence import Caveat

Scalar = bool | int | float | str | None
Endpoint = Literal["chat", "completions", "responses"]
How = Literal["run", "source", "docs", "thread", "guess"]
"""How something was seen: run live, read in the source or in the project's pages, told in a thread, or guessed."""


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a statement comes from: how and where it was seen, of which version of the engine, on which day."""

    how: How
    what: str
    version: str
    seen: date

    def cited(self) -> str:
        """For the end of a sentence."""
        return f"{self.what} ({HOW_SAID[self.how]}, {self.version}, {self.seen.isoformat()})"


HOW_SAID: Mapping[How, str] = {
    "run": "run",
    "source": "read in its source",
    "docs": "read in its pages",
    "thread": "told in a thread",
    "guess": "a guess",
}


class Spelling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one engine spells a concept in a request's body.

    `path` is dotted, from the body ("structured_outputs.regex"); empty where the engine has no such thing. `value`,
    where given, is what stands there for the concept to hold: "regex" at `response_format.type`, or, in angle brackets,
    a kind of value, as "<adapter>" for the name of an adapter. `payload` is then where its content goes. `also` are
    further paths that mean the same, each with the content in it. `endpoints` are those that take it. `needs` is the
    flag without which it is ignored or refused.

    `form` is that of the content where engines differ in it: the languages of a grammar, parted by spaces; of an
    adapter its "name", a "request" object or a "scaled" list; the word that stands for true. `joined` parts the
    model's name from the content where `model` may hold both.
    """

    path: str
    source: str
    value: Scalar = None
    payload: str = ""
    form: str = ""
    joined: str = ""
    also: tuple[str, ...] = ()
    endpoints: tuple[Endpoint, ...] = ("chat", "completions")
    needs: str = ""
    note: str = ""

    @property
    def absent(self) -> bool:
        """Whether the engine has no such thing."""
        return not self.path

    def is_at(self, path: str, value: Scalar) -> bool:
        """Whether a field at `path` with `value` is this concept; a payload is not, its mark beside it is."""
        return path in self.also or (path == self.path and (self.value is None or value == self.value))

    @property
    def goes_to(self) -> str:
        """Where its content goes, in words: the path, with the mark beside it where there is one."""
        if self.value is None:
            return f"`{self.path}`"
        return f"`{self.payload or self.path}` with `{self.path}` = {self.value!r}"


class Domain(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which values of a field an engine takes, and what becomes of the others.

    A number must lie from `low` to `high` (without the ends where `low_open`, `high_open`); `also` lists values taken
    besides, `only` the whole list where there is one. `off` are those that switch the parameter off. `outside` says
    what happens to any other value.
    """

    source: str
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False
    also: tuple[Scalar, ...] = ()
    only: tuple[Scalar, ...] = ()
    off: tuple[Scalar, ...] = ()
    outside: Literal["refused", "ignored", "clamped", "crashes"] = "refused"
    note: str = ""

    def takes(self, value: Scalar) -> bool:
        """Whether `value` is taken as it is; a value that is no number is only compared with the lists."""
        if value in self.also or value in self.off:
            return True
        if self.only:
            return value in self.only
        if isinstance(value, bool) or not isinstance(value, int | float):
            return True
        above = self.low is None or value > self.low or (value == self.low and not self.low_open)
        below = self.high is None or value < self.high or (value == self.high and not self.high_open)
        return above and below


class Trait(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an engine behaves in one respect, as one of a few words that can be compared ("lower_first").

    No `value`: there is none, as a bound that an engine does not have. `says` is the sentence for people; `flag` is
    what changes it.
    """

    source: str
    value: Scalar = None
    says: str = ""
    flag: str = ""


class Route(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a purpose is served ("GET /health"); `needs` is what switches it on. Empty `path`: not at all."""

    path: str
    source: str
    method: str = "GET"
    needs: str = ""
    note: str = ""


class Metric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The names under which one meaning is scraped, in the engine's own unit; none where it has no such metric.

    `buckets` are the upper bounds of a histogram's buckets, ascending, without infinity; empty where nobody looked.
    """

    names: tuple[str, ...]
    source: str
    unit: str = ""
    needs: str = ""
    formerly: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    note: str = ""


class Flag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one engine spells a concept of starting it: its options, or a key of its configuration file where `in_file`.

    No `names`: it has no such thing; with a `default` that is how it always is, and `elsewhere` says that the same is
    said another way, told in `note`. `kind` tells how the value is to be understood where engines differ in that.

    `words` map the engine's own words for values to those that are the same for every engine. `unit` is that of a
    size. `several`: more values than one are given as further words, or parted by commas. `on` and `off` are the
    whole words that switch it on or off where no name alone does. `by_hand`: a value says nothing by itself.
    """

    names: tuple[str, ...]
    source: str
    default: str = ""
    kind: str = ""
    in_file: bool = False
    switch: bool = False
    elsewhere: bool = False
    by_hand: bool = False
    words: Mapping[str, str] = {}
    unit: Literal["", "GiB", "GB", "MiB", "bytes"] = ""
    several: Literal["", "words", "commas"] = ""
    on: str = ""
    off: str = ""
    note: str = ""


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The words that start its server, as in a shell; `also` are other forms of them.

    `images` are containers whose entry point starts the server, so that options follow the image's name at once.
    `model_first`: the model is the first argument, and needs no option.
    """

    command: str
    source: str
    also: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    model_first: bool = False


class Option(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One option as captured from the engine's own parser: its spellings, its default as Python writes it."""

    flags: tuple[str, ...]
    default: str
    choices: tuple[str, ...] | None = None


class Parsers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The names of the parsers for one family of models; empty where there is none."""

    source: str
    tool: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()


class Support(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of one feature of a schema, an adapter or a checkpoint.

    "enforced"/"native": as it should be. "fallback": works, another way, see `note`. "leaks": accepted and not (wholly)
    enforced. "ignored": loaded and disregarded. "refused": an error. "blocks": it also keeps valid answers out.
    "varies": depends on what else is in it. "unknown": nobody looked. `only_dtype`: it so computes in this type alone
    ("float16"), so that a model of another has to be started in it; empty where it is not bound to one.
    """

    value: Literal["enforced", "native", "fallback", "leaks", "ignored", "refused", "blocks", "varies", "unknown"]
    source: str
    note: str = ""
    only_dtype: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the server answers in one case of failure: its HTTP status (0: it does not answer) and the body's shape."""

    status: int
    source: str
    body: str = ""
    note: str = ""


class Surface(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One engine at one version, as its users touch it. Keys of the mappings are concepts, the same for every engine.

    `fields` lists, for each endpoint, every top-level field of a request that the engine has. `unknown_fields` (a
    trait: "ignored" or "refused") says what becomes of any other. What a mapping lacks is unknown, never "no": an
    engine that has no such thing says so with an empty path or list.

    `checkpoint` says of each scheme and hardware how weights are computed with, `quant_methods` of each tool that
    quantises (`quant_method` in config.json) in which of its forms files are read at all: "native", as `checkpoint` has
    it; "refused". The form "other" stands for all that are not named.
    """

    engine: str
    title: str
    version: str
    as_of: date
    sources: Mapping[str, Source]
    unknown_fields: Trait
    fields: Mapping[Endpoint, tuple[str, ...]]
    start: Start | None = None
    spellings: Mapping[str, Spelling] = {}
    domains: Mapping[str, Domain] = {}
    traits: Mapping[str, Trait] = {}
    routes: Mapping[str, Route] = {}
    errors: Mapping[str, Answer] = {}
    metrics: Mapping[str, Metric] = {}
    flags: Mapping[str, Flag] = {}
    options: Mapping[str, Option] = {}
    gone_flags: Mapping[str, str] = {}
    parsers: Mapping[str, Parsers] = {}
    schema: Mapping[str, Support] = {}
    adapter: Mapping[str, Support] = {}
    checkpoint: Mapping[str, Mapping[str, Support]] = {}
    quant_methods: Mapping[str, Mapping[str, Support]] = {}
    caveats: tuple[Caveat, ...] = ()

    def source_of(self, statement: Statement) -> Source:
        """Where a statement of this surface comes from."""
        return self.sources[statement.source]


Statement = Spelling | Domain | Trait | Route | Metric | Flag | Start | Parsers | Support | Answer
