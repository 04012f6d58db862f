"""Forms in which models write tool calls and thinking: read for what is odd in an output, and written again."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from unmoor.leave.parsing.parsed import Call

THINK, THOUGHT = "<think>", "</think>"
MOST_CHARACTERS = 1_000_000
_PYTHONIC = re.compile(r"\[\s*[A-Za-z_][\w.]*\(.*\)\s*\]", re.DOTALL)
_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(</function>|$)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)(?:\n?</parameter>|$)", re.DOTALL)
_HERMES = re.compile(r"<tool_call>(.*?)(</tool_call>|$)", re.DOTALL)


class Written(NamedTuple):
    """The calls that could be read, the text before them, what is odd, and how many calls were found, read or not.

    `odd` has keys of the table's rules.
    """

    calls: tuple[Call, ...]
    before: str
    odd: frozenset[str]
    found: int


def read_hermes(text: str, names: Collection[str]) -> Written | None:
    """Calls as JSON between <tool_call> and </tool_call>."""
    found = list(_HERMES.finditer(text))
    if not found:
        return None
    odd: set[str] = set()
    calls = []
    for one in found:
        whole = _object(one[1])
        if whole is None or not isinstance(whole.get("name"), str):
            odd.add("broken" if one[2] else "cut_off")
            continue
        odd |= _oddities(whole, names)
        odd |= set() if one[2] else {"unclosed"}
        odd |= set() if one[1].startswith("\n") else {"no_newline"}
        calls.append(_call(whole, "arguments"))
    return _written(calls, text[: found[0].start()], odd, len(found))


def read_llama3(text: str, names: Collection[str]) -> Written | None:
    """Calls as bare JSON, with or without <|python_tag|> in front."""
    bare = text.strip().removeprefix("<|python_tag|>").lstrip()
    at = bare.find('{"name"')
    if at < 0:
        return None
    parts = [part for part in bare[at:].split(";") if part.strip()]
    wholes = [_object(part) for part in parts]
    odd: set[str] = {"text_before"} if bare[:at].strip() else set()
    calls = []
    for whole in wholes:
        if whole is None or not isinstance(whole.get("name"), str):
            odd.add("broken")
            continue
        key = "parameters" if "parameters" in whole else "arguments"
        odd |= _oddities(whole, names, key)
        calls.append(_call(whole, key))
    return _written(calls, bare[:at], odd, len(parts))


def read_pythonic(text: str, names: Collection[str]) -> Written | None:
    """Calls as a list of Python calls."""
    found = _PYTHONIC.search(text)
    if found is None:
        return None
    try:
        tree = ast.parse(found[0].strip(), mode="eval").body
        made = [_python_call(one) for one in tree.elts] if isinstance(tree, ast.List) else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _written([], text[: found.start()], {"broken"}, 1)
    odd = {"text_before"} if text[: found.start()].strip() else set()
    odd |= {"unknown_function"} if any(one.name not in names for one in made) else set()
    return _written(made, text[: found.start()], odd, len(made)) if made else None


def read_xml(text: str, names: Collection[str]) -> Written | None:
    """Calls as <function=NAME> with <parameter=NAME>, between <tool_call> and </tool_call>."""
    found = list(_FUNCTION.finditer(text))
    if not found:
        return None
    odd: set[str] = set()
    calls = []
    for one in found:
        if not one[3]:
            odd.add("cut_off")
            continue
        odd |= {"unknown_function"} if one[1] not in names else set()
        calls.append(Call(one[1], json.dumps({name: _value(value) for name, value in _PARAMETER.findall(one[2])})))
    outer = text.find("<tool_call>")
    if outer < 0:
        odd.add("no_outer_tag")
    elif "</tool_call>" not in text[outer:] and "cut_off" not in odd:
        odd.add("unclosed")
    return _written(calls, text[: min(outer if outer >= 0 else len(text), found[0].start())], odd, len(found))


def read_mistral(text: str, names: Collection[str]) -> Written | None:
    """Calls behind [TOOL_CALLS]: a list as JSON, NAME{...}, or NAME[ARGS]{...}."""
    before, mark, after = text.partition("[TOOL_CALLS]")
    if not mark:
        return None
    after = after.strip()
    if after.startswith("["):
        try:
            wholes = json.loads(after)
        except (ValueError, RecursionError):
            wholes = None
        if not isinstance(wholes, list) or not all(isinstance(one, dict) and "name" in one for one in wholes):
            return _written([], before, {"broken"}, 1)
        return _written([_call(one, "arguments") for one in wholes], before, {"list"}, len(wholes))
    calls = []
    odd: set[str] = set()
    for part in after.split("[TOOL_CALLS]"):
        name, brace, rest = part.partition("{")
        whole = _object(brace + rest)
        odd |= set() if name.endswith("[ARGS]") else {"no_args_mark"}
        if whole is None:
            odd.add("broken")
            continue
        calls.append(Call(name.removesuffix("[ARGS]").strip(), json.dumps(whole)))
    odd |= {"unknown_function"} if any(one.name not in names for one in calls) else set()
    return _written(calls, before, odd, len(calls) or 1)


READERS: Mapping[str, Callable[[str, Collection[str]], Written | None]] = {
    "hermes": read_hermes,
    "llama3": read_llama3,
    "pythonic": read_pythonic,
    "xml": read_xml,
    "mistral": read_mistral,
}


def write(form: str, reasoning: str, content: str, calls: Sequence[Call]) -> str | None:
    """An output in this form that says the same, without anything odd; None where it cannot be written."""
    thought = f"{THINK}\n{reasoning}\n{THOUGHT}\n\n" if reasoning else ""
    if not calls:
        return f"{thought}{content}"
    wholes = [(one.name, _object(one.arguments)) for one in calls]
    if any(whole is None for _, whole in wholes):
        return None
    lines = list(_lines(form, [(name, whole or {}) for name, whole in wholes]))
    if not lines:
        return None
    between = "\n" if content and not content.endswith("\n") else ""
    return f"{thought}{content}{between}" + "\n".join(lines)


def _lines(form: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    for name, arguments in calls:
        told = json.dumps(arguments, ensure_ascii=False)
        if form == "hermes":
            yield f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {told}}}\n</tool_call>'
        elif form == "mistral":
            yield f"[TOOL_CALLS]{name}[ARGS]{told}"
        elif form == "xml":
            values = "".join(
                f"<parameter={key}>\n{value if isinstance(value, str) else json.dumps(value)}\n</parameter>\n"
                for key, value in arguments.items()
            )
            yield f"<tool_call>\n<function={name}>\n{values}</function>\n</tool_call>"
    if form == "llama3":
        wholes = [json.dumps({"name": name, "parameters": arguments}, ensure_ascii=False) for name, arguments in calls]
        yield "; ".join(wholes)
    if form == "pythonic":
        made = [f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})" for name, args in calls]
        yield f"[{', '.join(made)}]"


def thinking(text: str) -> str:
    """Which case of the table an output is, for what becomes of its thinking."""
    if THOUGHT in text:
        return "both" if THINK in text.split(THOUGHT, 1)[0] else "end_alone"
    return "start_alone" if THINK in text else "no_mark"


def _written(calls: Sequence[Call], before: str, odd: Collection[str], count: int) -> Written:
    return Written(tuple(calls), before, frozenset(odd), count)


def _oddities(whole: Mapping[str, Any], names: Collection[str], key: str = "arguments") -> set[str]:
    odd = {"no_arguments"} if key not in whole else set()
    return odd | ({"unknown_function"} if whole["name"] not in names else set())


def _call(whole: Mapping[str, Any], key: str) -> Call:
    return Call(whole["name"], json.dumps(whole.get(key, {}), ensure_ascii=False))


def _object(text: str) -> dict[str, Any] | None:
    if len(text) > MOST_CHARACTERS:
        return None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return whole if isinstance(whole, dict) else None


def _value(text: str) -> object:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return whole if isinstance(whole, dict | list | bool) else text


def _python_call(node: ast.expr) -> Call:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError
    arguments = {one.arg: ast.literal_eval(one.value) for one in node.keywords if one.arg}
    return Call(ast.unparse(node.func), json.dumps(arguments))
