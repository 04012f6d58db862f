"""Whether the model may, or must, call a tool: with which flags it is honoured; and the content beside a call."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.engines.surface.surface import Scalar
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind
from unmoor.leave.reading.values import OBJECT
from unmoor.leave.sides import Sides, said, sides
from unmoor.leave.uses import Rows

CHOICE = Kind(
    id="UM128",
    name="tool-choice",
    title="tool_choice that needs a flag, is refused, or is taken for another",
    bites="tool_choice auto is an error on one engine, and leaves calls in the text on another, unless the server was "
    "started with a parser. required does not exist everywhere, and a named function may be taken as auto.",
    look="Requests with tools are counted by their tool_choice; auto is what stands where none is given. Compared with "
    "what both engines do.",
    mend="Start the target with its flags for tools; for required, name one function, or check answers yourself.",
)
CONTENT = Kind(
    id="UM151",
    name="content-null-beside-tool-calls",
    title="Content beside a tool call: null on one side, empty on the other",
    bites="A message with a tool call and no text has content null on one engine and an empty text on another. Strict "
    "clients, and templates that get the message back in the next turn, fail on the one that they do not know.",
    look="Recorded answers with tool calls are looked at for the content beside them.",
    mend="Let clients treat null and an empty text alike.",
)


_INSTEAD = {
    "auto": "Describe the tools in the prompt, and find the calls in the text yourself.",
    "required": "Name one function where there is only one; else send auto, and ask again where no call comes.",
    "named": "Offer the named function alone, and ask again where no call comes.",
}


def _look(case: Case) -> Iterator[Hit]:
    unsaid = case.uses.pair("tools without a choice")
    auto = Rows.union((case.uses.which("tool_choice", "auto"), unsaid))
    for word, rows in (
        ("auto", auto),
        ("required", case.uses.which("tool_choice", "required")),
        ("named", case.uses.which("tool_choice", OBJECT)),
    ):
        if rows and (both := sides(case, f"tool_choice_{word}", f"tool_choice {word}")):
            yield from _choice(case, word, rows, both)
    yield from _content(case)


def _choice(case: Case, word: str, rows: Rows, both: Sides) -> Iterator[Hit]:
    features = sorted({use.feature for path in ("tool_choice", "tools") for use in case.uses.of(path)})
    if flag := both.flag_needed:
        yield hit(
            CHOICE,
            "translated",
            "error",
            features=features,
            rows=rows,
            seen=f"{both.target.title} serves tool_choice {word} only with {flag}{said(both.there)}.",
            fix=f"Start {both.target.title} with {flag}.",
            sources=both.sources,
            needs=(flag,),
        )
    elif both.there.value == "no" != both.here.value:
        alone = word == "named" and _can(case, "required")
        yield hit(
            CHOICE,
            "translated" if alone else "lost",
            "warning" if alone else "error",
            features=features,
            rows=rows,
            seen=f"{both.target.title} does not serve tool_choice {word}{said(both.there)}.",
            fix="Offer the named function alone, with tool_choice required." if alone else _INSTEAD[word],
            sources=both.sources,
        )


def tells(case: Case, word: Scalar) -> bool:
    """Whether it is told here what becomes of this tool_choice."""
    here, there = (side.traits.get(f"tool_choice_{word}") for side in (case.source, case.target))
    return here is not None and there is not None and there.value == "no" != here.value


def _can(case: Case, word: str) -> bool:
    trait = case.target.traits.get(f"tool_choice_{word}")
    return trait is not None and trait.value != "no"


def _content(case: Case) -> Iterator[Hit]:
    path = "message.content beside tool_calls"
    seen = {word: case.uses.which(path, word, places=("answer",)) for word in ("null", "empty")}
    rows = Rows.union(seen.values())
    if not rows or (both := sides(case, "content_beside_tool_call", "content beside tool calls")) is None:
        return
    there = str(both.there.value)
    changed = Rows.union(rows for word, rows in seen.items() if word != there)
    if not both.differ or not changed:
        return
    yield hit(
        CONTENT,
        "translated",
        "note",
        features=[f"answer.{path}"],
        rows=changed,
        seen=f"Beside a tool call without text {both.target.title} has "
        + ("an empty content where it is null today." if there == "empty" else "content null where it is empty today."),
        fix="Let clients treat null and an empty text alike.",
        sources=both.sources,
    )


CHECK = Check(kinds=(CHOICE, CONTENT), look=_look)
