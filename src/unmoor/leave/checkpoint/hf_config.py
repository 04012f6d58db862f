"""What config.json and its neighbours say: architecture, type, lengths, template, marks, default sampling, code."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from unmoor.leave.checkpoint.bounded import MOST_CONFIG_BYTES, BrokenFileError, json_object, read_whole, shown
from unmoor.leave.checkpoint.checkpoint import Problem
from unmoor.leave.checkpoint.folder import ModelFolder

Tree = Mapping[str, object]

CONFIG = "config.json"
GENERATION = "generation_config.json"
TOKENIZER = "tokenizer_config.json"
TOKENS = "tokenizer.json"
TEMPLATE = "chat_template.jinja"
MODELOPT = "hf_quant_config.json"
_TOKENIZERS = (TOKENS, "tokenizer.model", "vocab.json", "tekken.json", "tiktoken.model")
_MOST_TOKENS_BYTES = 64_000_000
_INNER = ("text_config", "llm_config", "language_config", "thinker_config")


class _AddedToken(msgspec.Struct, frozen=True):
    id: int
    content: str


class _Tokens(msgspec.Struct, frozen=True):
    """Of tokenizer.json what is looked at; the vocabulary is passed over."""

    added_tokens: tuple[_AddedToken, ...] = ()


_TOKENS_DECODER = msgspec.json.Decoder(_Tokens)


class ConfigFiles:
    """The folder's configuration, each file read once; what is wrong with one is collected in `problems`."""

    def __init__(self, folder: ModelFolder) -> None:
        self._folder = folder
        self.contents: dict[str, bytes] = {}
        self.problems: list[Problem] = []
        self.config = self._json(CONFIG)
        self.generation = self._json(GENERATION)
        self.tokenizer = self._json(TOKENIZER)
        self.modelopt = self._json(MODELOPT)

    def _read(self, name: str, most: int = MOST_CONFIG_BYTES) -> bytes | None:
        if name not in self._folder.names:
            return None
        try:
            content = read_whole(self._folder.path(name), name, most=most)
        except BrokenFileError as error:
            self.problems.append(error.problem)
            return None
        self.contents[name] = content
        return content

    def _json(self, name: str) -> Tree | None:
        content = self._read(name)
        if content is None:
            return None
        try:
            return json_object(content, name)
        except BrokenFileError as error:
            self.problems.append(error.problem)
            return None

    def says(self, key: str) -> object:
        """What config.json says of `key`, or its part about the language model; None where neither does."""
        config = self.config or {}
        for part in (config, *(config.get(inner) for inner in _INNER)):
            if isinstance(part, Mapping) and part.get(key) is not None:
                return part[key]
        return None

    def number(self, key: str) -> int | None:
        """Likewise, where it is a whole number."""
        return _number(self.says(key))

    @property
    def architecture(self) -> str:
        """The first of `architectures`, else `model_type`; empty where neither is said."""
        names = (self.config or {}).get("architectures")
        first = names[0] if isinstance(names, list) and names else self.says("model_type")
        return first if isinstance(first, str) else ""

    @property
    def dtype(self) -> str:
        """The type of weights and activations that are not quantised ("bfloat16"); empty where it is not said."""
        said = self.says("torch_dtype") or self.says("dtype")
        return said.removeprefix("torch.") if isinstance(said, str) else ""

    def template(self) -> tuple[str | None, str]:
        """The chat template, and the file that has it. Its own file goes before the tokenizer's settings."""
        return next(((template, name) for name, template in self.templates().items()), (None, ""))

    def templates(self) -> dict[str, str]:
        """Every file's chat template; the one that is taken first."""
        found: dict[str, str] = {}
        content = self._read(TEMPLATE)
        if content is not None:
            found[TEMPLATE] = content.decode("utf-8", errors="replace")
        own = self._json("chat_template.json")
        for tree, name in ((own, "chat_template.json"), (self.tokenizer, TOKENIZER)):
            template = _template((tree or {}).get("chat_template"))
            if template is not None:
                found[name] = template
        return found

    @property
    def has_tokenizer(self) -> bool:
        """Whether there is a file that a tokenizer can be made of."""
        return any(name in self._folder.names for name in _TOKENIZERS)

    @property
    def bos_token(self) -> str | None:
        """The text of the mark that opens a sequence."""
        return _token_text((self.tokenizer or {}).get("bos_token"))

    @property
    def adds_bos(self) -> bool | None:
        """Whether the tokenizer's settings say to put it before every text."""
        said = (self.tokenizer or {}).get("add_bos_token")
        return said if isinstance(said, bool) else None

    def eos_in(self) -> dict[str, tuple[int, ...]]:
        """The ids that end an answer, by the file that says so; a file that says none is left out."""
        found = {
            CONFIG: _ids(self.says("eos_token_id")),
            GENERATION: _ids((self.generation or {}).get("eos_token_id")),
            TOKENIZER: self._tokenizer_eos(),
        }
        return {file: ids for file, ids in found.items() if ids}

    def _tokenizer_eos(self) -> tuple[int, ...]:
        text = _token_text((self.tokenizer or {}).get("eos_token"))
        if text is None:
            return ()
        added = (self.tokenizer or {}).get("added_tokens_decoder")
        for number, token in added.items() if isinstance(added, Mapping) else ():
            if _token_text(token) == text and number.isdecimal():
                return (int(number),)
        return self._added_token(text)

    def _added_token(self, text: str) -> tuple[int, ...]:
        content = self._read(TOKENS, _MOST_TOKENS_BYTES)
        try:
            tokens = _TOKENS_DECODER.decode(content) if content is not None else _Tokens()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as failure:
            self.problems.append(Problem(file=TOKENS, what="is not a tokenizer", seen=shown(failure)))
            return ()
        return next(((token.id,) for token in tokens.added_tokens if token.content == text), ())

    def remote_code(self) -> tuple[str, ...]:
        """The Python files that the configuration wants to run, as it names them ("modeling_x.py", "org/repo: ...")."""
        names: list[str] = []
        for tree in (self.config, self.tokenizer):
            wanted = (tree or {}).get("auto_map")
            for value in wanted.values() if isinstance(wanted, Mapping) else ():
                names += [_code_file(one) for one in (value if isinstance(value, list) else [value]) if _is_code(one)]
        return tuple(dict.fromkeys(names))


def _is_code(value: object) -> bool:
    return isinstance(value, str) and "." in value


def _code_file(value: object) -> str:
    """The file of "modeling_x.Class", or of "org/repo--modeling_x.Class"."""
    repository, parted, name = str(value).rpartition("--")
    module = f"{name.rsplit('.', 1)[0]}.py"
    return f"{repository}: {module}" if parted else module


def _template(value: object) -> str | None:
    """One template, or of several named ones the one that is called default."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        named = {one.get("name"): one.get("template") for one in value if isinstance(one, Mapping)}
        chosen = named.get("default") or next(iter(named.values()), None)
        return chosen if isinstance(chosen, str) else None
    return None


def _token_text(value: object) -> str | None:
    text = value.get("content") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _ids(value: object) -> tuple[int, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(number for one in values if (number := _number(one)) is not None)
