"""Asks grammar libraries what they make of constraints. Run inside the environment that has them; imports only them.

Standard input holds JSON lines: first {"cpu_s", "memory_bytes", "budget_s"}, the bounds; then one line a constraint:
{"id", "library", "kind", "content", "values"}, with a schema as JSON text, and the values as texts. Standard output
tells a line for each library, {"library", "version"} (version null: not here), and then a line for each constraint:

    {"id", "outcome": "compiled", "accepted": [true, false, ...]}
    {"id", "outcome": "error", "error": what the library said}
    {"id", "outcome": "too_slow" | "too_large" | "crashed" | "not_asked"}

A constraint that takes more than `cpu_s` of processor time, or `memory_bytes`, or crashes its library ends a child, not
the run: the next child goes on behind it. Once such children have used up `budget_s`, what is left is "not_asked".
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, BinaryIO, NamedTuple

END = 256
VOCABULARY = [bytes([byte]) for byte in range(END)] + [b"</s>"]
"""A token for each byte, and the end: what a grammar lets through does not depend on the tokenizer."""

WALL_FOR_CPU = 10.0
"""A child may wait for a busy machine's processor so many times as long as it may compute."""

Accepts = Callable[[bytes], bool]
Item = dict[str, Any]


class Bounds(NamedTuple):
    """What one constraint may cost, and all hostile ones together."""

    cpu_s: float
    memory_bytes: int
    budget_s: float


class NotCompiledError(Exception):
    """The library refuses a constraint; the text is its own."""


class XGrammar:
    """xgrammar's compiled part. Its package imports torch and transformers, for masks on tensors; none is made here."""

    def __init__(self) -> None:
        found = importlib.util.find_spec("xgrammar")
        package = types.ModuleType("xgrammar")
        package.__path__ = list(found.submodule_search_locations or ()) if found else []
        sys.modules["xgrammar"] = package
        importlib.import_module("xgrammar.load_binding")
        self._core = importlib.import_module("xgrammar.base")._core  # noqa: SLF001 - the compiled part's only name
        self._compiler: Any = None

    def compile(self, kind: str, content: str) -> Accepts:
        """Compiles as servers do: whitespace as it comes, strict objects. Raises NotCompiledError."""
        if self._compiler is None:
            tokens = self._core.TokenizerInfo(VOCABULARY, 0, None, [END], False)  # noqa: FBT003 - positional only
            self._compiler = self._core.GrammarCompiler(tokens, 1, False, -1)  # noqa: FBT003
        try:
            grammar = self._grammar(kind, content)
        except (RuntimeError, ValueError, TypeError, KeyError) as error:
            raise NotCompiledError(str(error)) from None

        def accepts(text: bytes) -> bool:
            matcher = self._core.GrammarMatcher(grammar, None, False, 0, None)  # noqa: FBT003
            return bool(matcher.accept_string(text, False) and matcher.accept_token(END, False))  # noqa: FBT003

        return accepts

    def _grammar(self, kind: str, content: str) -> Any:
        compiler = self._compiler
        if kind == "json_schema":
            return compiler.compile_json_schema(content, True, None, None, True, None, False)  # noqa: FBT003
        if kind == "regex":
            return compiler.compile_regex(content)
        if kind == "structural_tag":
            return compiler.compile_structural_tag(_as_format(content))
        if kind == "choice":
            words = " | ".join(json.dumps(one, ensure_ascii=False) for one in json.loads(content))
            return compiler.compile_grammar_from_strings(f"root ::= {words}", "root")
        if "::=" in content:
            return compiler.compile_grammar_from_strings(content, "root")
        return compiler.compile_lark(content, [], [])


def _as_format(content: str) -> str:
    """A structural tag in xgrammar's present form; the one of old has "structures" and "triggers"."""
    tag = json.loads(content)
    if "structures" not in tag:
        return content
    tags = [
        {"begin": one["begin"], "content": {"type": "json_schema", "json_schema": one["schema"]}, "end": one["end"]}
        for one in tag["structures"]
    ]
    triggered = {"type": "triggered_tags", "triggers": tag["triggers"], "tags": tags}
    return json.dumps({"type": "structural_tag", "format": triggered})


class LLGuidance:
    """llguidance, as servers call it."""

    def __init__(self) -> None:
        self._library = importlib.import_module("llguidance")
        self._tokens: Any = None

    def compile(self, kind: str, content: str) -> Accepts:
        """Raises NotCompiledError."""
        library = self._library
        if self._tokens is None:
            self._tokens = library.LLTokenizer(library.TokenizerWrapper(Bytes()))
        try:
            grammar = self._grammar(kind, content)
        except (ValueError, KeyError, TypeError, StopIteration) as error:
            raise NotCompiledError(str(error)) from None
        first = library.LLMatcher(self._tokens, grammar, log_level=0)
        if first.is_error():
            raise NotCompiledError(first.get_error())

        def accepts(text: bytes) -> bool:
            matcher = first.deep_copy()
            return bool(matcher.consume_tokens(list(text)) and matcher.is_accepting())

        return accepts

    def _grammar(self, kind: str, content: str) -> str:
        library = self._library
        if kind == "json_schema":
            made = library.LLMatcher.grammar_from_json_schema(content, defaults={"whitespace_flexible": True})
        elif kind == "structural_tag":
            made = library.StructTag.to_grammar(list(self._tags(json.loads(content))))
        else:
            made = library.grammar_from(kind, content)
        return str(made)

    def _tags(self, tag: dict[str, Any]) -> Iterator[Any]:
        library = self._library
        for one in tag["structures"]:
            schema = library.LLMatcher.grammar_from_json_schema(json.dumps(one["schema"]))
            trigger = next(begin for begin in tag["triggers"] if one["begin"].startswith(begin))
            yield library.StructTag(trigger=trigger, begin=one["begin"], grammar=schema, end=one["end"])


class Bytes:
    """A tokenizer whose tokens are bytes, in the form that llguidance wraps."""

    eos_token_id = END
    bos_token_id = None
    tokens = VOCABULARY
    special_token_ids = (END,)

    def __call__(self, text: str | bytes) -> list[int]:
        """The tokens of a text."""
        return list(text.encode() if isinstance(text, str) else text)


LIBRARIES: dict[str, Callable[[], XGrammar | LLGuidance]] = {"xgrammar": XGrammar, "llguidance": LLGuidance}


def end_with_parent() -> None:
    """Asks the kernel to end this process when the one that started it ends, however that happens; Linux alone can."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> int:
    """The exit code: always 0 once the bounds have been read."""
    end_with_parent()
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # the libraries' warnings, which may quote a schema, go nowhere
    os.dup2(quiet, 2)
    bounds = Bounds(**json.loads(sys.stdin.buffer.readline()))
    items = [json.loads(line) for line in sys.stdin.buffer]
    loaded = {}
    for name, load in LIBRARIES.items():
        try:
            loaded[name] = load()
            _tell(out, {"library": name, "version": version(name)})
        except (ImportError, PackageNotFoundError, AttributeError, OSError):
            _tell(out, {"library": name, "version": None})
    for answer in ask(items, loaded, bounds):
        _tell(out, answer)
    return 0


def ask(items: Sequence[Item], loaded: dict[str, Any], bounds: Bounds) -> Iterator[Item]:
    """An answer for each of `items`, in order."""
    done, spent_s = 0, 0.0
    while done < len(items):
        if spent_s >= bounds.budget_s:
            yield from ({"id": item["id"], "outcome": "not_asked"} for item in items[done:])
            return
        began = done
        ended: Ended | None = None
        for answer in _child(items[done:], loaded, bounds):
            if isinstance(answer, Ended):
                ended = answer
            else:
                done += 1
                yield answer
        if done < len(items):
            outcome = ended.outcome if ended else "crashed"
            spent_s += ended.last_s if ended else 0.0
            yield {"id": items[done]["id"], "outcome": outcome}
            done += 1
        assert done > began, "each child brings at least one answer"  # noqa: S101 - what must hold for this to end


class Ended(NamedTuple):
    """How a child ended that did not answer all: at which outcome for the item it was at, after how long there."""

    outcome: str
    last_s: float


def _child(items: Sequence[Item], loaded: dict[str, Any], bounds: Bounds) -> Iterator[Item | Ended]:
    """What one child answers, line by line, and how it ended. The libraries are loaded, but have not begun threads."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            end_with_parent()
            os.close(read)
            _answer(items, loaded, bounds, write)
        finally:
            os._exit(0)
    os.close(write)
    try:
        yield from _lines(read, pid, bounds)
    finally:
        os.close(read)


def _lines(read: int, pid: int, bounds: Bounds) -> Iterator[Item | Ended]:
    kept, at, slow = b"", time.monotonic(), False
    while True:
        ready, _, _ = select.select([read], [], [], max(0.0, at + bounds.cpu_s * WALL_FOR_CPU - time.monotonic()))
        if not ready:
            slow = True
            os.kill(pid, signal.SIGKILL)
            break
        part = os.read(read, 1 << 16)
        if not part:
            break
        *lines, kept = (kept + part).split(b"\n")
        for line in lines:
            at = time.monotonic()
            yield json.loads(line)
    _, status = os.waitpid(pid, 0)
    yield Ended(_outcome(status, slow=slow), time.monotonic() - at)


def _outcome(status: int, *, slow: bool) -> str:
    killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if slow or killed_by in {signal.SIGPROF, signal.SIGXCPU}:
        return "too_slow"
    if killed_by == signal.SIGKILL:  # not ours: the machine's memory ran out
        return "too_large"
    return "too_large" if killed_by == signal.SIGABRT else "crashed"  # who cannot have memory aborts


def _answer(items: Sequence[Item], loaded: dict[str, Any], bounds: Bounds, write: int) -> None:
    """The child's whole life. Processor time over the bound ends it by SIGPROF, wherever the library is."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (bounds.memory_bytes, bounds.memory_bytes))
    with os.fdopen(write, "wb") as out:
        for item in items:
            signal.setitimer(signal.ITIMER_PROF, bounds.cpu_s)
            try:
                told = _try(item, loaded)
            except MemoryError:
                told = {"outcome": "too_large"}
            except Exception as error:  # noqa: BLE001 - whatever else a library raises is its answer
                told = {"outcome": "error", "error": f"{type(error).__name__}: {error}"}
            _tell(out, {"id": item["id"], **told})


def _try(item: Item, loaded: dict[str, Any]) -> Item:
    library = loaded.get(item["library"])
    if library is None:
        return {"outcome": "not_asked"}
    try:
        accepts = library.compile(item["kind"], item["content"])
    except NotCompiledError as error:
        return {"outcome": "error", "error": str(error)[:4000]}
    return {"outcome": "compiled", "accepted": [accepts(value.encode()) for value in item["values"]]}


def _tell(out: BinaryIO, what: Item) -> None:
    out.write(json.dumps(what).encode() + b"\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
