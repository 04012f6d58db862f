"""Logs in which nothing is wrong, of many kinds, from a seed."""

from __future__ import annotations

import json
from collections.abc import Sequence

from breakers_habits import Log, shuffled_keys, tool
from breakers_text import FIRST_NAMES, Writer, moment

from unmoor.traffic.entry import Entry, Part, Prompt


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
    tools = [json.dumps(tool(writer, f"tool_{i}")) for i in range(14)]
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
        _said(
            i,
            Part("system", f"{rules}\n\nContext:\n" + "\n---\n".join(rng.sample(store, k=4))),
            Part("user", writer.text(80)),
        )
        for i in range(200)
    ]


def clean_code(writer: Writer) -> Log:
    """Code with dates and ids in the user's text."""
    rng, system = writer.rng, Part("system", writer.text(700))

    def code(i: int) -> str:
        lines = [f"# changed {moment(i, 7000.0):%Y-%m-%d %H:%M} by {rng.choice(FIRST_NAMES)}", "import datetime"]
        lines += [f"def {writer.word()}_{rng.randint(1, 99)}(x):\n    return x + {rng.random():.4f}" for _ in range(12)]
        return "\n".join(lines)

    return [_said(i, system, Part("user", f"{writer.sentence()}\n```python\n{code(i)}\n```")) for i in range(160)]


def clean_logs_to_read(writer: Writer) -> Log:
    """A server's log lines, full of times and ids, as the user's text behind a fixed instruction."""
    rng, lead = writer.rng, writer.text(900)

    def line(i: int, n: int) -> str:
        return f"{moment(i, 3600.0 + n):%Y-%m-%dT%H:%M:%S} {rng.getrandbits(48):012x} {writer.sentence()}"

    return [_said(i, Part("user", lead + "\n\n" + "\n".join(line(i, n) for n in range(10)))) for i in range(150)]


def clean_date_last(writer: Writer) -> Log:
    """A date and an id where they should be: in the last message."""
    rng, system = writer.rng, Part("system", writer.text(1600))
    return [
        _said(
            i,
            system,
            Part("user", f"{writer.text(150)}\n\nNow: {moment(i, 60.0):%Y-%m-%d %H:%M}, id {rng.getrandbits(64):x}"),
        )
        for i in range(200)
    ]


def clean_day(writer: Writer) -> Log:
    """The day in the system prompt, over two days: it costs less than one in a hundred."""
    rules = writer.text(1200)
    return [
        _said(i, Part("system", f"Today is {moment(i, 300.0):%A, %Y-%m-%d}. {rules}"), Part("user", writer.text(150)))
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
    tools = [json.dumps(tool(writer, f"act_{i}")) for i in range(5)]
    system, log, i = Part("system", writer.text(900)), Log(), 0
    while len(log) < 180:  # noqa: PLR2004 - as many as the others
        talk = [system, Part("user", writer.text(150))]
        for _ in range(rng.randint(2, 8)):
            log.append(_said(i, *talk, tools=tools))
            i += 1
            answer = shuffled_keys(
                {"at": moment(i, 9.0).isoformat(), "id": f"{rng.getrandbits(64):x}", "text": writer.text(80)}, rng
            )
            talk += (Part("assistant", writer.sentence()), Part("tool", json.dumps(answer)))
    return log


def clean_records(writer: Writer) -> Log:
    """Records as the user's JSON, its keys in any order, behind a shared system prompt."""
    rng, system = writer.rng, Part("system", writer.text(1000))
    keys = [writer.word() + str(i) for i in range(6)]
    return [
        _said(i, system, Part("user", json.dumps(shuffled_keys({key: writer.text(40) for key in keys}, rng))))
        for i in range(200)
    ]


def clean_settings(writer: Writer) -> Log:
    """A setting with four values early in the system prompt."""
    rng, rules = writer.rng, writer.text(1200)
    return [
        _said(
            i,
            Part("system", f"Answer in {rng.choice(('English', 'German', 'French', 'Dutch'))}. {rules}"),
            Part("user", writer.text(300)),
        )
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
    tools = [json.dumps(tool(writer, f"app_{i}"), indent=2) for i in range(4)]
    return [
        _said(i, one if k else two, Part("user", writer.text(200)), tools=tools if k else ())
        for i in range(200)
        for k in [rng.randrange(2)]
    ]


def clean_personas(writer: Writer) -> Log:
    """Characters that are written each in its own words."""
    rng = writer.rng
    personas = [f"You are {rng.choice(FIRST_NAMES)}, {writer.text(500)}" for _ in range(40)]
    return [_said(i, Part("system", rng.choice(personas)), Part("user", writer.text(120))) for i in range(200)]


def clean_translations(writer: Writer) -> Log:
    """The user's text between a short lead and a short end that all share."""
    return [
        _said(
            i,
            Part(
                "user",
                f"Translate this:\n\n{writer.text(writer.rng.randint(50, 600))}\n\nIn formal German, please.",
            ),
        )
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
    tools = [json.dumps(tool(writer, f"step_{i}")) for i in range(8)]
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
