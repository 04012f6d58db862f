"""The name under which a model's thinking comes in answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from unmoor.engines.surface.surface import Scalar
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import Sides, said, sides
from unmoor.leave.uses import Rows

FIELD = Kind(
    id="UM107",
    name="reasoning-field",
    title="Thinking under another name in answers",
    bites="The model's thinking comes as reasoning on one engine and as reasoning_content on another, and was renamed "
    "within one. A client that reads the old name shows nothing, or loses the thoughts that it must send back.",
    look="Recorded answers are looked at for both names; without recorded answers, requests that ask for thinking are "
    "counted. Compared with the name that the target gives.",
    mend="Read both names in clients, or give them one in a proxy.",
    threads=threads(
        "vllm-project/vllm#27755",
        "vllm-project/vllm#33402",
        "vllm-project/vllm#50624",
        "vllm-project/vllm#42664",
        "BerriAI/litellm#26501",
        "langgenius/dify#33342",
    ),
)

NAMES: Mapping[Scalar, tuple[str, ...]] = {
    "reasoning": ("reasoning",),
    "reasoning_content": ("reasoning_content",),
    "both": ("reasoning", "reasoning_content"),
}
"""The names that a trait's word stands for."""


def _look(case: Case) -> Iterator[Hit]:
    seen = {name: case.uses.rows(f"message.{name}", "answer") for name in NAMES["both"]}
    asked = case.uses.pair("thinking asked for") if not case.uses.answers else Rows()
    if not any(seen.values()) and not asked:
        return
    both = sides(case, "reasoning_field", "thinking in answers")
    if both is None or not both.differ:
        return
    given = NAMES.get(both.there.value, ())
    if asked:
        here = NAMES.get(both.here.value, ())
        if not set(here) <= set(given):
            yield _renamed(both, here, given, asked, "chat.chat_template_kwargs")
        return
    for name, rows in seen.items():
        if rows and name not in given:
            yield _renamed(both, (name,), given, rows, f"answer.message.{name}")


def _renamed(both: Sides, here: tuple[str, ...], given: tuple[str, ...], rows: Rows, feature: str) -> Hit:
    read, told = (" and ".join(f"`{name}`" for name in names) for names in (here, given))
    return hit(
        FIELD,
        "translated" if given else "lost",
        "warning",
        features=[feature],
        rows=rows,
        seen=f"{both.target.title} gives the thinking as {told}{said(both.there)}: who reads {read} finds nothing."
        if given
        else f"{both.target.title} does not part the thinking from the answer.",
        fix=f"Read {' or '.join(f'`{name}`' for name in given)} too." if given else "Part them in the client.",
        sources=both.sources,
    )


CHECK = Check(kinds=(FIELD,), look=_look)
