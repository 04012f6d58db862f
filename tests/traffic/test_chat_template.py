from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import date

import pytest

from unmoor.core.errors import UsageError
from unmoor.traffic.entry import Part, Prompt
from unmoor.traffic.text.chat_template import ChatTemplate


def rendered(source: str, *messages: Mapping[str, object], tools: Sequence[object] = ()) -> str | None:
    parts = tuple(Part(str(message.get("role", "")), "") for message in messages)
    prompt = Prompt(parts=parts, messages=messages, tool_objects=tools)
    return ChatTemplate(source, special={"bos_token": "<s>"}, where="t", day=date(2026, 3, 9)).text(prompt)


def test_blocks_leave_no_blank_lines_and_a_last_newline_is_dropped() -> None:
    source = (
        "{% for m in messages %}\n    {% if true %}\n{{ m.role }}: {{ m.content }}\n    {% endif %}\n{% endfor %}\n."
    )
    assert rendered(source + "\n", {"role": "user", "content": "hi"}) == "user: hi\n."


def test_special_tokens_and_the_answers_beginning_are_there() -> None:
    assert rendered("{{ bos_token }}{{ eos_token }}{% if add_generation_prompt %}go{% endif %}") == "<s>go"


def test_json_is_as_python_writes_it_and_html_stays() -> None:
    tool = {"type": "function", "d": "<b>&'é", "n": [1, 1.5e10, True, None], "e": {}}
    assert rendered("{{ tools[0] | tojson }}", tools=[tool]) == json.dumps(tool, ensure_ascii=False)
    assert rendered("{{ tools[0] | tojson(indent=2) }}", tools=[tool]) == json.dumps(tool, ensure_ascii=False, indent=2)


def test_without_tools_none_are_offered() -> None:
    assert rendered("{{ tools is none }}") == "True"


def test_the_day_is_the_one_given_in_the_form_asked_for() -> None:
    assert rendered("{{ strftime_now('%d %b %Y') }}") == "09 Mar 2026"


def test_loops_can_be_left_and_what_the_model_says_can_be_marked() -> None:
    marked = "{% generation %}{{ n }}{% endgeneration %}"
    source = "{% for n in [1, 2, 3] %}{% if n == 3 %}{% break %}{% endif %}" + marked + "{% endfor %}"
    assert rendered(source) == "12"


IMAGE = "\ufffc" + hashlib.blake2b(b'{"type":"image_url"}', digest_size=6).hexdigest()


def test_text_parts_are_one_text_and_no_content_is_none_of_it() -> None:
    source = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    assert (
        rendered(source, {"role": "user", "content": parts}, {"role": "assistant", "content": None})
        == f"[a\n{IMAGE}\nb][]"
    )


@pytest.mark.parametrize(
    ("arguments", "written"),
    [('{"a": "x"}', '{"a": "x"}'), ({"a": "x"}, '{"a": "x"}'), ("", "{}"), ("{cut", '"{cut"'), ("\ud800", '"\ud800"')],
)
def test_arguments_of_calls_are_objects_where_they_are_json(arguments: object, written: str) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert rendered("{{ messages[0].tool_calls[0].function.arguments | tojson }}", message) == written


@pytest.mark.parametrize("calls", ["none", [1], [{}], [{"function": "f"}], [{"function": {}}]])
def test_calls_of_another_form_are_left_to_the_template(calls: object) -> None:
    assert rendered("ok", {"role": "assistant", "content": "", "tool_calls": calls}) == "ok"


def test_prompts_with_tools_have_the_template_for_tools() -> None:
    template = ChatTemplate("plain", special={}, where="t", with_tools="tools")
    assert template.text(Prompt(parts=(Part("user", "x"),))) == "plain"
    assert template.text(Prompt(parts=(Part("user", "x"),), tool_objects=({},))) == "tools"


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('roles must alternate') }}",
        "{{ messages[0].nothing.at.all }}",
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{{ range(10000000) }}",
        "{{ {}.nothing | tojson }}",
    ],
)
def test_a_template_that_fails_on_a_prompt_refuses_it(source: str) -> None:
    assert rendered(source, {"role": "user", "content": "x"}) is None


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update(a=1) }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ strftime_now.__self__.__class__.__subclasses__() }}",
        "{{ raise_exception.__globals__ }}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_a_template_reaches_nothing_outside_itself(source: str) -> None:
    assert rendered(source, {"role": "user", "content": "x"}) in (None, "")


@pytest.mark.parametrize("source", ["{% if %}", "{{ x | nofilter }}", "{% generation %}", "{% endgeneration %}"])
def test_what_is_no_template_is_one_clear_error(source: str) -> None:
    with pytest.raises(UsageError, match="the chat template cannot be read"):
        rendered(source)
