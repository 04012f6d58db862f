"""Whether the prompts had the tokens that the model's own files make of them: counted again, on a few of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from unmoor.core.errors import UsageError
from unmoor.leave.uses import Counted, Rows
from unmoor.traffic.text.tokens import tokenizer_cutter

_TOKENIZER, _CONFIG, _TEMPLATE = "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"
_NOT_COUNTED = "Prompt tokens were not counted again"


@dataclass(frozen=True, slots=True)
class Recount:
    """How many prompts were counted again, and those that had more tokens (below 0: fewer) than the files make.

    `by` names what counted. `skipped` says why nothing was counted, where that is so.
    """

    counted: int = 0
    more: Mapping[int, Rows] | None = None
    by: str = ""
    skipped: str = ""


def recount(prompts: Sequence[Counted], folder: Path) -> Recount | None:
    """The prompts against the tokenizer and chat template in `folder`; None where there is no prompt or no tokenizer.

    A prompt that the template refuses is not counted, nor one whose tools the template does not write.
    """
    if not prompts or not (folder / _TOKENIZER).is_file():
        return None
    config, template = folder / _CONFIG, folder / _TEMPLATE
    content, told = (folder / _TOKENIZER).read_bytes(), config.read_bytes() if config.is_file() else None
    written = template.read_text("utf-8", "replace") if template.is_file() else None
    more: dict[int, list[int]] = {}
    counted = 0
    try:
        cutter = tokenizer_cutter(content, config=told, template=written, where=str(folder / _TOKENIZER))
        for one in prompts:
            tokens = cutter.count(one.prompt)
            if tokens is not None:
                counted += 1
                more.setdefault(one.input_tokens - tokens, []).append(one.line)
    except UsageError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Recount(skipped=f"{_NOT_COUNTED}: {error.message}{hint}.")
    if not counted:
        return Recount(
            skipped="Prompt tokens were not counted again: the model's folder has no template that takes them."
        )
    differing = {difference: Rows(lines) for difference, lines in sorted(more.items()) if difference}
    return Recount(counted=counted, more=differing, by="the model's tokenizer.json and chat template, by tokenizers")
