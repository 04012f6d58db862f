"""Logs with one habit or several that ruin prefix sharing, each at a strength and a place, from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from breakers_text import (
    DATES,
    DATES_HELD_OUT,
    FIRST_NAMES,
    IDS,
    IDS_HELD_OUT,
    LABELS,
    LABELS_HELD_OUT,
    LAST_NAMES,
    Writer,
    moment,
)

from unmoor.traffic.entry import Entry, Part, Prompt

Log = list[Entry]


LONGEST_TALK = 10  # messages of a dialogue, then another begins
SOMETIMES = 0.3  # how often a log has tools, examples or a schema that are in order
LAYOUTS = ("paragraphs", "markdown", "bullets")
LAYOUTS_HELD_OUT = ("one line", "xml", "numbered")


def _system(writer: Writer, layout: str, characters: int) -> list[str]:
    """A system prompt's paragraphs, between any two of which something may be put."""
    rng = writer.rng
    paragraphs = [writer.text(rng.randint(60, 160))]
    while sum(map(len, paragraphs)) < characters:
        body = writer.text(rng.randint(150, 400))
        if layout == "markdown":
            body = f"## {writer.word().title()} {writer.word()}\n{body}"
        elif layout in {"bullets", "numbered"}:
            marks = ("-",) * 20 if layout == "bullets" else [f"{i}." for i in range(1, 21)]
            body = "\n".join(f"{mark} {writer.sentence()}" for mark in marks[: rng.randint(3, 6)])
        elif layout == "xml":
            body = f"<{writer.word()}>\n{body}\n</{writer.word()}>"
        paragraphs.append(body)
    return paragraphs


def tool(writer: Writer, name: str) -> dict[str, object]:
    """A tool's definition."""
    properties = {
        writer.word() + str(i): {"type": writer.rng.choice(["string", "integer"]), "description": writer.sentence()}
        for i in range(writer.rng.randint(2, 5))
    }
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {
        "type": "function",
        "function": {"name": name, "description": writer.text(120), "parameters": parameters},
    }


def shuffled_keys(value: object, rng: random.Random) -> object:
    """The same value with the keys of every object in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled_keys(inner, rng)) for key, inner in value.items()]
        rng.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [shuffled_keys(inner, rng) for inner in value]
    return value


EXAMPLES: dict[str, Callable[[int, str, str], str]] = {
    "question": lambda _, q, a: f"Q: {q}\nA: {a}",
    "numbered": lambda i, q, a: f"Example {i}:\nInput: {q}\nOutput: {a}",
    "plain": lambda _, q, a: f"{q}\n-> {a}",
    "ordinal": lambda i, q, a: f"({i}) {q} / {a}",
}
EXAMPLES_HELD_OUT: dict[str, Callable[[int, str, str], str]] = {
    "xml": lambda _, q, a: f"<example>\n{q}\n=> {a}\n</example>",
    "chat": lambda _, q, a: f"User: {q}\nAssistant: {a}",
    "fenced": lambda _, q, a: f"```\n{q}\n```\n{a}",
    "starred": lambda _, q, a: f"* {q} => {a}",
}


@dataclass
class Habits:
    """What is wrong with a log: codes, and for each how strong and where."""

    kinds: frozenset[str] = frozenset()
    strength: float = 1.0  # the share of requests that have it
    place: str = "start"  # start, middle or end of the system prompt, for what is put into it
    examples_as: str = "text"  # text or messages
    keys_in: str = "tools"  # tools or text
    user_text: str = "inside"  # inside the system message, as a message before it, or in the user's own ("single")


@dataclass
class Maker:
    """Makes one log from one seed: long or short, alone or beside another application, of questions or dialogues."""

    seed: int
    held_out: bool
    habits: Habits = field(default_factory=Habits)

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)  # noqa: S311 - the same log from the same seed
        self.writer = Writer(rng, rng.choice(("es", "none") if self.held_out else ("en", "de")))
        self.layout = rng.choice(LAYOUTS_HELD_OUT if self.held_out else LAYOUTS)
        self.system = _system(self.writer, self.layout, rng.randint(1000, 4000))
        self.joint = " " if self.layout == "one line" else "\n\n"
        self.tools = [tool(self.writer, f"{self.writer.word()}_{i}") for i in range(rng.randint(3, 9))]
        count = rng.randint(6, 8)  # so many that an order seldom comes twice
        self.examples = [(self.writer.text(80), self.writer.text(60)) for _ in range(count)]
        self.schema = tool(self.writer, "answer")
        wanted = self.habits.kinds
        self.with_tools = "tools_order" in wanted or ("json_key_order" in wanted and self.habits.keys_in == "tools")
        self.with_tools = self.with_tools or rng.random() < SOMETIMES
        self.with_examples = "examples_order" in wanted or rng.random() < SOMETIMES
        self.with_schema = ("json_key_order" in wanted and self.habits.keys_in == "text") or rng.random() < SOMETIMES
        self.date = rng.choice(list((DATES_HELD_OUT if self.held_out else DATES).values()))
        # A day changes slowly, so its log is a long one.
        self.step_s = 9000.0 if self.date is DATES_HELD_OUT["day"] else rng.choice((61.0, 300.0, 3700.0))
        self.id = rng.choice(list((IDS_HELD_OUT if self.held_out else IDS).values()))
        labels = LABELS_HELD_OUT if self.held_out else LABELS
        self.labels = {kind: rng.choice(choices) for kind, choices in labels.items()}
        self.example = rng.choice(list((EXAMPLES_HELD_OUT if self.held_out else EXAMPLES).values()))
        self.between = rng.choice(("\n", "\n\n"))
        self.outro = self.writer.sentence()
        self.indent = rng.choice((None, 2))

        self.requests = rng.choice((48, 160, 300))
        self.other = Part("system", self.writer.text(1200)) if rng.random() < SOMETIMES else None
        self.talks: list[list[Part]] | None = [[] for _ in range(6)] if rng.random() < SOMETIMES else None

    def log(self) -> Log:
        """The requests, in order."""
        return [self._entry(i) if self.other is None or i % 3 else self._from_other(i) for i in range(self.requests)]

    def _from_other(self, i: int) -> Entry:
        """A request of another application, in which nothing is wrong."""
        parts = (self.other or Part("system", ""), Part("user", self.writer.text(200)))
        return self._entry_of(i, Prompt(parts=parts))

    def _request(self) -> list[Part]:
        """A question, or the next turn of one of several dialogues."""
        question = Part("user", self.writer.text(self.rng.randint(40, 500)))
        if self.talks is None:
            return [question]
        talk = self.rng.choice(self.talks)
        if len(talk) > LONGEST_TALK:
            talk.clear()
        asked = [*talk, question]
        talk[:] = [*asked, Part("assistant", self.writer.text(self.rng.randint(40, 300)))]
        return asked

    def _has(self, kind: str) -> bool:
        return kind in self.habits.kinds and self.rng.random() < self.habits.strength

    def _entry(self, i: int) -> Entry:
        paragraphs = self._paragraphs(i)
        parts: list[Part] = []
        profile = self._profile() if "user_text_first" in self.habits.kinds else None
        if profile is not None and self.habits.user_text == "message":
            parts.append(Part("system", profile))
        if profile is not None and self.habits.user_text == "inside":
            paragraphs.insert(0 if self.habits.place == "start" else 1, profile)
        system = self.joint.join(paragraphs)
        if profile is not None and self.habits.user_text == "single":
            return self._entry_of(i, Prompt(parts=(Part("user", f"{profile}\n\n{system}"),)))
        parts.append(Part("system", system))
        if self.with_examples and self.habits.examples_as == "messages":
            for question, answer in self._ordered_examples():
                parts += (Part("user", question), Part("assistant", answer))
        parts += self._request()
        return self._entry_of(i, Prompt(parts=tuple(parts), tools=tuple(self._tools())))

    def _paragraphs(self, i: int) -> list[str]:
        paragraphs = list(self.system)
        if self.with_schema:
            text = self._json(self.schema, shuffle=self._has("json_key_order") and self.habits.keys_in == "text")
            paragraphs.insert(len(paragraphs) // 2, f"Answer as this says:\n{text}")
        if self.with_examples and self.habits.examples_as == "text":
            listed = [self.example(n + 1, q, a) for n, (q, a) in enumerate(self._ordered_examples())]
            block = self.between.join(listed)
            paragraphs += [f"\n\n{block}\n\n" if self.layout == "one line" else block, self.outro]
        for kind in ("id_in_prefix", "date_in_prefix"):
            if kind not in self.habits.kinds:
                continue
            said = self.rng.random() < self.habits.strength
            value = self.date(moment(i, self.step_s)) if kind == "date_in_prefix" else self.id(self.rng, i)
            at = {"start": 0, "middle": 1}[self.habits.place]
            if said:
                paragraphs.insert(at, self.labels[kind].format(value))
        return paragraphs

    def _ordered_examples(self) -> list[tuple[str, str]]:
        examples = list(self.examples)
        if self._has("examples_order"):
            self.rng.shuffle(examples)
        return examples

    def _tools(self) -> list[str]:
        if not self.with_tools:
            return []
        tools = list(self.tools)
        if self._has("tools_order"):
            self.rng.shuffle(tools)
        shuffle = self._has("json_key_order") and self.habits.keys_in == "tools"
        return [self._json(tool, shuffle=shuffle) for tool in tools]

    def _json(self, value: object, *, shuffle: bool) -> str:
        return json.dumps(shuffled_keys(value, self.rng) if shuffle else value, indent=self.indent)

    def _profile(self) -> str:
        """What one user is, in a form that all share or in free words."""
        rng = self.rng
        if self.held_out:
            return self.writer.text(rng.randint(200, 700))
        name = f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}"
        return f"About the user\nName: {name}\nPlan: {rng.choice(('free', 'pro'))}\nNotes: {self.writer.text(200)}"

    def _entry_of(self, i: int, prompt: Prompt) -> Entry:
        return Entry(at_s=i * self.step_s, input_tokens=None, output_tokens=100, content=prompt)
