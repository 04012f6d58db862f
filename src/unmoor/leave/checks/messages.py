"""What messages are made of: roles, parts, earlier thinking, and a last message of the assistant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unmoor.engines.surface.surface import Trait
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.checks.thinking import NAMES
from unmoor.leave.finding import Kind
from unmoor.leave.sides import said, sides

PARTS = Kind(
    id="UM129",
    name="message-parts",
    title="Roles, parts or endings of messages that the other engine reads otherwise",
    bites="Engines differ in which parts a message may have (images, audio, video, thinking), in what becomes of a "
    "developer's message, in the name of earlier thinking, and in whether a last message of the assistant is gone on "
    "with, answered, or given to the model as the user's.",
    look="Roles, types of parts, thinking in messages and last messages are counted and compared with what both "
    "engines do.",
    mend="Translate parts and names in a proxy; end with a message of the user, or say continue_final_message.",
)

_ALIKE: Mapping[str, str] = {
    "input_audio": "audio_url",
    "audio_url": "input_audio",
    "input_video": "video_url",
    "video_url": "input_video",
    "input_image": "image_url",
    "input_text": "text",
    "output_text": "text",
}
"""Types of parts that carry the same under another name."""
_NOT_A_WORD = "<text>"
_ON = (True,)
_ENDINGS = {
    "answered": "as any message, and answers it in a new turn",
    "as_user": "as if the user had said it",
    "continued": "as the beginning of its answer, and goes on from it",
}


def _look(case: Case) -> Iterator[Hit]:
    yield from _parts(case)
    yield from _developer(case)
    yield from _earlier_thinking(case)
    yield from _last(case)
    yield from _continued(case)


def _parts(case: Case) -> Iterator[Hit]:
    kinds = {str(use.value): rows for use, rows in case.uses.of("messages.content.type", "chat").items()}
    kinds.pop("text", None)
    if not kinds or (both := sides(case, "content_parts", "parts of messages")) is None:
        return
    if kinds.pop(_NOT_A_WORD, None):
        case.skipped("parts of messages of a type that no interface defines")
    here, there = _words(both.here), _words(both.there)
    for kind, rows in kinds.items():
        if kind in there and not both.there.flag:
            continue
        if kind not in here:
            continue
        alike = _ALIKE.get(kind)
        flag = kind in there
        mended = flag or (alike is not None and alike in there)
        yield hit(
            PARTS,
            "translated" if mended else "lost",
            "error",
            features=["chat.messages.content.type"],
            rows=rows,
            seen=f"{both.target.title} takes parts of type {kind} only with {both.there.flag}."
            if flag
            else f"{both.target.title} refuses parts of type {kind}.",
            fix=f"Start {both.target.title} with {both.there.flag}."
            if flag
            else f"Send it as a part of type {alike}."
            if mended
            else "Do without it, or bring it into text before.",
            sources=both.sources,
        )


def _words(trait: Trait) -> frozenset[str]:
    return frozenset(str(trait.value).split(", "))


def _developer(case: Case) -> Iterator[Hit]:
    rows = case.uses.which("messages.role", "developer", places=("chat",))
    if not rows or (both := sides(case, "developer_role", "messages of a developer")) is None or not both.differ:
        return
    as_is = both.there.value == "as_is"
    template = case.model.chat_template if case.model else None
    if as_is and template is not None and "developer" in template:
        return
    yield hit(
        PARTS,
        "translated",
        "error" if as_is else "note",
        features=["chat.messages.role"],
        rows=rows,
        seen=f"{both.target.title} gives the role developer to the template as it is: one that does not know it fails, "
        "or leaves the message out."
        if as_is
        else f"{both.target.title} takes a developer's message for one of the system{said(both.there)}.",
        fix="Send the role system in its place, where the template does not know developer.",
        sources=both.sources,
    )


def _earlier_thinking(case: Case) -> Iterator[Hit]:
    seen = {name: case.uses.rows(f"messages.{name}", "chat") for name in NAMES["both"]}
    if not any(seen.values()) or (both := sides(case, "reasoning_in_messages", "thinking in messages")) is None:
        return
    here, there = NAMES.get(both.here.value, ()), NAMES.get(both.there.value, ())
    for name, rows in seen.items():
        if not rows or name in there or name not in here:
            continue
        yield hit(
            PARTS,
            "translated" if there else "lost",
            "warning",
            features=[f"chat.messages.{name}"],
            rows=rows,
            seen=f"{both.target.title} drops `{name}` in messages{said(both.there)}: the model no longer sees what it "
            "thought before.",
            fix=f"Send it as `{there[0]}`." if there else "Nothing in a message carries it there.",
            sources=both.sources,
        )


def _last(case: Case) -> Iterator[Hit]:
    told = case.uses.which("continue_final_message", *_ON)
    rows = case.uses.which("messages.last", "assistant", places=("chat",)).without(told)
    if not rows or (both := sides(case, "assistant_last", "a last message of the assistant")) is None:
        return
    if not both.differ:
        return
    spelling = case.target.spellings.get("continue_final_message")
    by_field = both.here.value == "continued" and spelling is not None and not spelling.absent
    mended = by_field or bool(both.there.flag)
    yield hit(
        PARTS,
        "translated" if mended else "lost",
        "warning",
        features=["chat.messages.last"],
        rows=rows,
        seen=f"{both.target.title} takes a last message of the assistant {_ending(both.there)}; {both.source.title} "
        f"{_ending(both.here)}.",
        fix="Send continue_final_message = true, and add_generation_prompt = false."
        if by_field
        else f"Start {both.target.title} with {both.there.flag}."
        if mended
        else "End with a message of the user.",
        sources=both.sources,
    )


def _continued(case: Case) -> Iterator[Hit]:
    """Answers that go on from the last message: with that message before them, or without."""
    rows = case.uses.which("continue_final_message", *_ON)
    about = "answers that go on from the last message"
    if not rows or (both := sides(case, "continued_answer", about)) is None or not both.differ:
        return
    whole = both.there.value == "whole"
    yield hit(
        PARTS,
        "translated",
        "warning",
        features=["chat.continue_final_message"],
        rows=rows,
        seen=f"The answer of {both.target.title} "
        + ("begins with the message that it goes on from" if whole else "has what follows that message alone")
        + f"{said(both.there)}.",
        fix="Take the message's text off the beginning." if whole else "Put the message's text before it.",
        sources=both.sources,
    )


def _ending(trait: Trait) -> str:
    return _ENDINGS.get(str(trait.value), "otherwise")


CHECK = Check(kinds=(PARTS,), look=_look)
