"""Prompt tokens that a server told, counted again by the model's own files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from behaviour_log import CALL, case_of, chat, of_kind, said, uses_of
from tokenizers import Tokenizer, models, pre_tokenizers

from unmoor.leave.checks import prompt_tokens
from unmoor.leave.finding import Finding
from unmoor.leave.reading.read import MOST_COUNTED
from unmoor.leave.recount import recount

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'critic' %}{{ raise_exception('no') }}{% endif %}"
    "start {{ message.role }} {{ message.content }} {% endfor %}{% if add_generation_prompt %}answer{% endif %}"
)
PROMPT = [{"role": "user", "content": "w1 w2"}]
TOKENS = 6  # <s> start user w1 w2 answer


def model(folder: Path, *, template: str | None = TEMPLATE) -> Path:
    names = ["[UNK]", "<s>", "start", "answer", "user", "w1", "w2"]
    tokenizer = Tokenizer(models.WordLevel({name: at for at, name in enumerate(names)}, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    folder.mkdir()
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    config = {"bos_token": "<s> ", **({} if template is None else {"chat_template": template})}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def counted(tokens: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a request are any JSON
    return chat({**said(), "usage": {"prompt_tokens": tokens}}, messages=fields.pop("messages", PROMPT), **fields)


def found(folder: Path, *records: dict[str, Any]) -> tuple[list[Finding], list[str]]:
    case = case_of("vllm", "sglang", records)
    case = dataclasses.replace(case, recount=recount(case.uses.counted, folder))
    return of_kind([one.finding for one in prompt_tokens.CHECK.look(case)], "UM110"), case.not_looked_at


def test_a_mark_put_twice_at_the_source_is_found(tmp_path: Path) -> None:
    findings, skipped = found(model(tmp_path / "m"), *[counted(TOKENS + 1)] * 3, counted(TOKENS), counted(TOKENS - 2))
    (one,) = findings
    assert "Of 5 chats counted again" in one.seen
    assert "4 had other prompt tokens on vLLM: 2 fewer in 1, 1 more in 3." in one.seen
    assert (one.requests, one.lines, one.outcome) == (4, (1, 2, 3, 5), "translated")
    assert skipped == []


def test_many_differences_are_rather_another_models(tmp_path: Path) -> None:
    (one,), _ = found(model(tmp_path / "m"), *(counted(TOKENS + more) for more in range(6)))
    assert (one.requests, one.severity) == (5, "note")
    assert one.seen.endswith("1 more in 1, 2 more in 1, 3 more in 1 and others. So many differences are rather another "
                             "tokenizer's: is this the model that served?")  # fmt: skip


def test_prompts_that_agree_are_no_finding(tmp_path: Path) -> None:
    assert found(model(tmp_path / "m"), *[counted(TOKENS)] * 3) == ([], [])


def test_what_a_tokenizer_alone_cannot_count_is_left_out(tmp_path: Path) -> None:
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]
    records = [
        counted(99, messages=image),
        counted(99, chat_template_kwargs={"enable_thinking": False}),
        counted(99, add_generation_prompt=False),
        chat(said(), messages=PROMPT),
        counted(0),
        counted(99, messages=[{"role": "critic", "content": "w1"}]),
        counted(TOKENS),
    ]
    assert [one.line for one in uses_of(records).counted] == [6, 7]
    assert found(model(tmp_path / "m"), *records) == ([], [])


def test_that_nothing_could_be_counted_is_said(tmp_path: Path) -> None:
    findings, skipped = found(model(tmp_path / "m", template=None), counted(TOKENS))
    assert findings == []
    assert skipped == ["Prompt tokens were not counted again: the model's folder has no template that takes them."]
    broken = model(tmp_path / "b")
    (broken / "tokenizer.json").write_text("{}")
    assert found(broken, counted(TOKENS))[1][0].startswith("Prompt tokens were not counted again: no tokenizer (")
    assert recount(uses_of([counted(TOKENS)]).counted, tmp_path) is None


def test_so_many_are_kept_and_no_more(tmp_path: Path) -> None:
    uses = uses_of([counted(TOKENS + 1, tool_calls=CALL)] * (MOST_COUNTED + 5))
    assert len(uses.counted) == MOST_COUNTED
    again = recount(uses.counted, model(tmp_path / "m"))
    assert again is not None
    assert again.counted == MOST_COUNTED
