"""What a request's body asks for: its fields and their values, and what it leaves out.

Constraints (schemas, regexes, grammars, choices) are kept once each, by a hash; of prompts that were written out by a
template a bounded number is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from unmoor.leave.reading.values import LIST, TEXT, Values, word
from unmoor.leave.uses import ABSENT, Constraint, ConstraintAt, Place, Rows, Sample, Use, Uses

Tree = Mapping[str, Any]
ConstraintKind = Literal["json_schema", "regex", "grammar", "choice", "structural_tag"]

MOST_SAMPLES = 2000
MOST_CONSTRAINTS = 100_000

WALKED = frozenset(
    (
        *("response_format", "structured_outputs", "stream_options", "chat_template_kwargs", "tool_choice", "text"),
        *("reasoning", "guided_options_request", "sampling_params"),
    )
)
"""Objects of a body whose keys are fields as well."""

_CONSTRAINTS: Mapping[str, ConstraintKind] = {
    "guided_json": "json_schema",
    "guided_regex": "regex",
    "guided_grammar": "grammar",
    "guided_choice": "choice",
    "structured_outputs.json": "json_schema",
    "structured_outputs.regex": "regex",
    "structured_outputs.grammar": "grammar",
    "structured_outputs.choice": "choice",
    "structured_outputs.structural_tag": "structural_tag",
    "response_format.json_schema": "json_schema",
    "response_format.schema": "json_schema",
    "response_format.regex": "regex",
    "response_format.ebnf": "grammar",
    "response_format.grammar": "grammar",
    "text.format": "json_schema",
    "json_schema": "json_schema",
    "regex": "regex",
    "ebnf": "grammar",
    "grammar": "grammar",
}
NOT_FIELDS = frozenset(("messages", "prompt", "input", "model", "tools", "functions", "extra_body"))
"""Keys of a body that are looked at in ways of their own, not as fields."""
_ANSWERS_MOST = {"max_tokens", "max_completion_tokens", "max_output_tokens"}
_DRAWING = ("temperature", "top_p", "top_k")
_TEMPLATE_MARKS = ("<|im_start|>", "<|begin_of_text|>", "<|start_header_id|>", "<s>", "<bos>", "[INST]", "<｜begin")
_BEGIN_MARKS = ("<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<｜begin▁of▁sentence｜>", "[BOS]")
_THINKING_SWITCHES = ("enable_thinking", "thinking", "reasoning_effort", "thinking_budget")
_SAMPLE_CHARACTERS = 4096
_HASH_BYTES = 8


class BodyReader:
    """Adds to `uses` what bodies ask for."""

    def __init__(self, uses: Uses) -> None:
        self.uses = uses
        self._values = Values()

    def settings_alone(self, line: int, sampling: Tree) -> None:
        """What is known of a request whose body the log does not hold: parameters as the engine logged them."""
        for name, value in sampling.items():
            self._field("chat", name, value, line)

    def read(self, line: int, body: Tree) -> None:
        """Looks at one body."""
        place = place_of(body)
        fields = {**body, **extra} if isinstance(extra := body.get("extra_body"), dict) else body
        for name, value in fields.items():
            if name in NOT_FIELDS:
                continue
            self._field(place, name, value, line)
            if isinstance(value, dict) and name in WALKED:
                for inner, told in value.items():
                    self._field(place, f"{name}.{inner}", told, line)
        self._left_out(place, fields, line)
        self._together(place, fields, line)
        if place == "completions":
            self._prompt(fields.get("prompt"), line, adds_special=fields.get("add_special_tokens") is not False)
        else:
            messages = fields.get("messages") if place == "chat" else fields.get("input")
            if isinstance(messages, list):
                self._messages(place, messages, line)
        if tools := fields.get("tools") or fields.get("functions"):
            self._tools(place, tools, line)

    def _field(self, place: Place, path: str, value: object, line: int) -> None:
        self.uses.add(Use(place, path, self._values.kept(place, path, value)), line)
        kind = _CONSTRAINTS.get(path)
        if kind is not None and value:
            self._constraint(kind, _schema_in(value) if kind == "json_schema" else value, place, path, line)

    def _left_out(self, place: Place, fields: Tree, line: int) -> None:
        if all(fields.get(name) is None for name in _ANSWERS_MOST):
            self.uses.add(Use(place, "max_tokens", ABSENT), line)
        for name in _DRAWING:
            if fields.get(name) is None:
                self.uses.add(Use(place, name, ABSENT), line)

    def _together(self, place: Place, fields: Tree, line: int) -> None:
        """Pairs that only matter in one request; the names are those that checks ask for."""
        temperature = fields.get("temperature")
        if fields.get("logprobs") and temperature is not None and temperature != 1:
            self._pair("logprobs with a temperature", line)
        if fields.get("seed") is not None and temperature != 0:
            self._pair("seed while drawing", line)
        if temperature == 0:
            self._pair("greedy", line)
        if (
            place == "completions"
            and fields.get("max_tokens") is None
            and fields.get("max_completion_tokens") is not None
        ):
            self._pair("max_completion_tokens on completions", line)
        if fields.get("stream_options") is not None and not fields.get("stream"):
            self._pair("stream_options without stream", line)
        if isinstance(several := fields.get("n"), int) and several > 1:
            self._pair("several answers", line)
        if fields.get("stream"):
            self._pair("stream" if fields.get("stream_options") else f"stream without usage on {place}", line)
        else:
            self._pair("not streamed", line)
        if fields.get("tools") and fields.get("tool_choice") is None:
            self._pair("tools without a choice", line)
        if place == "chat":
            self._thinking(fields, line)

    def _thinking(self, fields: Tree, line: int) -> None:
        """What of thinking is left to defaults, and whether it is asked for."""
        effort = fields.get("reasoning_effort")
        given = fields.get("chat_template_kwargs")
        switches = given if isinstance(given, dict) else {}
        if effort is None and "reasoning_effort" not in switches:
            self._pair("effort left open", line)
        if effort is None and not any(name in switches for name in _THINKING_SWITCHES):
            self._pair("thinking left open", line)
        elif effort not in (None, "none") or any(switches.get(name) is True for name in _THINKING_SWITCHES):
            self._pair("thinking asked for", line)

    def _pair(self, name: str, line: int) -> None:
        rows = self.uses.together.get(name)
        if rows is None:
            rows = self.uses.together[name] = Rows()
        rows.add(line)

    def _prompt(self, prompt: object, line: int, *, adds_special: bool) -> None:
        texts = [prompt] if isinstance(prompt, str) else prompt if isinstance(prompt, list) else []
        if texts and isinstance(texts[0], int):
            self.uses.add(Use("completions", "prompt", "<token ids>"), line)
            return
        self.uses.add(Use("completions", "prompt", LIST if isinstance(prompt, list) else TEXT), line)
        for text in texts:
            if isinstance(text, str) and text.lstrip().startswith(_TEMPLATE_MARKS):
                self.uses.add(Use("completions", "prompt.template", "<marks of a template>"), line)
                if len(self.uses.templated) < MOST_SAMPLES:
                    self.uses.templated.append(Sample(line, text[:_SAMPLE_CHARACTERS]))
            if isinstance(text, str) and text.startswith(_BEGIN_MARKS):
                self._pair("begins with BOS" if adds_special else "begins with BOS, special tokens off", line)

    def _messages(self, place: Place, messages: Sequence[object], line: int) -> None:
        add = self.uses.add
        for message in messages:
            if not isinstance(message, dict):
                continue
            role = message.get("role")
            add(Use(place, "messages.role", word(role)), line)
            for name, value in message.items():
                if name not in {"role", "content"} and value is not None:
                    add(Use(place, f"messages.{name}", self._values.kept(place, f"messages.{name}", value)), line)
            for kind in _content_kinds(message.get("content")):
                add(Use(place, "messages.content.type", kind), line)
        last = messages[-1] if messages else None
        if isinstance(last, dict) and last.get("role") == "assistant":
            add(Use(place, "messages.last", "assistant"), line)

    def _tools(self, place: Place, tools: object, line: int) -> None:
        self.uses.add(Use(place, "tools", LIST), line)
        for tool in tools if isinstance(tools, list) else ():
            if not isinstance(tool, dict):
                continue
            self.uses.add(Use(place, "tools.type", self._values.kept(place, "tools.type", tool.get("type"))), line)
            inner = tool.get("function", tool)
            if not isinstance(inner, dict):
                continue
            if inner.get("strict") is not None:
                self.uses.add(Use(place, "tools.strict", bool(inner["strict"])), line)
            if isinstance(schema := inner.get("parameters"), dict):
                key = self._key(schema)
                if key not in self.uses.tool_schemas and len(self.uses.tool_schemas) < MOST_CONSTRAINTS:
                    self.uses.tool_schemas[key] = Constraint(key, "json_schema", schema)
                _rows(self.uses.by_tool_schema, key).add(line)

    def _constraint(self, kind: ConstraintKind, content: object, place: Place, path: str, line: int) -> None:
        key = self._key([kind, content])
        if key not in self.uses.constraints:
            if len(self.uses.constraints) >= MOST_CONSTRAINTS:
                return
            self.uses.constraints[key] = Constraint(key, kind, content)
        _rows(self.uses.by_constraint, key).add(line)
        at = ConstraintAt(key, place, path)
        rows = self.uses.constraints_at.get(at)
        if rows is None:
            rows = self.uses.constraints_at[at] = Rows()
        rows.add(line)

    def _key(self, content: object) -> str:
        """A hash of a constraint as it is written: properties are enforced in their order, so order counts."""
        return hashlib.blake2b(msgspec.json.encode(content), digest_size=_HASH_BYTES).hexdigest()


def place_of(body: Tree) -> Place:
    """The endpoint that a body is for: messages for chat, an input for responses, else a prompt for completions."""
    if "messages" in body:
        return "chat"
    return "responses" if "input" in body and "prompt" not in body else "completions"


def _rows(of: dict[str, Rows], key: str) -> Rows:
    rows = of.get(key)
    if rows is None:
        rows = of[key] = Rows()
    return rows


def _content_kinds(content: object) -> Iterator[str]:
    for piece in content if isinstance(content, list) else ():
        kind = piece.get("type") if isinstance(piece, dict) else None
        yield str(word(kind))


def _schema_in(value: object) -> object:
    """The schema itself, out of what OpenAI's interface wraps it in; a schema as JSON text is decoded."""
    if isinstance(value, str):
        try:
            return msgspec.json.decode(value.encode("utf-8", "surrogatepass"))
        except msgspec.DecodeError:
            return value
    if isinstance(value, dict):
        inner = value.get("schema", value.get("json_schema"))
        if isinstance(inner, dict) and ("name" in value or "strict" in value or len(value) == 1 or "type" in value):
            return inner
    return value
