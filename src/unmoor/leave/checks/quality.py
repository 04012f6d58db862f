"""Settings that move scores without any error: thinking, effort, precision, template."""

from __future__ import annotations

import re
from collections.abc import Iterator

from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.checks.launch import sets_kv_type
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import listed, said, sides
from unmoor.leave.uses import Rows

EVAL = Kind(
    id="UM119",
    name="eval-due",
    title="The same weights may score lower until settings are made equal",
    bites="Teams saw scores fall by several points on the other engine, and found the thinking switch, the type of "
    "weights or keys and values, or the template to differ. Nothing in the answers says so.",
    look="Requests that leave thinking to its default are counted, where the model has such a switch or answers show "
    "thinking; types set at the source's start, and chat templates that differ, are listed.",
    mend="Say each of them on both sides; then run the same evaluation on both, paired, with a test of significance.",
    threads=threads(
        "sgl-project/sglang#22764",
        "vllm-project/vllm#19245",
        "vllm-project/vllm#23988",
        "vllm-project/vllm#8846",
        "sgl-project/sglang#2112",
    ),
)
EFFORT = Kind(
    id="UM150",
    name="reasoning-effort-default",
    title="Requests that name no effort of reasoning, and a default that differs",
    bites="One engine takes low where a request names no reasoning_effort, others leave it to the model's template, "
    "which may take medium. Answers become shorter and worse, or longer and dearer.",
    look="Chat requests without reasoning_effort are counted, where the model's template reads it, or the traffic or "
    "its answers show that the model reasons.",
    mend="Send reasoning_effort with each request.",
)

_SWITCH = re.compile(r"\b(enable_thinking|thinking|reasoning_effort|thinking_budget)\b")
_EFFORT = re.compile(r"\breasoning_effort\b")
_TYPES = {"dtype": "the type of weights", "kv_dtype": "the type of keys and values", "quantization": "quantisation"}
_THOUGHT = ("message.reasoning", "message.reasoning_content")


def _look(case: Case) -> Iterator[Hit]:
    if case.stays:
        return
    yield from _due(case)
    yield from _effort(case)


def _due(case: Case) -> Iterator[Hit]:
    if case.source.engine == case.target.engine:
        return
    reasons: list[str] = []
    features: list[str] = []
    if rows := _of_thinkers(case, case.uses.pair("thinking left open"), _SWITCH):
        reasons.append(f"thinking is left to its default, and {_why(case)}")
        features.append("chat.chat_template_kwargs")
    for concept, what in _TYPES.items():
        value = case.flags.concepts.get(concept) if case.flags else None
        if value and value != "auto" and not (concept == "kv_dtype" and sets_kv_type(case)):
            reasons.append(f"{what} is set at the start of {case.source.title}")
            features.append(f"flag {case.flags.spelled[concept] if case.flags else concept}")
    if case.model is not None and len(set(case.model.chat_templates.values())) > 1:
        reasons.append(f"the chat template differs between {listed(case.model.chat_templates)}")
        features.append("model")
    if reasons:
        yield hit(
            EVAL,
            "translated",
            "warning",
            features=features,
            rows=rows,
            seen=f"Scores may move: {'; '.join(reasons)}.",
            fix="Say it on both sides, then compare scores on the same questions before the cut-over.",
            by="traffic and files",
        )


def _of_thinkers(case: Case, rows: Rows, switch: re.Pattern[str]) -> Rows:
    """Of `rows` those to a model that thinks: its template has the switch, else some answer of it shows thinking."""
    template = case.model.chat_template if case.model else None
    if template is not None:
        return rows if switch.search(template) else Rows()
    thought = Rows.union(
        (*(case.uses.rows(path, "answer") for path in _THOUGHT), case.uses.rows("reasoning_effort", "chat"))
    )
    return rows.both(Rows.union(asked for asked in case.uses.by_model.values() if asked.both(thought)))


def _why(case: Case) -> str:
    found = _SWITCH.search(case.model.chat_template) if case.model and case.model.chat_template else None
    return f"the model's template reads {found.group(1)}" if found else "the traffic shows that the model thinks"


def _effort(case: Case) -> Iterator[Hit]:
    rows = _of_thinkers(case, case.uses.pair("effort left open"), _EFFORT)
    if not rows:
        return
    both = sides(case, "reasoning_effort_missing", "requests without reasoning_effort")
    if both is None or not both.differ:
        return
    yield hit(
        EFFORT,
        "translated",
        "warning",
        features=["chat.reasoning_effort"],
        rows=rows,
        seen=f"Without reasoning_effort {both.source.title} takes {_taken(both.here.value)}{said(both.here)}, "
        f"{both.target.title} {_taken(both.there.value)}{said(both.there)}.",
        fix="Send reasoning_effort with each request.",
        sources=both.sources,
    )


def _taken(value: object) -> str:
    return "what the template has" if value == "unset" else str(value)


CHECK = Check(kinds=(EVAL, EFFORT), look=_look)
