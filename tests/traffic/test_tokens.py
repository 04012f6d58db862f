from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from unmoor.cli.log_cutter import cutter_for
from unmoor.core.errors import UsageError
from unmoor.traffic.entry import Part, Prompt
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.text.tokens import tokenizer_cutter
from unmoor.traffic.words import WORDS

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
    cutter.cut([prompt(("user", "w1"))])
    assert [(note.code, "refused 1 prompt:" in note.text) for note in cutter.notes] == [("template_refused", True)]


def test_that_a_template_was_told_one_day_for_all_prompts_is_said_where_it_asks() -> None:
    dated = tokenizer_cutter(words(), template="{{ strftime_now('%d %b %Y') }} w1", where="t")
    assert len(dated.notes) == 0  # nothing was rendered
    one, other = dated.cut([prompt(("user", "w1")), prompt(("user", "w2"))])
    assert one.chain.tolist() == other.chain.tolist()
    assert [(note.code, "01 January 2026" in note.text) for note in dated.notes] == [("template_day", True)]
    unused = "{% if day %}{{ strftime_now('%Y') }}{% endif %}w1"
    plain = tokenizer_cutter(words(), template=unused, where="t")
    plain.cut([prompt(("user", "w1"))])
    assert plain.notes == ()


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    """A byte-level BPE, as current models have it, that adds a first token by itself."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" ".join(WORDS)], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return tokenizer


MARKED = "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
said = st.lists(st.sampled_from(["a", "the ", "é", "日", "😀", "<|end|>", "\ud800", "\n", "share "])).map("".join)


@given(said, said, said)
def test_what_is_shared_is_the_common_tokens_of_the_models_own_encoding(
    bpe: Tokenizer, start: str, one: str, other: str
) -> None:
    config = json.dumps({"chat_template": MARKED, "bos_token": {"content": "<s>"}}).encode()
    cutter = tokenizer_cutter(bpe.to_str().encode(), config=config, where="t")
    cuts = cutter.cut([prompt(("user", start + one)), prompt(("user", start + other))])
    texts = [f"<s>user:{start}{rest}<|end|>".encode("utf-8", "replace").decode() for rest in (one, other)]
    left, right = (bpe.encode(text, add_special_tokens=False).ids for text in texts)
    assert left.count(0) == 1  # the first token is not doubled
    assert [len(cut.ends) for cut in cuts] == [len(left), len(right)]
    same = [a == b for a, b in zip(left, right, strict=False)]
    place = same.index(False) if False in same else len(same)
    agree = [a == b for a, b in zip(cuts[0].chain.tolist(), cuts[1].chain.tolist(), strict=False)]
    assert agree == [n < place for n in range(len(same))]


def test_prompts_that_differ_in_an_image_are_different_through_a_template_too(bpe: Tokenizer) -> None:
    def seen(url: str) -> dict[str, object]:
        image = {"type": "image_url", "image_url": {"url": url}}
        return {"model": "m", "messages": [{"role": "user", "content": [image, {"type": "text", "text": "w1 w2"}]}]}

    log = "\n".join(json.dumps(seen(url)) for url in ("one", "other", "one")).encode()
    traffic = read_traffic(log, where="log", cutter=tokenizer_cutter(bpe.to_str().encode(), template=MARKED, where="t"))
    assert traffic.node[0] == traffic.node[2] != traffic.node[1]


def test_a_completions_prompt_has_the_tokens_that_the_tokenizer_adds(bpe: Tokenizer) -> None:
    cutter = tokenizer_cutter(bpe.to_str().encode(), template=MARKED, where="t")
    completion = Prompt(parts=(Part("", "the share"),))
    alone, chat, again = cutter.cut([completion, prompt(("user", "the share")), completion])
    assert (
        len(alone.ends)
        == len(bpe.encode("the share").ids)
        == 1 + len(bpe.encode("the share", add_special_tokens=False).ids)
    )
    assert alone.chain.tolist() == again.chain.tolist()
    assert len(chat.ends) == len(bpe.encode("user:the share<|end|>", add_special_tokens=False).ids)
    assert cutter.notes == ()


def test_a_template_that_writes_no_tools_leaves_them_out_and_that_is_said() -> None:
    cutter = tokenizer_cutter(words(), template="start", where="t")
    cutter.cut([Prompt(parts=(Part("user", "x"),), tool_objects=({},)), prompt(("user", "x"))])
    assert [(note.code, "of 1 prompt " in note.text) for note in cutter.notes] == [("tools_not_in_template", True)]


def test_of_several_templates_prompts_with_tools_have_theirs() -> None:
    named = [
        {"name": "default", "template": "start"},
        {"name": "tool_use", "template": "start {% if tools %}start{% endif %}"},
    ]
    cutter = tokenizer_cutter(words(), config=json.dumps({"chat_template": named}).encode(), where="t")
    offered = Prompt(parts=(Part("user", "x"),), tool_objects=({},))
    assert [len(cut.ends) for cut in cutter.cut([prompt(("user", "x")), offered])] == [1, 2]


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
