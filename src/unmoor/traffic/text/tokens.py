"""Prompts as text, told apart by tokens: those of a tokenizer from the user's disk, after the model's chat template."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from unmoor.core.errors import UsageError
from unmoor.core.evidence import Caveat
from unmoor.traffic.entry import Prompt
from unmoor.traffic.readers.contract import Cut
from unmoor.traffic.splitmix import GOLDEN, mixed
from unmoor.traffic.text.chat_template import ONE_DAY, ChatTemplate

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INSTALL = "pip install 'unmoor[tokens]'"


class TokenCutter:
    """A `Cutter` by tokens. A chained symbol is the sum of each token mixed with its place, modulo 2^64."""

    by: Literal["tokens"] = "tokens"
    step = 1

    def __init__(self, tokenizer: Tokenizer, template: ChatTemplate | None) -> None:
        self._tokenizer = tokenizer
        self._template = template
        self._refused = self._plain = self._without_tools = 0

    @property
    def notes(self) -> Sequence[Caveat]:
        """Whether prompts were counted without the model's chat template or their tools, or with one day for all."""
        return (*self._untold_tools(), *self._untemplated(), *self._one_day())

    def _one_day(self) -> Sequence[Caveat]:
        if self._template is None or not self._template.told_the_day:
            return ()
        text = (
            f"The chat template writes the day, and was told {ONE_DAY:%d %B %Y} for every prompt: within a day nothing "
            "else is shared by that; prompts of different days would share only what stands before it."
        )
        return (Caveat(code="template_day", text=text),)

    def _untold_tools(self) -> Sequence[Caveat]:
        if not self._without_tools:
            return ()
        were = "1 prompt" if self._without_tools == 1 else f"{self._without_tools:,} prompts"
        text = f"The chat template writes no tool definitions: those of {were} are not counted."
        return (Caveat(code="tools_not_in_template", text=text),)

    def _untemplated(self) -> Sequence[Caveat]:
        if self._refused:
            were = "1 prompt" if self._refused == 1 else f"{self._refused:,} prompts"
            text = f"The chat template refused {were}: there, messages were counted as they are."
            return (Caveat(code="template_refused", text=text),)
        if self._plain and self._template is None:
            text = "No chat template was given: messages were counted as they are, without what it puts around them."
            return (Caveat(code="no_template", text=text),)
        return ()

    def cut(self, prompts: Sequence[Prompt]) -> list[Cut]:
        """Each prompt as chained symbols; `ends` are in tokens.

        A completion's prompt gets the tokens that the tokenizer itself adds, as an engine gives it; a template writes
        its own.
        """
        spoken = [any(part.role for part in prompt.parts) for prompt in prompts]
        texts = [self._said(p) if told else "\n".join(_plainly(p)) for p, told in zip(prompts, spoken, strict=True)]
        whole = [text.encode("utf-8", "replace").decode() for text in texts]
        alone = iter(self._encoded([text for text, told in zip(whole, spoken, strict=True) if not told], special=True))
        said = iter(self._encoded([text for text, told in zip(whole, spoken, strict=True) if told], special=False))
        return [next(said if told else alone) for told in spoken]

    def count(self, prompt: Prompt) -> int | None:
        """The tokens of one prompt as an engine is given it; None where that is not known.

        It is not for a conversation without a template, nor for one that the template refuses or whose tools it does
        not write.
        """
        if not any(part.role for part in prompt.parts):
            (cut,) = self.cut([prompt])
            return len(cut.ends)
        text = None if self._template is None else self._template.text(prompt)
        if self._template is None or text is None or (prompt.tool_objects and not self._template.writes_tools):
            return None
        (cut,) = self._encoded([text.encode("utf-8", "replace").decode()], special=False)
        return len(cut.ends)

    def count_answer(self, text: str) -> int:
        """The tokens of an answer's text; an engine's own count has its end mark besides, and more where calls are."""
        return len(self._tokenizer.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False).ids)

    def _encoded(self, texts: list[str], *, special: bool) -> list[Cut]:
        encodings = self._tokenizer.encode_batch_fast(texts, add_special_tokens=special) if texts else []
        return [_chained(np.array(encoding.ids, dtype=np.uint64)) for encoding in encodings]

    def _said(self, prompt: Prompt) -> str:
        if self._template is not None:
            text = self._template.text(prompt)
            if text is not None:
                self._without_tools += bool(prompt.tool_objects) and not self._template.writes_tools
                return text
            self._refused += 1
        self._plain += 1
        return "\n".join((*prompt.tools, *(f"{part.role}\n{part.text}" for part in prompt.parts)))


def _plainly(prompt: Prompt) -> Sequence[str]:
    return (*prompt.tools, *(part.text for part in prompt.parts))


def _chained(ids: NDArray[np.uint64]) -> Cut:
    places = np.arange(1, len(ids) + 1, dtype=np.uint64)
    return Cut(chain=np.cumsum(mixed(ids ^ mixed(places * GOLDEN)), dtype=np.uint64), ends=places.astype(np.int64))


def tokenizer_cutter(
    content: bytes, *, config: bytes | None = None, template: str | None = None, where: str
) -> TokenCutter:
    """The cutter of a `tokenizer.json`; `config` is its tokenizer_config.json, `template` a chat template's own file.

    Raises UsageError for what is none of these, and where the `tokens` extra is not installed.
    """
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra
    except ImportError:
        raise UsageError(
            "tokenizers is not installed",
            where="--tokenizer",
            seen="no package 'tokenizers'",
            expected="the extra 'tokens'",
            hint=INSTALL,
        ) from None
    try:
        tokenizer = Tokenizer.from_buffer(content)
    except Exception:  # noqa: BLE001 - the library raises bare exceptions
        raise UsageError(
            "no tokenizer",
            where=where,
            seen=f"{len(content):,} bytes of something else",
            expected="a Hugging Face tokenizer.json",
            hint="a model's folder has one; other kinds of tokenizer are not read",
        ) from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    told = _decoded(config, where) if config else {}
    source, with_tools = (template, None) if template else _templates_in(told)
    special = {
        name: text
        for name in ("bos_token", "eos_token", "unk_token", "pad_token")
        if (text := _text_of(told.get(name)))
    }
    if source is None:
        return TokenCutter(tokenizer, None)
    return TokenCutter(tokenizer, ChatTemplate(source, special=special, where=where, with_tools=with_tools))


def _decoded(config: bytes, where: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(config, type=dict[str, Any])
    except msgspec.DecodeError:
        raise UsageError(
            "no tokenizer_config.json",
            where=where,
            seen="something else",
            expected="a JSON object",
            hint="name the tokenizer.json alone to count without a chat template",
        ) from None


def _templates_in(config: dict[str, Any]) -> tuple[str | None, str | None]:
    """The chat template, and of several the default one and that for prompts with tools."""
    told = config.get("chat_template")
    if not isinstance(told, list):
        return (told if isinstance(told, str) else None), None
    named = {one.get("name"): one.get("template") for one in told if isinstance(one, dict)}
    default, with_tools = named.get("default"), named.get("tool_use")
    return (
        default if isinstance(default, str) else None,
        with_tools if isinstance(with_tools, str) else None,
    )


def _text_of(token: object) -> str | None:
    told = token.get("content") if isinstance(token, dict) else token
    return told if isinstance(told, str) else None
