"""Logs with and without habits that ruin prefix sharing, made from a seed: nothing in them is anybody's text.

A log is a stack of choices: how its system prompt is written, how its requests look, and which habits it has, each at a
strength and a place. `STYLES` are those on which the thresholds of the kinds were set; `HELD_OUT` are others, in other
languages, layouts, formats of dates and ids and ways to list examples, that were looked at only to be counted.
"""

from __future__ import annotations

import json
import random
import string
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from unmoor.traffic.entry import Entry, Part, Prompt

Log = list[Entry]


@dataclass(frozen=True)
class Case:
    """One log, by name, with the codes of the habits that were put into it; `held_out` where its style is."""

    name: str
    kinds: frozenset[str]
    log: Log
    held_out: bool


# Words

_SYLLABLES = "ba be bo da de do fa fe ga ge ka ke la le li lo ma me mi mo na ne no pa pe ra re ri ro sa se ta te to va ve".split()
_ENGLISH = (
    "the a of to in and that is for with as on by this be from at or an are will not can all has their when must may "
    "answer customer policy order refund account always never clearly short reason source page step detail tone offer "
    "question reply check ask give note keep say use make list explain follow confirm share report result team support"
).split()
_GERMAN = (
    "der die das und in zu den mit von ist nicht ein eine auf als auch es an werden aus er hat dass sie nach wird bei "
    "immer nie kurz klar Antwort Kunde Bestellung Frage Schritt Quelle Regel Ton Konto prüfe gib nenne erkläre folge"
).split()
_SPANISH = (
    "el la de que y a en un ser se no haber por con su para como estar tener le lo todo pero más hacer o poder decir "
    "siempre nunca respuesta cliente pedido pregunta paso fuente regla tono cuenta revisa explica sigue confirma"
).split()
_FIRST = "Alice Bob Carla Dmitri Elena Farid Grace Hugo Ines Jonas Keiko Liam Maria Noah Olga Pedro Quinn Rosa Sven Tara".split()
_LAST = "Smith Jones Keller Ivanov Rossi Haddad Okafor Lopez Tanaka Novak Silva Berg Moreau Patel Kim Weber".split()


class Writer:
    """Writes text from a seed: sentences of a language, or of words that no language has."""

    def __init__(self, rng: random.Random, language: str) -> None:
        self.rng = rng
        self.words = {"en": _ENGLISH, "de": _GERMAN, "es": _SPANISH}.get(language, [])

    def word(self) -> str:
        """A word; one in three is rare."""
        if self.words and self.rng.random() < 2 / 3:
            return self.rng.choice(self.words)
        return "".join(self.rng.choices(_SYLLABLES, k=self.rng.randint(2, 4)))

    def sentence(self) -> str:
        """A sentence of 6 to 16 words."""
        words = [self.word() for _ in range(self.rng.randint(6, 16))]
        return " ".join(words).capitalize() + self.rng.choice("....:!")

    def text(self, characters: int) -> str:
        """Sentences of about so many characters."""
        sentences = [self.sentence()]
        while sum(map(len, sentences)) < characters:
            sentences.append(self.sentence())
        return " ".join(sentences)


# What varies from request to request


def _moment(i: int, step_s: float) -> datetime:
    return datetime(2025, 4, 28, 7, 12, 9, tzinfo=UTC) + timedelta(seconds=i * step_s)


DATES: dict[str, Callable[[datetime], str]] = {
    "iso": lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "spoken": lambda t: t.strftime("%A, %B %d, %Y at %H:%M"),
    "minute": lambda t: t.strftime("%Y-%m-%d %H:%M"),
    "epoch": lambda t: str(int(t.timestamp())),
}
DATES_HELD_OUT: dict[str, Callable[[datetime], str]] = {
    "american": lambda t: t.strftime("%m/%d/%Y %I:%M %p"),
    "mail": lambda t: t.strftime("%a, %d %b %Y %H:%M:%S GMT"),
    "compact": lambda t: t.strftime("%Y%m%dT%H%M%SZ"),
    "chinese": lambda t: f"{t.year}年{t.month}月{t.day}日 {t:%H:%M}",
    "clock": lambda t: t.strftime("%H:%M:%S"),
    "day": lambda t: t.strftime("%d %b %Y"),
}
IDS: dict[str, Callable[[random.Random, int], str]] = {
    "uuid": lambda r, _: str(uuid.UUID(int=r.getrandbits(128))),
    "hex": lambda r, _: f"{r.getrandbits(64):016x}",
    "counter": lambda _, i: f"#{4711 + i}",
    "name": lambda r, _: f"{r.choice(_FIRST)} {r.choice(_LAST)}",
    "email": lambda r, _: f"{r.choice(_FIRST).lower()}{r.randint(1, 400)}@example.org",
}
IDS_HELD_OUT: dict[str, Callable[[random.Random, int], str]] = {
    "session": lambda r, _: "sess_" + "".join(r.choices(string.ascii_letters + string.digits, k=20)),
    "ulid": lambda r, _: "01J" + "".join(r.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=23)),
    "ticket": lambda r, _: f"ACME-{r.randint(1000, 99999)}",
    "double name": lambda r, _: f"{r.choice(_FIRST)} {r.choice(_LAST)}-{r.choice(_LAST)}",
    "user number": lambda r, _: f"user {r.randint(1, 99999)}",
    "trace": lambda r, _: f"00-{r.getrandbits(128):032x}-{r.getrandbits(64):016x}-01",
}
LABELS = {
    "date_in_prefix": ("Current date: {}", "It is now {}.", "[{}]", "Today is {}. Keep that in mind."),
    "id_in_prefix": ("Session: {}", "You are talking to {}.", "[request {}]", "The user is {}; be polite."),
}
LABELS_HELD_OUT = {
    "date_in_prefix": ("<now>{}</now>", "Zeit: {}", "(as of {}, local time)", "# {}"),
    "id_in_prefix": ("<caller>{}</caller>", "Kennung={}", "(conversation {}, keep private)", "// {}"),
}


# How a system prompt is written

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


def _tool(writer: Writer, name: str) -> dict[str, object]:
    properties = {
        writer.word() + str(i): {"type": writer.rng.choice(["string", "integer"]), "description": writer.sentence()}
        for i in range(writer.rng.randint(2, 5))
    }
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {
        "type": "function",
        "function": {"name": name, "description": writer.text(120), "parameters": parameters},
    }


def _shuffled_keys(value: object, rng: random.Random) -> object:
    if isinstance(value, dict):
        items = [(key, _shuffled_keys(inner, rng)) for key, inner in value.items()]
        rng.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [_shuffled_keys(inner, rng) for inner in value]
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
    """Makes one log from one seed."""

    seed: int
    held_out: bool
    habits: Habits = field(default_factory=Habits)
    requests: int = 160

    def __post_init__(self) -> None:
        rng = self.rng = random.Random(self.seed)  # noqa: S311 - the same log from the same seed
        self.writer = Writer(rng, rng.choice(("es", "none") if self.held_out else ("en", "de")))
        self.layout = rng.choice(LAYOUTS_HELD_OUT if self.held_out else LAYOUTS)
        self.system = _system(self.writer, self.layout, rng.randint(1000, 4000))
        self.joint = " " if self.layout == "one line" else "\n\n"
        self.tools = [_tool(self.writer, f"{self.writer.word()}_{i}") for i in range(rng.randint(3, 9))]
        count = rng.randint(4, 8)
        self.examples = [(self.writer.text(80), self.writer.text(60)) for _ in range(count)]
        self.schema = _tool(self.writer, "answer")
        wanted = self.habits.kinds
        self.with_tools = "tools_order" in wanted or ("json_key_order" in wanted and self.habits.keys_in == "tools")
        self.with_tools = self.with_tools or rng.random() < 0.3
        self.with_examples = "examples_order" in wanted or rng.random() < 0.3
        self.with_schema = ("json_key_order" in wanted and self.habits.keys_in == "text") or rng.random() < 0.2
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

    def log(self) -> Log:
        """The requests, in order."""
        return [self._entry(i) for i in range(self.requests)]

    def _has(self, kind: str) -> bool:
        return kind in self.habits.kinds and self.rng.random() < self.habits.strength

    def _entry(self, i: int) -> Entry:
        paragraphs = self._paragraphs(i)
        parts: list[Part] = []
        profile = self._profile() if "user_text_first" in self.habits.kinds else None
        request = self.writer.text(self.rng.randint(40, 500))
        if profile is not None and self.habits.user_text == "message":
            parts.append(Part("system", profile))
        if profile is not None and self.habits.user_text == "inside":
            paragraphs.insert(0 if self.habits.place == "start" else 1, profile)
        system = self.joint.join(paragraphs)
        if profile is not None and self.habits.user_text == "single":
            return self._priced(i, Prompt(parts=(Part("user", f"{profile}\n\n{system}"),)))
        parts.append(Part("system", system))
        if self.with_examples and self.habits.examples_as == "messages":
            for question, answer in self._ordered_examples():
                parts += (Part("user", question), Part("assistant", answer))
        parts.append(Part("user", request))
        return self._priced(i, Prompt(parts=tuple(parts), tools=tuple(self._tools())))

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
            value = self.date(_moment(i, self.step_s)) if kind == "date_in_prefix" else self.id(self.rng, i)
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
        return json.dumps(_shuffled_keys(value, self.rng) if shuffle else value, indent=self.indent)

    def _profile(self) -> str:
        """What one user is, in a form that all share or in free words."""
        rng = self.rng
        if self.held_out:
            return self.writer.text(rng.randint(200, 700))
        name = f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"
        return f"About the user\nName: {name}\nPlan: {rng.choice(('free', 'pro'))}\nNotes: {self.writer.text(200)}"

    def _priced(self, i: int, prompt: Prompt) -> Entry:
        return Entry(at_s=i * self.step_s, input_tokens=None, output_tokens=100, content=prompt)


# Logs in which nothing is wrong


def _unique(writer: Writer, i: int) -> Entry:
    return _said(i, Part("user", writer.text(writer.rng.randint(100, 2000))))


def _said(i: int, *parts: Part, tools: Sequence[str] = (), tenant: str | None = None) -> Entry:
    prompt = Prompt(parts=parts, tools=tuple(tools))
    return Entry(at_s=float(i), input_tokens=None, output_tokens=50, content=prompt, tenant=tenant)


def clean_unique(writer: Writer) -> Log:
    """Prompts that have nothing in common."""
    return [_unique(writer, i) for i in range(150)]


def clean_shared(writer: Writer) -> Log:
    """A system prompt that is truly shared, with dates and ids of its own in it."""
    system = f"Version of 2025-03-01, build 8f3a9c1d. {writer.text(2000)}"
    return [_said(i, Part("system", system), Part("user", writer.text(300))) for i in range(200)]


def clean_dialogues(writer: Writer) -> Log:
    """Dialogues whose prompts grow turn by turn, several at a time."""
    system, log = Part("system", writer.text(800)), Log()
    talks: list[list[Part]] = [[system] for _ in range(12)]
    for i in range(200):
        talk = writer.rng.choice(talks)
        hello = writer.rng.choice(("Hello", "Thanks!", writer.text(100), writer.text(200)))
        talk.append(Part("user", hello))
        log.append(_said(i, *talk))
        talk.append(Part("assistant", writer.rng.choice(("How can I help you today?", writer.text(150)))))
        if len(talk) > 14:  # noqa: PLR2004 - then another begins
            talks[talks.index(talk)] = [system]
    return log


def clean_tenants(writer: Writer) -> Log:
    """Tenants with system prompts of their own, and shared house rules in none of them."""
    systems = [writer.text(writer.rng.randint(600, 2500)) for _ in range(8)]
    return [
        _said(i, Part("system", systems[k]), Part("user", writer.text(200)), tenant=f"t{k}")
        for i in range(200)
        for k in [writer.rng.randrange(8)]
    ]


def clean_tenants_of_one_form(writer: Writer) -> Log:
    """Tenants whose system prompts are one form with the tenant's name in it."""
    rules, rng = writer.text(1500), writer.rng
    names = [f"{writer.word().title()} {writer.word().title()} Ltd" for _ in range(12)]
    return [
        _said(i, Part("system", f"You work for {names[k]}. {rules}"), Part("user", writer.text(200)), tenant=names[k])
        for i in range(240)
        for k in [rng.randrange(12)]
    ]


def clean_tools_by_tenant(writer: Writer) -> Log:
    """Tenants with tools of their own, some of them the same, each in its own steady order."""
    rng = writer.rng
    tools = [json.dumps(_tool(writer, f"tool_{i}")) for i in range(14)]
    owned = [rng.sample(tools, k=rng.randint(3, 8)) for _ in range(6)]
    system = Part("system", writer.text(500))
    return [_said(i, system, Part("user", writer.text(200)), tools=rng.choice(owned)) for i in range(200)]


def clean_documents(writer: Writer) -> Log:
    """Documents found for each question, out of a small store, best first."""
    rng = writer.rng
    store = [f"[{i}] {writer.text(300)}" for i in range(30)]
    system = Part("system", writer.text(900))
    return [
        _said(i, system, Part("user", "\n\n".join((*rng.sample(store, k=5), f"Question: {writer.text(60)}"))))
        for i in range(200)
    ]


def clean_documents_in_system(writer: Writer) -> Log:
    """The same at the end of the system message, behind what is shared."""
    rng, rules = writer.rng, writer.text(900)
    store = [writer.text(400) for _ in range(40)]
    return [
        _said(i, Part("system", f"{rules}\n\nContext:\n" + "\n---\n".join(rng.sample(store, k=4))), Part("user", writer.text(80)))
        for i in range(200)
    ]


def clean_code(writer: Writer) -> Log:
    """Code with dates and ids in the user's text."""
    rng, system = writer.rng, Part("system", writer.text(700))

    def code(i: int) -> str:
        lines = [f"# changed {_moment(i, 7000.0):%Y-%m-%d %H:%M} by {rng.choice(_FIRST)}", "import datetime"]
        lines += [f"def {writer.word()}_{rng.randint(1, 99)}(x):\n    return x + {rng.random():.4f}" for _ in range(12)]
        return "\n".join(lines)

    return [_said(i, system, Part("user", f"{writer.sentence()}\n```python\n{code(i)}\n```")) for i in range(160)]


def clean_logs_to_read(writer: Writer) -> Log:
    """A server's log lines, full of times and ids, as the user's text behind a fixed instruction."""
    rng, lead = writer.rng, writer.text(900)

    def line(i: int, n: int) -> str:
        return f"{_moment(i, 3600.0 + n):%Y-%m-%dT%H:%M:%S} {rng.getrandbits(48):012x} {writer.sentence()}"

    return [_said(i, Part("user", lead + "\n\n" + "\n".join(line(i, n) for n in range(10)))) for i in range(150)]


def clean_date_last(writer: Writer) -> Log:
    """A date and an id where they should be: in the last message."""
    rng, system = writer.rng, Part("system", writer.text(1600))
    return [
        _said(i, system, Part("user", f"{writer.text(150)}\n\nNow: {_moment(i, 60.0):%Y-%m-%d %H:%M}, id {rng.getrandbits(64):x}"))
        for i in range(200)
    ]


def clean_day(writer: Writer) -> Log:
    """The day in the system prompt, over two days: it costs less than one in a hundred."""
    rules = writer.text(1200)
    return [
        _said(i, Part("system", f"Today is {_moment(i, 700.0):%A, %Y-%m-%d}. {rules}"), Part("user", writer.text(150)))
        for i in range(240)
    ]


def clean_examples(writer: Writer) -> Log:
    """Examples as messages, in one order."""
    shots = [Part(role, writer.text(90)) for _ in range(6) for role in ("user", "assistant")]
    system = Part("system", writer.text(400))
    return [_said(i, system, *shots, Part("user", writer.text(120))) for i in range(200)]


def clean_agent(writer: Writer) -> Log:
    """An agent with tools whose answers carry times, ids and JSON in any order."""
    rng = writer.rng
    tools = [json.dumps(_tool(writer, f"act_{i}")) for i in range(5)]
    system, log, i = Part("system", writer.text(900)), Log(), 0
    while len(log) < 180:  # noqa: PLR2004 - as many as the others
        talk = [system, Part("user", writer.text(150))]
        for _ in range(rng.randint(2, 8)):
            log.append(_said(i, *talk, tools=tools))
            i += 1
            answer = _shuffled_keys({"at": _moment(i, 9.0).isoformat(), "id": f"{rng.getrandbits(64):x}", "text": writer.text(80)}, rng)
            talk += (Part("assistant", writer.sentence()), Part("tool", json.dumps(answer)))
    return log


def clean_records(writer: Writer) -> Log:
    """Records as the user's JSON, its keys in any order, behind a shared system prompt."""
    rng, system = writer.rng, Part("system", writer.text(1000))
    keys = [writer.word() + str(i) for i in range(6)]
    return [
        _said(i, system, Part("user", json.dumps(_shuffled_keys({key: writer.text(40) for key in keys}, rng))))
        for i in range(200)
    ]


def clean_settings(writer: Writer) -> Log:
    """A setting with four values early in the system prompt."""
    rng, rules = writer.rng, writer.text(1200)
    return [
        _said(i, Part("system", f"Answer in {rng.choice(('English', 'German', 'French', 'Dutch'))}. {rules}"), Part("user", writer.text(300)))
        for i in range(400)
    ]


def clean_completions(writer: Writer) -> Log:
    """Completions: one text without a role, a fixed lead and then the user's."""
    lead = writer.text(500)
    return [_said(i, Part("", f"{lead}\n\n{writer.text(400)}\n\nAnswer:")) for i in range(180)]


def clean_two_apps(writer: Writer) -> Log:
    """Two applications behind one gateway, one with tools, one without."""
    rng = writer.rng
    one, two = Part("system", writer.text(900)), Part("system", writer.text(1800))
    tools = [json.dumps(_tool(writer, f"app_{i}"), indent=2) for i in range(4)]
    return [
        _said(i, one if k else two, Part("user", writer.text(200)), tools=tools if k else ())
        for i in range(200)
        for k in [rng.randrange(2)]
    ]


def clean_personas(writer: Writer) -> Log:
    """Characters that are written each in its own words."""
    rng = writer.rng
    personas = [f"You are {rng.choice(_FIRST)}, {writer.text(500)}" for _ in range(40)]
    return [_said(i, Part("system", rng.choice(personas)), Part("user", writer.text(120))) for i in range(200)]


def clean_translations(writer: Writer) -> Log:
    """The user's text between a short lead and a short end that all share."""
    return [
        _said(i, Part("user", f"Translate this, and nothing else:\n\n{writer.text(writer.rng.randint(50, 600))}\n\nIn formal German, please."))
        for i in range(200)
    ]


def clean_growing_file(writer: Writer) -> Log:
    """One file that its user edits from request to request."""
    rng, system = writer.rng, Part("system", writer.text(700))
    lines = [writer.sentence() for _ in range(40)]
    log = Log()
    for i in range(120):
        lines[rng.randrange(20, 40)] = writer.sentence()
        log.append(_said(i, system, Part("user", "\n".join(lines) + "\n\n" + writer.sentence())))
    return log


def clean_retries(writer: Writer) -> Log:
    """The same prompt sent several times."""
    log = Log()
    for i in range(60):
        log += [_unique(writer, i)] * writer.rng.randint(1, 4)
    return log


def clean_tool_choice(writer: Writer) -> Log:
    """Tools that grow in number during a conversation, always in one order."""
    tools = [json.dumps(_tool(writer, f"step_{i}")) for i in range(8)]
    system = Part("system", writer.text(600))
    return [_said(i, system, Part("user", writer.text(150)), tools=tools[: 3 + i % 5]) for i in range(200)]


CLEAN = (
    clean_unique,
    clean_shared,
    clean_dialogues,
    clean_tenants,
    clean_tenants_of_one_form,
    clean_tools_by_tenant,
    clean_documents,
    clean_code,
    clean_date_last,
    clean_day,
    clean_examples,
    clean_agent,
    clean_settings,
)
CLEAN_HELD_OUT = (
    clean_documents_in_system,
    clean_logs_to_read,
    clean_records,
    clean_completions,
    clean_two_apps,
    clean_personas,
    clean_translations,
    clean_growing_file,
    clean_retries,
    clean_tool_choice,
)

# Which logs there are

SINGLES: tuple[tuple[str, Habits], ...] = tuple(
    (f"{kind} {place} {strength:g}", Habits(frozenset({kind}), strength=strength, place=place))
    for kind in ("date_in_prefix", "id_in_prefix")
    for place in ("start", "middle")
    for strength in (1.0, 0.4)
) + (
    ("tools_order 1", Habits(frozenset({"tools_order"}))),
    ("tools_order 0.3", Habits(frozenset({"tools_order"}), strength=0.3)),
    ("json_key_order tools 1", Habits(frozenset({"json_key_order"}))),
    ("json_key_order tools 0.3", Habits(frozenset({"json_key_order"}), strength=0.3)),
    ("json_key_order text 1", Habits(frozenset({"json_key_order"}), keys_in="text")),
    ("examples_order text 1", Habits(frozenset({"examples_order"}))),
    ("examples_order text 0.4", Habits(frozenset({"examples_order"}), strength=0.4)),
    ("examples_order messages 1", Habits(frozenset({"examples_order"}), examples_as="messages")),
    ("user_text_first inside start", Habits(frozenset({"user_text_first"}))),
    ("user_text_first inside middle", Habits(frozenset({"user_text_first"}), place="middle")),
    ("user_text_first message", Habits(frozenset({"user_text_first"}), user_text="message")),
    ("user_text_first single", Habits(frozenset({"user_text_first"}), user_text="single")),
)
COMBINED: tuple[tuple[str, Habits], ...] = tuple(
    (" + ".join(kinds), Habits(frozenset(kinds), place=place, examples_as=examples_as))
    for kinds, place, examples_as in (
        (("date_in_prefix", "id_in_prefix"), "start", "text"),
        (("date_in_prefix", "tools_order"), "start", "text"),
        (("json_key_order", "tools_order"), "start", "text"),
        (("date_in_prefix", "examples_order"), "middle", "text"),
        (("id_in_prefix", "examples_order"), "start", "messages"),
        (("id_in_prefix", "json_key_order"), "middle", "text"),
        (("date_in_prefix", "user_text_first"), "middle", "text"),
        (("date_in_prefix", "json_key_order", "tools_order"), "start", "text"),
        (("date_in_prefix", "examples_order", "id_in_prefix", "json_key_order", "tools_order"), "start", "text"),
    )
)


def cases(seed: int, *, held_out: bool, repeats: int = 1) -> list[Case]:
    """Every kind of log once per repeat, with habits and without, from one seed."""
    found = []
    for repeat in range(repeats):
        for at, (name, habits) in enumerate(SINGLES + COMBINED):
            maker = Maker(seed * 10_007 + repeat * 1_009 + at, held_out, habits)
            found.append(Case(name, habits.kinds, maker.log(), held_out))
        for at, clean in enumerate(CLEAN_HELD_OUT if held_out else CLEAN):
            rng = random.Random(seed * 20_011 + repeat * 2_003 + at)  # noqa: S311 - the same log from the same seed
            writer = Writer(rng, rng.choice(("es", "none") if held_out else ("en", "de")))
            found.append(Case(clean.__name__.replace("_", " "), frozenset(), clean(writer), held_out))
    return found
