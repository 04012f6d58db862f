from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from unmoor.cli.log_cutter import cutter_for
from unmoor.core.errors import UsageError
from unmoor.traffic.chat_template import ChatTemplate
from unmoor.traffic.entry import Part, Prompt
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.tokens import tokenizer_cutter

TEMPLATE = (
    "{{ bos_token }}{% if tools %}{{ tools | tojson }} {% endif %}"
    "{% for message in messages %}{% if message.role == 'tool' %}{{ raise_exception('no') }}{% endif %}"
    "start {{ message.role }} {{ message.content }} {% endfor %}{% if add_generation_prompt %}answer{% endif %}"
)


def words() -> bytes:
    names = ["[UNK]", "<s>", "start", "answer", "user", "system", *(f"w{n}" for n in range(50))]
    model = models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="[UNK]")  # noqa: S106
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer.to_str().encode()


def prompt(*said: tuple[str, str]) -> Prompt:
    messages = tuple({"role": role, "content": text} for role, text in said)
    return Prompt(parts=tuple(Part(role, text) for role, text in said), messages=messages)


def test_a_prompt_is_the_tokens_of_the_models_own_template() -> None:
    cutter = tokenizer_cutter(
        words(), config=json.dumps({"chat_template": TEMPLATE, "bos_token": "<s> "}).encode(), where="t"
    )
    (cut,) = cutter.cut([prompt(("system", "w1 w2"), ("user", "w3"))])
    assert cut.ends.tolist() == list(range(1, 10))  # <s> start system w1 w2 start user w3 answer
    assert cutter.notes == ()


def test_symbols_agree_exactly_as_far_as_tokens_do() -> None:
    cutter = tokenizer_cutter(words(), template=TEMPLATE, where="t")
    one, other = cutter.cut([prompt(("user", "w1 w2 w3")), prompt(("user", "w1 w2 w4 w3"))])
    same = [a == b for a, b in zip(one.chain.tolist(), other.chain.tolist(), strict=False)]
    assert same == [True] * 4 + [False] * 2


def test_without_a_template_messages_are_counted_as_they_are_and_that_is_said() -> None:
    cutter = tokenizer_cutter(words(), where="t")
    (cut,) = cutter.cut([prompt(("user", "w1 w2"))])
    assert len(cut.ends) == 3
    assert [note.code for note in cutter.notes] == ["no_template"]


def test_what_a_template_refuses_is_counted_without_it_and_that_is_said() -> None:
    cutter = tokenizer_cutter(words(), template=TEMPLATE, where="t")
    cutter.cut([prompt(("tool", "w1"))])
    assert [note.code for note in cutter.notes] == ["template_refused"]


@pytest.mark.parametrize(
    "source", ["{{ ''.__class__.__mro__ }}", "{{ messages.append(1) }}", "{{ cycler.__init__.__globals__ }}"]
)
def test_a_template_reaches_nothing_outside_itself(source: str) -> None:
    text = ChatTemplate(source, special={}, where="t").text(prompt(("user", "w1")))
    assert text is None or text == ""


def test_tools_are_json_with_spaces_as_templates_expect() -> None:
    template = ChatTemplate("{{ tools | tojson }}", special={}, where="t")
    told = Prompt(parts=(Part("user", "x"),), tool_objects=({"a": [1, 2], "b": "é"},))
    assert template.text(told) == '[{"a": [1, 2], "b": "é"}]'


def test_a_folder_brings_its_template_and_a_file_none(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(words())
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    log = b'{"model": "m", "messages": [{"role": "user", "content": "w1 w2 w3"}]}\n' * 2
    whole = read_traffic(log, where="log", cutter=cutter_for(tmp_path))
    alone = read_traffic(log, where="log", cutter=cutter_for(tmp_path / "tokenizer.json"))
    assert whole.input_tokens.tolist() == [6, 6]
    assert alone.input_tokens.tolist() == [4, 4]
    assert whole.grain is not None
    assert (whole.grain.by, whole.grain.tokens) == ("tokens", 1)
    assert [caveat.code for caveat in alone.caveats] == ["no_template"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tokenizer.json", b"{}", "no tokenizer"),
        ("tokenizer.json", b"\xff\xfe", "no tokenizer"),
        ("other", b"", "cannot be read"),
    ],
)
def test_what_is_no_tokenizer_is_one_clear_error(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=said):
        cutter_for(tmp_path)


def test_a_broken_template_is_one_clear_error() -> None:
    with pytest.raises(UsageError, match="the chat template cannot be read"):
        tokenizer_cutter(words(), template="{% if %}", where="t")
