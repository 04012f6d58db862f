"""Tokens of prompts: special ones twice or not at all, and templates that are not the same."""

from __future__ import annotations

from collections.abc import Iterator

from unmoor.engines.surface.surface import Surface
from unmoor.leave.case import Case, Check, Hit, hit
from unmoor.leave.finding import Kind, threads
from unmoor.leave.sides import Sides, listed, said, sides
from unmoor.leave.uses import Place, Rows

BOS = Kind(
    id="UM109",
    name="bos-twice",
    title="A prompt that begins with the mark of the beginning, and gets another",
    bites="A prompt written out by a chat template already begins with the beginning-of-sequence token (BOS). Sent to "
    "completions as text, the tokenizer may put another before it. Answers become a little worse, and nothing says so.",
    look="Completions whose text begins with such a mark are counted. Both engines' surfaces say whether they add one, "
    "the model's files whether its tokenizer does, and requests may switch it off.",
    mend="Leave the mark out of the text, or send the prompt as token ids.",
    threads=threads(
        "vllm-project/vllm#9519",
        "vllm-project/vllm PR#16976",
        "vllm-project/vllm#27515",
        "vllm-project/vllm#38187",
        "LiveCodeBench/LiveCodeBench PR#146",
    ),
)
UNEQUAL = Kind(
    id="UM110",
    name="prompt-tokens-unequal",
    title="The same request, with other prompt tokens",
    bites="Special tokens added on one side only, or another chat template, change what the model reads. The same "
    "request seems better on one engine, and usage is counted otherwise.",
    look="Requests that say whether special tokens are added are counted, where the target cannot be told; the chat "
    "templates in the model's folder are compared with each other, and up to 300 chats whose answers tell "
    "usage.prompt_tokens are counted again by the model's own tokenizer and template.",
    mend="Send token ids, or give both engines the same template file; compare usage.prompt_tokens request by request: "
    "they must be equal.",
    threads=threads("NVIDIA/TensorRT-LLM#1870"),
)

_FEW_DIFFERENCES = 3

_SPECIAL: tuple[tuple[Place, bool, str], ...] = (
    ("completions", False, "adds the special tokens that these requests leave out"),
    ("chat", True, "leaves out the special tokens that these requests ask for"),
)


def _look(case: Case) -> Iterator[Hit]:
    if case.stays:
        return
    yield from _bos(case)
    yield from _special(case)
    yield from _templates(case)
    yield from _recounted(case)


def _bos(case: Case) -> Iterator[Hit]:
    added = _with_own_mark(case, case.uses.pair("begins with BOS"))
    switched_off = _with_own_mark(case, case.uses.pair("begins with BOS, special tokens off"))
    if not (added or switched_off) or (case.model is not None and case.model.adds_bos is False):
        return
    both = sides(case, "bos_on_completions", "prompts that begin with a BOS")
    if both is None:
        return
    can_switch = {one.engine: _takes(one, "add_special_tokens", "completions") for one in (case.source, case.target)}
    doubled = both.there.value == "yes"
    new = switched_off if can_switch[case.source.engine] and not can_switch[case.target.engine] else Rows()
    if both.here.value != "yes":
        new = Rows.union((added, new))
    if doubled and new:
        yield _second_bos(both, new)
    if doubled and both.here.value == "yes" and added and case.source.engine != case.target.engine:
        yield hit(
            BOS,
            "same",
            "note",
            features=["completions.prompt.template"],
            rows=added,
            seen="Both engines put another BOS before the one in the text: there are two at the start today as well.",
            fix="Leave the mark out of the text: answers may become better, and are no longer those of today.",
            sources=both.sources,
        )
    if not doubled and both.here.value == "yes" and added:
        yield hit(
            BOS,
            "translated",
            "note",
            features=["completions.prompt.template"],
            rows=added,
            seen=f"{both.target.title} adds no BOS: the second one that these prompts have today is gone.",
            fix="Nothing to do: this is as the model was trained.",
            sources=both.sources,
        )


def _second_bos(both: Sides, rows: Rows) -> Hit:
    return hit(
        BOS,
        "translated",
        "warning",
        features=["completions.prompt.template", "completions.add_special_tokens"],
        rows=rows,
        seen=f"{both.target.title} puts a second BOS before these prompts{said(both.there)}; it cannot be told not to.",
        fix="Leave the mark out of the text, or send the prompt as token ids.",
        sources=both.sources,
    )


def _with_own_mark(case: Case, rows: Rows) -> Rows:
    """Of `rows`, those that begin with the model's own mark, where the model says which it is."""
    mark = case.model.bos_token if case.model else None
    if not mark or not rows:
        return rows
    others = [sample.line for sample in case.uses.templated if not sample.text.startswith(mark)]
    return rows.without(Rows(others))


def _takes(one: Surface, concept: str, place: str) -> bool:
    spelling = one.spellings.get(concept)
    return spelling is not None and not spelling.absent and place in spelling.endpoints


def _adds_none(one: Surface) -> bool:
    trait = one.traits.get("bos_on_completions")
    return trait is not None and trait.value == "no"


def _special(case: Case) -> Iterator[Hit]:
    """Requests that say whether special tokens are added, to a target that cannot be told."""
    for place, value, what in _SPECIAL:
        rows = case.uses.which("add_special_tokens", value, places=(place,))
        if not rows or not _takes(case.source, "add_special_tokens", place):
            continue
        if _takes(case.target, "add_special_tokens", place) or (place == "completions" and _adds_none(case.target)):
            continue
        spelling = case.target.spellings.get("add_special_tokens")
        yield hit(
            UNEQUAL,
            "translated",
            "warning",
            features=[f"{place}.add_special_tokens"],
            rows=rows,
            seen=f"{case.target.title} {what}: prompts have other tokens than today.",
            fix="Send the prompt as token ids to completions.",
            sources=(case.target.source_of(spelling),) if spelling else (),
        )


def _templates(case: Case) -> Iterator[Hit]:
    """Chat templates in several of the model's files that are not the same."""
    rows = case.uses.rows("messages.role", "chat")
    if case.model is None or not rows or len(set(case.model.chat_templates.values())) < 2:  # noqa: PLR2004 - two differ
        return
    yield hit(
        UNEQUAL,
        "translated",
        "warning",
        features=["model"],
        rows=rows,
        seen=f"The model's chat template is not the same in {listed(case.model.chat_templates)}: which of them an "
        "engine takes depends on the libraries beside it.",
        fix=f"Give both engines one file ({_template_flag(case.target)}).",
        by="files",
    )


def _recounted(case: Case) -> Iterator[Hit]:
    """Prompts that had other tokens at the source than the model's own files make of them."""
    if case.recount is None:
        return
    if case.recount.skipped:
        case.skipped(case.recount.skipped)
    if not case.recount.more:
        return
    more = case.recount.more
    rows = Rows.union(more.values())
    told = [f"{abs(by)} {'more' if by > 0 else 'fewer'} in {len(lines):,}" for by, lines in more.items()]
    alike = len(told) <= _FEW_DIFFERENCES
    shown = ", ".join(told[:_FEW_DIFFERENCES]) + ("" if alike else " and others")
    cause = (
        "It has another template, or adds special tokens."
        if alike
        else "So many differences are rather another tokenizer's: is this the model that served?"
    )
    yield hit(
        UNEQUAL,
        "translated",
        "warning" if alike else "note",
        features=["model"],
        rows=rows,
        seen=f"Of {case.recount.counted:,} chats counted again with the model's own tokenizer and template, "
        f"{len(rows):,} had other prompt tokens on {case.source.title}: {shown}. {cause}",
        fix=f"Find the template that {case.source.title} serves with and give {case.target.title} the same "
        f"({_template_flag(case.target)}); then compare usage.prompt_tokens request by request.",
        by=case.recount.by,
    )


def _template_flag(one: Surface) -> str:
    flag = one.flags.get("chat_template")
    return flag.names[0] if flag and flag.names else "its own setting for the template"


CHECK = Check(kinds=(BOS, UNEQUAL), look=_look)
