"""An exit plan as Markdown: the document to file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from unmoor.leave.exit_plan.exit_plan import ExitPlan, Side
from unmoor.leave.finding import Finding, Kind, MoveReport
from unmoor.report import exit_plan_words as words
from unmoor.report.move_words import features_words, requests_words, source_words

_MARKS = re.compile(r"([\\`*\[\]|]|~(?=~)|(?<!\w)_|_(?!\w)|^[#>+-])")
_ENTITY = re.compile(r"&(?=#?\w+;)")


def render(plan: ExitPlan, kinds: Mapping[str, Kind]) -> str:
    """The whole document; what came from outside cannot change its form. `kinds` are those of findings, by id."""
    parts = (
        _head(plan),
        _risks(plan),
        _outside(plan),
        _in_use(plan, kinds),
        _names(plan),
        _hardware(plan),
        _sides(plan),
        _rehearsed(plan),
        _stale(plan),
        _checks(plan),
        _letter(plan),
    )
    return "\n".join(line for part in parts for line in part).rstrip()


def plain(text: str) -> str:
    """A text as it is: marks of Markdown in it are escaped, tags are none, and lines are one."""
    one_line = " ".join(text.split())
    return _ENTITY.sub("&amp;", _MARKS.sub(r"\\\1", one_line)).replace("<", "&lt;")


def code(text: str) -> str:
    """A name in code; one with a tick in it stands plain."""
    one_line = " ".join(text.split()).replace("|", "\\|")
    return plain(text) if "`" in text else f"`{one_line}`"


def prose(text: str) -> str:
    """A sentence of ours about what came from outside: names between ticks stay code, the rest is plain."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return plain(text)
    return "".join(code(part) if number % 2 else _inner(part) for number, part in enumerate(parts))


def _inner(part: str) -> str:
    """A part of a sentence, with the spaces at its ends."""
    before, after = " " * part.startswith(" "), " " * (part.endswith(" ") and bool(part.strip()))
    return f"{before}{plain(part)}{after}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _head(plan: ExitPlan) -> Iterator[str]:
    yield f"# Exit plan: {plain(plan.plan)}"
    yield ""
    yield f"As of {plan.made_on.isoformat()}. {plain(words.stale_words(plan))}"
    yield ""
    rows = [
        ("Serves today", words.serves_words(plan)),
        ("Way out", words.way_out_words(plan)),
        ("Model", f"{plan.model}, weights {plan.weights_word}"),
        ("Hardware", plan.hardware),
        ("Traffic", plan.traffic),
        ("Cost", words.cost_words(plan)),
        ("Decision", plan.decision.sentence),
        ("It rests on", plan.decision_rests_on),
    ]
    yield from _table(("", ""), [(name, plain(said)) for name, said in rows])


def _risks(plan: ExitPlan) -> Iterator[str]:
    yield f"## Open risks: {len(plan.risks)}"
    yield ""
    yield from (f"- {plain(risk.text)}" for risk in plan.risks)
    yield ""


def _outside(plan: ExitPlan) -> Iterator[str]:
    yield "## What is outside the runtime, and where it lives"
    yield ""
    rows = [words.place_words(place, plan) for place in plan.places]
    yield from _table(("what", "where", "seen"), [tuple(map(plain, row)) for row in rows])
    yield f"Weights: {plain(words.format_words(plan.weights))}"
    yield ""
    if plan.weights.files:
        hashed = [(file, *words.hash_words(file)) for file in plan.weights.files]
        rows = [(code(file.name), words.size_words(file.size_bytes), said and code(said)) for file, said, _ in hashed]
        by = [plain(by) for *_, by in hashed]
        yield from _table(
            ("file", "size", "SHA-256", "known"), [(*row, one) for row, one in zip(rows, by, strict=True)]
        )


def _in_use(plan: ExitPlan, kinds: Mapping[str, Kind]) -> Iterator[str]:
    yield f"## What a move away from {plain(plan.serves.name)} would change"
    yield ""
    if not plan.others:
        yield "The plan has no other candidate."
        yield ""
    for (side, said), move in zip(words.move_words(plan), plan.moves, strict=True):
        yield f"### To {plain(side.name)}"
        yield ""
        yield plain(said)
        yield ""
        if move.report:
            yield from _findings(move.report, kinds)


def _findings(report: MoveReport, kinds: Mapping[str, Kind]) -> Iterator[str]:
    if report.findings:
        rows = [_finding(finding, kinds[finding.kind]) for finding in report.findings]
        yield from _table(("outcome", "finding", "on", "what is seen", "what to do"), rows)
        yield f"Sources: {plain('; '.join(dict.fromkeys(s for f in report.findings for s in source_words(f))))}."
        yield ""
    notes = [
        *(f"Not looked at: {note}" for note in report.not_looked_at),
        *(f"Doubt: {text}" for text in words.doubts(report)),
    ]
    yield from (f"- {plain(note)}" for note in notes)
    if notes:
        yield ""
    if report.start_command:
        yield f"A start of {plain(report.target_engine)} that says the same:"
        yield ""
        yield from (f"    {' '.join(line.split())}" for line in [shlex.join(report.start_command)])
        yield ""


def _finding(finding: Finding, kind: Kind) -> tuple[str, ...]:
    concerned = requests_words(finding)
    about = f"{features_words(finding)}; {concerned}" if concerned else features_words(finding)
    named = f"{finding.kind} {plain(kind.title)}"
    return (finding.outcome, named, plain(about), prose(finding.seen), prose(finding.fix))


def _names(plan: ExitPlan) -> Iterator[str]:
    yield f"## Names that belong to {plain(plan.serves.title)}, and their replacement"
    yield ""
    if not plan.engine_only:
        yield "None are known that another engine of the plan lacks."
        yield ""
    for title, found in words.by_kind(plan):
        yield f"### {title}"
        yield ""
        head = ("meaning", plain(plan.serves.name), *(plain(side.name) for side in plan.others))
        rows = [
            (
                plain(one.meaning),
                ", ".join(map(code, one.names)),
                *(_there(words.there_words(t), t.names) for t in one.there),
            )
            for one in found
        ]
        yield from _table(head, rows)


def _there(said: str, names: Sequence[str]) -> str:
    return ", ".join(map(code, names)) if names and said == ", ".join(names) else plain(said)


def _hardware(plan: ExitPlan) -> Iterator[str]:
    sides = (plan.serves, *plan.others)
    yield "## Hardware that stays possible with these weights"
    yield ""
    head = ("hardware", *(plain(side.name) for side in sides))
    rows = [
        (
            f"**{plain(kind.title)}**" if kind.of_the_plan else plain(kind.title),
            *(plain(words.loads_words(on)) for on in kind.engines),
        )
        for kind in plan.hardware_kinds
    ]
    yield from _table(head, rows)
    yield (
        "native: computed with as stored. fallback: unpacked or emulated, slower or in more memory. no: its own "
        "release does not run there. The plan's own hardware is in bold. Another format starts from the original "
        "weights."
    )
    yield ""
    for number, side in enumerate(sides):
        yield from (
            f"- {plain(side.name)}: {plain(note)}" for note in words.hardware_notes(plan.hardware_kinds, number)
        )
    yield ""
    yield f"Sources of names and formats: {plain('; '.join(words.surface_sources(plan)) or 'none')}."
    yield ""


def _sides(plan: ExitPlan) -> Iterator[str]:
    yield "## Licences, stewardship and security contacts of both sides"
    yield ""
    for side in (plan.serves, *plan.others):
        yield f"### {plain(side.name)}"
        yield ""
        yield from _side(side)


def _side(side: Side) -> Iterator[str]:
    for fact in side.facts:
        subject = words.subject_words(fact.subject).capitalize()
        yield f"- {subject}: {plain(fact.text)} ({plain(words.fact_words(fact))})"
    yield from (f"- {subject.capitalize()}: no fact here says" for subject in words.unknown_subjects(side))
    yield ""


def _rehearsed(plan: ExitPlan) -> Iterator[str]:
    yield "## What was rehearsed"
    yield ""
    if not plan.rehearsals:
        yield f"Nothing: no rehearsal is recorded by {plan.made_on.isoformat()}."
    for one in plan.rehearsals:
        where = f" ({plain(one.where)})" if one.where else ""
        yield f"- {one.on.isoformat()}, to {plain(one.to)}: {plain(one.outcome)}{where}, as the plan records"
    yield ""


def _stale(plan: ExitPlan) -> Iterator[str]:
    yield "## When this page goes stale"
    yield ""
    yield plain(words.stale_words(plan))
    yield ""
    rows = [
        (f"{'**stale** ' if one.stale else ''}{one.good_until.isoformat()}", plain(one.what), plain(one.recheck))
        for one in plan.goes_stale
    ]
    yield from _table(("good until", "what", "how to look again"), rows)


def _checks(plan: ExitPlan) -> Iterator[str]:
    yield "## Three checks before the runtime is committed to"
    yield ""
    for check in plan.checks:
        yield f"### {check.when}"
        yield ""
        yield from (
            f"- [{'x' if step.done else ' '}] {plain(step.asked)}: {plain(words.step_words(step))}"
            for step in check.steps
        )
        yield ""


def _letter(plan: ExitPlan) -> Iterator[str]:
    to = plan.letter.to or f"the owner of third-party risk ({words.NOT_RECORDED})"
    yield f"## Two lines to {plain(to)}"
    yield ""
    first, second = plan.letter.lines
    yield f"> {plain(first)}"
    yield ">"
    yield f"> {plain(second)}"
    yield ""
