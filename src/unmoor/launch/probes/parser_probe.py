"""Asks an engine's own tool and reasoning parsers what they make of raw outputs. Run in the engine's environment.

Standard input holds JSON lines: first {"package", "tokenizer", "template", "item_s", "budget_s"}: the engine's Python
package, a folder with the model's tokenizer and its chat template (null: a toy tokenizer, no template), the seconds
that one output may take and all slow ones together. Then one line an output:

    {"id", "tool", "reasoning": names of parsers or null, "text", "tools": as in the request, "template_kwargs": {...}}

No weights are loaded and no server is started. Standard output tells first

    {"package", "version", "tool": [names], "reasoning": [names], "tokenizer": "model" | "toy"}

(version null: no parsers are here), and then a line for each output, as a server would answer it to a request whose
choice of tools is free:

    {"id", "calls": [{"name", "arguments"}], "content": text or null, "reasoning": text or null}
    {"id", "error": "no_such_parser" | "too_slow" | "crashed" | "not_asked" | the exception's name}

Who reads must not show any of the texts. An output that takes longer than `item_s` ends a child, not the run.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import re
import select
import signal
import sys
import time
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any, BinaryIO

Item = dict[str, Any]

_MARK = re.compile(r"<[^\s<>]{1,60}>|\[/?[A-Z_]{2,30}\]")
_MOST_MARKS = 4000


def find_class(package: str, name: str, *, within: str = "") -> Any:
    """The class `name` of an installed package, wherever its version keeps it. Raises ImportError where it has none.

    Engines move their modules between releases; the place is looked up in their sources, which imports nothing.
    """
    folder = _folder(package)
    defines = re.compile(rf"^class {name}\b", re.MULTILINE)
    for path in sorted((folder / within).rglob("*.py"), key=lambda path: (len(path.parts), path)):
        if defines.search(path.read_text(encoding="utf-8", errors="replace")):
            parts = path.relative_to(folder).with_suffix("").parts
            return getattr(importlib.import_module(".".join((package, *parts))), name)
    raise ImportError(f"{package} has no class {name}")


@cache
def _folder(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"{package} is not here")
    return Path(found.submodule_search_locations[0])


def marks_in(folders: Iterable[Path]) -> list[str]:
    """Every text in these sources that looks like a marker token."""
    found: dict[str, None] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
            except SyntaxError:
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and _MARK.fullmatch(node.value):
                    found.setdefault(node.value)
    return list(found)[:_MOST_MARKS]


def toy_tokenizer(marks: Sequence[str]) -> Any:
    """A token for each byte, and one for each mark: what parsers find does not depend on other tokens."""
    tokenizers = importlib.import_module("tokenizers")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={one: at for at, one in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    fast = importlib.import_module("transformers").PreTrainedTokenizerFast(tokenizer_object=made)
    fast.add_tokens(list(marks), special_tokens=False)
    return fast


def model_tokenizer(folder: str | None) -> Any:
    """The tokenizer in `folder`, without running any code of the folder's; None where it does not load here."""
    if folder is None or importlib.util.find_spec("transformers") is None:
        return None
    try:
        auto = importlib.import_module("transformers").AutoTokenizer
        return auto.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception:  # noqa: BLE001 - whatever is wrong with the folder, a toy stands in, which is told
        return None


class Composed:
    """Engines that compose one parser out of a tool parser and a reasoning parser, and hold it for each request."""

    def __init__(self, package: str, tokenizer: str | None, template: str | None) -> None:
        del template  # the request's own arguments of the template decide here
        managers = {"tool": "ToolParserManager", "reasoning": "ReasoningParserManager"}
        self.names = {kind: list(find_class(package, one).list_registered()) for kind, one in managers.items()}
        self._manager = find_class(package, "ParserManager")
        self._request = find_class(package, "ChatCompletionRequest", within="entrypoints")
        folders = [_folder(package) / name for name in ("tool_parsers", "reasoning", "parser")]
        own = model_tokenizer(tokenizer)
        self.toy = own is None
        self._tokenizer = toy_tokenizer(marks_in(folders)) if own is None else own

    def parse(self, item: Item) -> Item:
        """What clients would get."""
        request = self._request(
            model="model",
            messages=[{"role": "user", "content": "."}],
            tools=item["tools"] or None,
            chat_template_kwargs=item["template_kwargs"] or None,
        )
        made = self._manager.get_parser(
            tool_parser_name=item["tool"],
            reasoning_parser_name=item["reasoning"] or "",
            enable_auto_tools=item["tool"] is not None,
        )
        parser = made(self._tokenizer, request.tools, chat_template_kwargs=item["template_kwargs"])
        text = item["text"]
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        told = parser.parse(text, request, enable_auto_tools=True, model_output_token_ids=ids)
        reasoning, content, calls = told
        if not request.tools:  # the server then answers with text alone
            calls = []
        return {
            "calls": [{"name": one.name, "arguments": one.arguments} for one in calls or ()],
            "content": content,
            "reasoning": reasoning,
        }


class Detectors:
    """Engines that first part the thinking from the rest, then look for calls in the rest."""

    def __init__(self, package: str, tokenizer: str | None, template: str | None) -> None:
        self._tokenizer = model_tokenizer(tokenizer)
        self.toy = self._tokenizer is None
        _without_package_code(package)
        self._calls = find_class(package, "FunctionCallParser", within="srt/function_call")
        self._reasoning = find_class(package, "ReasoningParser", within="srt/parser")
        self._tool = find_class(package, "Tool", within="srt/entrypoints/openai")
        self.names = {
            "tool": sorted(self._calls.ToolCallParserEnum),
            "reasoning": sorted(self._reasoning.DetectorMap),
        }
        self._forced, self._config = False, None
        if template:
            sys.meta_path.insert(0, _NotNeeded(f"{package}.srt.arg_groups"))  # how a server is started; it needs torch
            detection = importlib.import_module(f"{package}.srt.parser.template_detection")
            self._forced, self._config = detection.detect_reasoning_pattern(template)

    def parse(self, item: Item) -> Item:
        """What clients would get."""
        reasoning, text = None, item["text"]
        if item["reasoning"]:
            request = types.SimpleNamespace(chat_template_kwargs=item["template_kwargs"], continue_final_message=False)
            parser = self._reasoning(
                model_type=item["reasoning"],
                stream_reasoning=False,
                force_reasoning=self._forces(item["reasoning"], item["template_kwargs"]),
                request=request,
                tokenizer=self._tokenizer,
                tool_call_parser_active=bool(item["tool"] and item["tools"]),
            )
            reasoning, text = parser.parse_non_stream(text)
        calls: Sequence[Any] = ()
        if item["tool"] and item["tools"]:
            tools = [self._tool(**tool) for tool in item["tools"]]
            finder = self._calls(tools, item["tool"], tokenizer=self._tokenizer)
            if finder.has_tool_call(text):
                with contextlib.suppress(Exception):  # so the server: the text stays as it is
                    text, calls = finder.parse_non_stream(text)
        return {
            "calls": [{"name": one.name, "arguments": one.parameters} for one in calls],
            "content": text or "",
            "reasoning": reasoning or None,
        }

    def _forces(self, name: str, kwargs: Mapping[str, Any]) -> bool:
        """Whether the server takes the output to begin with thinking: by the template's switch, else the parser's."""
        if self._forced:
            return True
        config = self._config
        if config is None:
            mode = self._reasoning(model_type=name, stream_reasoning=False).detector.reasoning_default
            explicit = str(mode).startswith("explicit_")
            switch, enabled = str(mode).removeprefix("explicit_"), not explicit
            if mode in {None, "mistral"}:
                return False
        else:
            mode, switch, enabled = config.special_case, config.toggle_param, config.default_enabled
            if mode != "always" and (switch is None or enabled is None):
                return False
        if mode == "always":
            return True
        return kwargs.get(switch) is not False if enabled else kwargs.get(switch) is True


def _without_package_code(package: str) -> None:
    """Lets the parsers' modules be imported without the code of the packages around them, which needs kernels."""
    for name in (package, "xgrammar"):
        try:
            folder = _folder(name)
        except ImportError:
            continue
        bare = _Bare(name)
        bare.__path__ = [str(folder)]
        sys.modules[name] = bare
    for name in ("transformers", "IPython"):  # named in annotations, and to draw in notebooks, alone
        if importlib.util.find_spec(name) is None:
            sys.modules[name] = sys.modules[f"{name}.display"] = _Bare(name)


class _Bare(types.ModuleType):
    """A package whose own code is not run. A class asked of it comes from the module of that name, or is empty."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if "__path__" in vars(self):
            place = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
            with contextlib.suppress(ImportError, AttributeError):
                return getattr(importlib.import_module(f"{self.__name__}.{place}"), name)
        return type(name, (), {})


class _NotNeeded(MetaPathFinder, Loader):
    """Finds bare modules in the place of a package that is named and not called."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        """The place of one of its modules."""
        del path, target
        inside = fullname == self._package or fullname.startswith(f"{self._package}.")
        return ModuleSpec(fullname, self, is_package=fullname == self._package) if inside else None

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        """Bare, as the package's own."""
        return _Bare(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs nothing."""


def load(package: str, tokenizer: str | None, template: str | None) -> Composed | Detectors:
    """The package's parsers. Raises ImportError where it has none that are known how to ask."""
    _folder(package)
    form: type[Composed | Detectors] = Composed
    try:
        _defined(package, "ParserManager")
    except ImportError:
        form = Detectors
        _defined(package, "FunctionCallParser")
    return form(package, tokenizer, template)


def _defined(package: str, name: str) -> None:
    defines = re.compile(rf"^class {name}\b", re.MULTILINE)
    if not any(defines.search(path.read_text(errors="replace")) for path in _folder(package).rglob("*pars*.py")):
        raise ImportError(name)


def end_with_parent() -> None:
    """Asks the kernel to end this process when the one that started it ends, however that happens; Linux alone can."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> int:
    """The exit code: always 0 once the first line has been read."""
    end_with_parent()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # the parsers log what they cannot read, and that is somebody's text
    os.dup2(quiet, 2)
    head = json.loads(sys.stdin.buffer.readline())
    items = [json.loads(line) for line in sys.stdin.buffer]
    package = head["package"]
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    try:
        parsers = load(package, head["tokenizer"], head["template"])
        told = {"package": package, "version": _version(package), **parsers.names}
    except Exception as error:  # noqa: BLE001 - whatever keeps them from loading, they are not here
        _tell(out, {"package": package, "version": None, "error": type(error).__name__})
        return 0
    _tell(out, {**told, "tokenizer": "toy" if parsers.toy else "model"})
    for answer in ask(items, parsers, head["item_s"], head["budget_s"]):
        _tell(out, answer)
    return 0


def _version(package: str) -> str:
    """The version of the package, which another distribution's name may carry; what follows a + names a build."""
    names = packages_distributions().get(package, [package])
    return version(names[0]).partition("+")[0]


def ask(items: Sequence[Item], parsers: Any, item_s: float, budget_s: float) -> Iterator[Item]:
    """An answer for each of `items`, in order."""
    done, spent_s = 0, 0.0
    while done < len(items):
        if spent_s >= budget_s:
            yield from ({"id": item["id"], "error": "not_asked"} for item in items[done:])
            return
        slow = False
        for answer in _child(items[done:], parsers, item_s):
            if answer is None:
                slow = True
            else:
                done += 1
                yield answer
        if done < len(items):
            spent_s += item_s
            yield {"id": items[done]["id"], "error": "too_slow" if slow else "crashed"}
            done += 1


def _child(items: Sequence[Item], parsers: Any, item_s: float) -> Iterator[Item | None]:
    """What one child answers; None where it was ended for taking too long."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            end_with_parent()
            os.close(read)
            with os.fdopen(write, "wb") as out:
                for item in items:
                    _tell(out, {"id": item["id"], **_parse(item, parsers)})
        finally:
            os._exit(0)
    os.close(write)
    kept, at = b"", time.monotonic()
    try:
        while True:
            ready, _, _ = select.select([read], [], [], max(0.0, at + item_s - time.monotonic()))
            if not ready:
                os.kill(pid, signal.SIGKILL)
                yield None
                return
            part = os.read(read, 1 << 16)
            if not part:
                return
            *lines, kept = (kept + part).split(b"\n")
            for line in lines:
                at = time.monotonic()
                yield json.loads(line)
    finally:
        os.close(read)
        os.waitpid(pid, 0)


def _parse(item: Item, parsers: Any) -> Item:
    if any(item[kind] and item[kind] not in parsers.names[kind] for kind in ("tool", "reasoning")):
        return {"error": "no_such_parser"}
    try:
        told: Item = parsers.parse(item)
    except Exception as error:  # noqa: BLE001 - whatever a parser raises is its answer; its text may quote the output
        return {"error": type(error).__name__}
    return told


def _tell(out: BinaryIO, what: Item) -> None:
    out.write(json.dumps(what).encode() + b"\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
