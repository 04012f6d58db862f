"""A request's body as another engine understands it: the closed list of rules by which a gateway may translate.

Everything that it knows is in the two surfaces. A constraint is never dropped without a word: what the target cannot be
told is in `lost`, and whoever sends the body decides whether the request may go without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, NamedTuple

import msgspec

from unmoor.engines.surface.body_paths import Tree, at, put, remove, root
from unmoor.engines.surface.content_forms import (
    CannotBeError,
    bound,
    choice_as_grammar,
    choice_as_regex,
    decoded,
    grammar_language,
    scale,
    structural_tag,
)
from unmoor.engines.surface.surface import Domain, Endpoint, Scalar, Spelling, Surface

WITHOUT_EFFECT = frozenset(("user", "store", "metadata", "service_tier"))
"""Engines take these for OpenAI's sake, and do nothing with them."""

_NOTHING = (None, {"type": "text"})
_NEVER_TOUCHED = frozenset(("messages", "prompt", "input", "tools"))
_MARKED_ADAPTER = "<adapter>"
_NAMED_SCHEMA = "json_schema.schema"
_SCHEMA_NAME = "answer"
_LOWER, _HIGHER = "lower_first", "higher_first"


class ServedAdapter(msgspec.Struct, frozen=True):
    """Where an adapter is on the target: its number there (from 0, in the order of loading) and its folder."""

    number: int
    path: str


class Served(msgspec.Struct, frozen=True):
    """What is served under which names: the model itself, and adapters of it."""

    model: str = ""
    adapters: Mapping[str, ServedAdapter] = {}


class Lost(NamedTuple):
    """A field that the target cannot be told, and why."""

    field: str
    why: str


class Translated(msgspec.Struct, frozen=True, kw_only=True):
    """A body for the target. The one that was given is left as it is; messages, prompts and tools are shared with it.

    `rules` says what was done, without anybody's text. `lost` are fields that had an effect on the source and are not
    in `body`; `dropped` are fields left out that had none.
    """

    body: Mapping[str, Any]
    rules: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
    dropped: tuple[str, ...] = ()


def translate(body: Mapping[str, Any], source: Surface, target: Surface, *, served: Served | None = None) -> Translated:
    """`body`, spelled for `source`, as `target` is to be asked for the same.

    To the same engine and version it is the body itself. `served` tells which models are adapters; without it none is,
    unless a field says so, and an engine that must be told an adapter's folder or number cannot be. What the server
    must be started with (`Spelling.needs`), and defaults of what a request leaves out, are no matter of the body.
    """
    if (source.engine, source.version) == (target.engine, target.version):
        return Translated(body=body)
    endpoint = endpoint_of(body)
    if endpoint not in target.fields:
        why = f"which fields {target.title} takes there is not known"
        return Translated(body={}, lost=tuple(Lost(name, why) for name in body))
    return _Translation(body, source, target, endpoint, served or Served()).done()


def endpoint_of(body: Mapping[str, Any]) -> Endpoint:
    """The endpoint that a body is for: messages for chat, an input for responses, else a prompt for completions."""
    if "messages" in body:
        return "chat"
    return "responses" if "input" in body and "prompt" not in body else "completions"


def _as_it_is(content: object) -> object:
    return content


_STAND_INS: Mapping[str, tuple[tuple[str, Callable[[object], object]], ...]] = {
    "choice": (("regex", choice_as_regex), ("grammar", choice_as_grammar)),
    "max_completion_tokens": (("max_tokens", _as_it_is),),
}
"""What says the same where the target has no such thing, the best first."""


class Way(NamedTuple):
    """How the target is told something: at `path`, its content `turned` into what says the same."""

    spelling: Spelling
    path: str
    turned: Callable[[object], object]

    @property
    def said(self) -> str:
        """Where it goes, in words."""
        return self.spelling.goes_to if self.path == self.spelling.path else f"`{self.path}`"


def way_to_say(concept: str, target: Surface, endpoint: Endpoint) -> Way | None:
    """How the target is told a concept at an endpoint: as such, else as what says the same; None where it cannot be."""
    for name, turned in ((concept, _as_it_is), *_STAND_INS.get(concept, ())):
        there = target.spellings.get(name)
        if there is None or there.absent or there.path == "prompt":
            continue
        if endpoint in there.endpoints:
            return Way(there, there.path, turned)
        for path in there.also:
            if path in target.fields.get(endpoint, ()):
                return Way(there, path, turned)
    return None


class _Found(NamedTuple):
    """A concept in a body: where it stands, and what it says."""

    concept: str
    spelling: Spelling
    path: str
    content: Any


class _Translation:
    """One body on its way."""

    def __init__(
        self, body: Mapping[str, Any], source: Surface, target: Surface, endpoint: Endpoint, served: Served
    ) -> None:
        self._given, self._source, self._target = body, source, target
        self._endpoint, self._served = endpoint, served
        self._out: Tree = {name: value if name in _NEVER_TOUCHED else deepcopy(value) for name, value in body.items()}
        self._rules: list[str] = []
        self._lost: list[Lost] = []
        self._dropped: list[str] = []

    def done(self) -> Translated:
        found = [one for one in self._found() if one.concept in self._target.spellings]
        moving = [one for one in found if not self._stays(one)]
        for one in moving:
            self._take_away(one)
        for one in moving:
            self._move(one)
        told = {root(one.path) for one in found if one not in moving}
        for name in self._given:
            if name in self._out and name not in told and not self._written(name):
                self._plain(name)
        self._values()
        return Translated(
            body=self._out, rules=tuple(self._rules), lost=tuple(self._lost), dropped=tuple(self._dropped)
        )

    # --- What the body says -------------------------------------------------------------------------------------------

    def _found(self) -> Iterator[_Found]:
        """Every concept that the source acts on in this body."""
        concepts = dict(self._concepts())
        if "json_schema" in concepts:  # it says more than that some object is wanted
            concepts.pop("json_object", None)
        yield from concepts.values()

    def _concepts(self) -> Iterator[tuple[str, _Found]]:
        for concept, spelling in self._source.spellings.items():
            for path in (spelling.path, *spelling.also):
                if path in {"", "prompt"} or not self._acts(spelling, path):
                    continue
                content = self._content(spelling, path)
                if content is not None:
                    yield concept, _Found(concept, spelling, path, content)
                    break
            else:
                if spelling.joined and (named := self._joined(spelling.joined)):
                    yield concept, _Found(concept, spelling, "model", named)

    def _acts(self, spelling: Spelling, path: str) -> bool:
        """Whether the source takes `path` at this endpoint."""
        fields = self._source.fields.get(self._endpoint)
        return self._endpoint in spelling.endpoints if fields is None else root(path) in fields

    def _joined(self, by: str) -> str:
        """What follows the model's name in `model`."""
        model = self._given.get("model")
        return model.partition(by)[2] if isinstance(model, str) else ""

    def _content(self, spelling: Spelling, path: str) -> Any:  # noqa: ANN401 - any JSON
        """What stands at `path`, if it means the concept; None if it does not."""
        there = at(self._given, path)
        if path != spelling.path or spelling.value is None:
            return there
        if spelling.value == _MARKED_ADAPTER:
            return there if isinstance(there, str) and there in self._served.adapters else None
        if there != spelling.value:
            return None
        return at(self._given, spelling.payload) if spelling.payload else there

    # --- What becomes of it -------------------------------------------------------------------------------------------

    def _stays(self, one: _Found) -> bool:
        """Whether the target has it in the same place, so that only its value may have to change."""
        there = self._target.spellings[one.concept]
        own = one.spelling
        alike = (own.path, own.value, own.payload, own.form) == (there.path, there.value, there.payload, there.form)
        known = one.path == there.path or own.also == there.also
        return alike and known and self._endpoint in there.endpoints

    def _take_away(self, one: _Found) -> None:
        if one.path == "model":
            base = self._given["model"].partition(one.spelling.joined)[0] if one.spelling.joined else ""
            self._out["model"] = base or self._served.model
        elif one.spelling.value is not None and root(one.path) == root(one.spelling.path):
            self._out.pop(root(one.path), None)  # the mark, and what describes it
        else:
            remove(self._out, one.path)

    def _move(self, one: _Found) -> None:
        """Says it in the target's way, or as something else that comes to the same; else it is lost."""
        way = way_to_say(one.concept, self._target, self._endpoint)
        there = self._target.spellings[one.concept]
        if way is not None:
            try:
                self._write(way, way.turned(self._turned(one, way.spelling)))
            except CannotBeError as why:
                self._lose(one.path, str(why))
            else:
                self._rules.append(f"`{one.path}` goes to {way.said}")
        elif one.concept in WITHOUT_EFFECT:
            self._without(one.path, one.content)
        else:
            self._lose(one.path, there.note or f"{self._target.title} has no such thing on {self._endpoint}")

    def _turned(self, one: _Found, there: Spelling) -> Any:  # noqa: ANN401 - any JSON
        """The content in the form that the target takes. Raises CannotBeError."""
        content = deepcopy(one.content)
        if one.concept == "adapter":
            return self._adapter(one, there.form)
        if one.concept == "grammar" and there.form and grammar_language(content) not in there.form.split():
            raise CannotBeError(f"a grammar in another language than {self._target.title} reads")
        if one.concept == "structural_tag":
            return structural_tag(content, one.path, one.spelling, there)
        if one.concept == "separate_reasoning":
            if content != (one.spelling.form or True):
                raise CannotBeError("engines differ in what becomes of thinking that is not parted from the answer")
            return there.form or True
        if one.concept == "logprobs" and self._endpoint == "chat" and not isinstance(content, bool):
            raise CannotBeError("a switch in chat: say how many as top_logprobs")
        if one.concept == "json_schema" and isinstance(content, str):
            return decoded(content)
        return content

    def _adapter(self, one: _Found, form: str) -> Any:  # noqa: ANN401 - any JSON
        name = self._adapter_name(one)
        if form == "name":
            return name
        placed = self._served.adapters.get(name)
        if placed is None:
            raise CannotBeError(f"where the adapter is on {self._target.title} was not told")
        if form == "request":
            return {"lora_name": name, "lora_int_id": placed.number + 1, "lora_path": placed.path}
        return [{"id": placed.number, "scale": 1.0}]

    def _adapter_name(self, one: _Found) -> str:
        content = one.content
        if one.spelling.form == "request" and isinstance(content, dict):
            content = content.get("lora_name")
        elif one.spelling.form == "scaled" and isinstance(content, list):
            by_place = {(placed.number, 1): name for name, placed in self._served.adapters.items()}
            only = content[0] if len(content) == 1 and isinstance(content[0], dict) else {}
            content = by_place.get((only.get("id", -1), only.get("scale", 0)))
        if not isinstance(content, str):
            raise CannotBeError("no single adapter of a known name")
        return content

    def _write(self, way: Way, content: Any) -> None:  # noqa: ANN401 - any JSON
        """Puts content where the target looks for it. Raises CannotBeError where something else stands there."""
        there, path = way.spelling, way.path
        if there.value == _MARKED_ADAPTER:
            self._out["model"] = content
            return
        if there.value is None or path != there.path:
            if at(self._out, path) not in (None, content):
                raise CannotBeError(f"`{path}` says something else already")
            put(self._out, path, content)
            return
        if at(self._out, path) not in (None, "text"):
            raise CannotBeError(f"`{path}` = {at(self._out, path)!r} stands there already: only one can")
        if there.payload == root(path):
            self._out[there.payload] = content
            return
        put(self._out, path, there.value)
        if there.payload:
            put(self._out, there.payload, content)
        if there.payload.endswith(_NAMED_SCHEMA):
            put(self._out, there.payload.removesuffix("schema") + "name", _SCHEMA_NAME)

    def _written(self, name: str) -> bool:
        """Whether what stands at a field is put there for the target."""
        return name in self._out and self._out[name] != self._given[name] and self._known(self._target, name)

    # --- Fields that are nothing but their name -----------------------------------------------------------------------

    def _plain(self, name: str) -> None:
        here, there = self._known(self._source, name), self._known(self._target, name)
        refused = self._target.unknown_fields.value == "refused"
        value = self._out[name]
        if here and not there:
            if name in WITHOUT_EFFECT or value in _NOTHING:
                self._without(name, value)
            else:
                del self._out[name]
                self._lose(name, f"{self._target.title} does not know it")
        elif not here and (there or refused) and self._source.unknown_fields.value != "refused":
            self._drop(name, "the source ignores it")
        elif not here and not there and refused:
            self._drop(name, "neither engine knows it")

    def _known(self, side: Surface, name: str) -> bool:
        """Whether an engine has this field here; of an endpoint that nobody looked at, it may have any."""
        fields = side.fields.get(self._endpoint)
        if fields is None:
            return True
        return name in fields or any(
            self._endpoint in spelling.endpoints and name in {root(spelling.path), *spelling.also}
            for spelling in side.spellings.values()
            if not spelling.absent
        )

    def _without(self, path: str, value: object) -> None:
        """A field that does nothing: it stays where the target does not mind."""
        if self._target.unknown_fields.value == "refused" or value in _NOTHING:
            self._out.pop(path, None)
            self._drop(path, "it has no effect")
        else:
            self._out[path] = value

    def _drop(self, name: str, why: str) -> None:
        self._out.pop(name, None)
        self._dropped.append(name)
        self._rules.append(f"`{name}` is left out: {why}")

    def _lose(self, path: str, why: str) -> None:
        self._lost.append(Lost(path, why))

    # --- Values -------------------------------------------------------------------------------------------------------

    def _values(self) -> None:
        """Values in the target's range, and priorities in its order."""
        if isinstance(self._out.get("priority"), int | float):
            self._priority()
        for concept, domain in self._target.domains.items():
            there = self._target.spellings.get(concept)
            path = there.path if there is not None and there.path else concept
            value = at(self._out, path)
            if value is not None and not isinstance(value, dict | list) and not domain.takes(value):
                self._value(path, value, domain, self._source.domains.get(concept))
        if "stream_options" in self._out and self._refuses_stream_options():
            self._drop("stream_options", "the answer is no stream")

    def _value(self, path: str, value: Scalar, domain: Domain, own: Domain | None) -> None:
        if own is not None and value in own.off and domain.off:
            put(self._out, path, domain.off[0])
            self._rules.append(f"`{path}` = {domain.off[0]} switches it off")
        elif domain.outside == "clamped" and (end := bound(domain, value)) is not None:
            put(self._out, path, end)
            self._rules.append(f"`{path}` = {end} is what it is taken for")
        else:
            remove(self._out, path)
            self._lose(path, domain.note or f"outside what {self._target.title} takes")

    def _priority(self) -> None:
        """Priorities say who goes before whom: the order may turn round, but the scale must be the same."""
        here, there = (_trait(side, "priority_order") for side in (self._source, self._target))
        same_scale = scale(self._source.domains.get("priority")) == scale(self._target.domains.get("priority"))
        if not same_scale or {here, there} - {_LOWER, _HIGHER}:
            del self._out["priority"]
            self._lose("priority", f"{self._target.title} counts priorities on another scale")
        elif here != there:
            self._out["priority"] = -self._out["priority"]
            self._rules.append("`priority` is negated: the other end goes first")

    def _refuses_stream_options(self) -> bool:
        """Whether only the target minds them beside an answer that is no stream."""
        here, there = (_trait(side, "stream_options_without_stream") for side in (self._source, self._target))
        return there == "refused" != here and not self._out.get("stream")


def _trait(side: Surface, name: str) -> Scalar:
    found = side.traits.get(name)
    return None if found is None else found.value
