from __future__ import annotations

import json
import pickle

import pytest

from unmoor.core.errors import TrafficError
from unmoor.traffic.entry import Blocks, Entry, Prompt
from unmoor.traffic.log import Grain, Traffic
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.text.pieces import BytesCutter

PARAMS = "SamplingParams(n=1, presence_penalty=0.0, temperature=0.7, top_p=0.95, seed=None, max_tokens=64)"
BANNER = "(APIServer pid=7) INFO 11-30 09:00:00 [api_server.py:1] Starting vLLM server on http://0.0.0.0:8000"
NOISE = '(APIServer pid=7) INFO:     127.0.0.1:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK'


def read(*lines: str) -> tuple[Traffic, list[Entry]]:
    seen: list[Entry] = []
    content = "\n".join(lines).encode()
    traffic = read_traffic(
        content, where="log", cutter=BytesCutter(b"key"), watch=lambda _, entry: seen.append(entry), most_broken=0
    )
    return traffic, seen


def text_of(entry: Entry) -> str:
    assert isinstance(entry.content, Prompt)
    return entry.content.parts[0].text


def now(number: int, prompt: str, at: str = "11-30 09:00:05") -> list[str]:
    """As vLLM 0.32 logs a request: two lines."""
    return [
        (
            f"(APIServer pid=7) DEBUG {at} [request_logger.py:55] Request cmpl-{number} details: prompt: {prompt!r}, "
            "prompt_token_ids: [1, 2, 3], prompt_embeds shape: None."
        ),
        (
            f"(APIServer pid=7) INFO {at} [request_logger.py:65] Received request cmpl-{number}: params: {PARAMS}, "
            "lora_request: LoRARequest(lora_name='sql', lora_int_id=1, lora_path='/x')."
        ),
    ]


def test_a_servers_log_gives_its_requests_among_other_lines() -> None:
    awkward = 'it\'s "quoted", prompt_token_ids: [9], params: \n\\ é'
    traffic, (one, other) = read(BANNER, *now(1, "first"), NOISE, *now(2, awkward, "11-30 09:00:07"))
    assert traffic.format == "vllm-log"
    assert traffic.arrival_s.tolist() == [0, 2]
    assert (text_of(one), text_of(other)) == ("first", awkward)
    assert (one.input_tokens, one.adapter, one.output_tokens) == (3, "sql", None)
    assert one.sampling == {"n": 1, "presence_penalty": 0, "temperature": 0.7, "top_p": 0.95, "max_tokens": 64}


def test_an_older_servers_log_has_all_in_one_line() -> None:
    line = (
        f"INFO 11-30 09:00:05 [logger.py:42] Received request cmpl-1: prompt: 'Hello', params: {PARAMS}, "
        "prompt_token_ids: [1, 2], prompt_embeds shape: None, lora_request: None."
    )
    traffic, (entry,) = read(line)
    assert traffic.format == "vllm-log"
    assert (text_of(entry), entry.input_tokens, entry.adapter) == ("Hello", 2, None)


@pytest.mark.parametrize(
    "line",
    [
        now(9, "secret")[1],
        "INFO 11-30 09:00:05 [logger.py:42] Received request cmpl-1: prompt: 'secret words that end",
    ],
    ids=["no prompt", "cut off"],
)
def test_a_request_without_its_whole_prompt_is_broken_and_not_quoted(line: str) -> None:
    with pytest.raises(TrafficError) as raised:
        read(*now(1, "first"), line)
    assert "secret" not in str(raised.value)


USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "e2e_latency": 1.5}


def test_finished_requests_come_from_json_lines() -> None:
    asked = {"text": "Hello", "sampling_params": {"temperature": 0.1, "max_new_tokens": 9, "json_schema": "{}"}}
    rows = [
        {"timestamp": "2026-11-30T09:00:00", "event": "request.received", "rid": "a", "obj": asked},
        {"timestamp": "2026-11-30T09:00:02", "event": "request.finished", "rid": "a", "obj": asked}
        | {"out": {"text": "x", "meta_info": USAGE}},
    ]
    traffic, (entry,) = read(*map(json.dumps, rows))
    assert traffic.format == "sglang-log"
    assert (text_of(entry), entry.input_tokens, entry.output_tokens, entry.took_s) == ("Hello", 5, 7, 1.5)
    assert entry.sampling == {"temperature": 0.1, "max_tokens": 9}
    assert entry.schema is not None


def test_finished_requests_come_from_what_python_writes() -> None:
    sampling = "sampling_params={'temperature': 0.1}"
    asked = f"obj=GenerateReqInput(rid='a', text=\"it's\", input_ids=None, {sampling}, stream=False)"
    traffic, (entry,) = read(
        "[2026-11-30 09:00:00 TP0] server_args=ServerArgs(model_path='m')",
        f"[2026-11-30 09:00:00] Receive: {asked}",
        f"[2026-11-30 09:00:02] Finish: {asked}, out={ {'text': 'x', 'meta_info': USAGE}!r}",
    )
    assert traffic.format == "sglang-log"
    assert (text_of(entry), entry.input_tokens, entry.output_tokens, entry.took_s) == ("it's", 5, 7, 1.5)
    assert entry.sampling == {"temperature": 0.1}


def test_a_pickled_dump_is_refused_unread() -> None:
    with pytest.raises(TrafficError, match="not a log") as raised:
        read_traffic(pickle.dumps([{"text": "secret"}], protocol=4), where="dump.pkl")
    assert "a Python pickle" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_prompts_that_a_server_cuts_before_it_quotes_them_are_broken() -> None:
    told = "(APIServer pid=7) INFO 11-30 09:00:00 [utils.py:1] non-default args: {'model': 'm', 'max_log_len': 6}"
    _, (whole,) = read(BANNER, told, *now(1, "short"))
    assert text_of(whole) == "short"
    with pytest.raises(TrafficError, match="cut off") as raised:
        read(BANNER, told, *now(1, "secret"))
    assert "secret" not in str(raised.value)


def test_prompts_that_lost_their_middle_are_broken() -> None:
    cut = "s" * 1024 + "..." + "t" * 1024
    asked = {"timestamp": "2026-11-30T09:00:05", "event": "request.finished", "rid": "1", "obj": {"text": cut}}
    as_json = json.dumps(asked | {"out": {"meta_info": {"prompt_tokens": 900}}})
    as_text = (
        "[2026-11-30 09:00:05] Finish: obj=GenerateReqInput(rid='1', text='ssss' ... 'tttt', lora_path=None), "
        "out={'meta_info': {'prompt_tokens': 900}}"
    )
    for line in (as_json, as_text):
        with pytest.raises(TrafficError, match="cut off") as raised:
            read(line)
        assert "ssss" not in str(raised.value)


def test_json_lines_with_the_loggers_time_before_them_are_read() -> None:
    told = {"timestamp": "2026-11-30T09:00:05", "event": "request.finished", "rid": "1", "obj": {"text": "Hello"}}
    line = "[2026-11-30 09:00:05] " + json.dumps(told | {"out": {"meta_info": USAGE}})
    traffic, (entry,) = read(line)
    assert traffic.format == "sglang-log"
    assert (text_of(entry), entry.input_tokens) == ("Hello", 5)


def test_what_a_prompt_says_of_adapters_and_answers_is_only_text() -> None:
    text = "lora_path='secret', sampling_params={'temperature': 9}, , out={'meta_info': {}}"
    asked = f"obj=GenerateReqInput(rid='a', text={text!r}, sampling_params={{'temperature': 0.1}}, stream=False)"
    _, (entry,) = read(f"[2026-11-30 09:00:02] Finish: {asked}, out={ {'text': 'x', 'meta_info': USAGE}!r}")
    assert (entry.adapter, entry.sampling, entry.input_tokens) == (None, {"temperature": 0.1}, 5)


def test_calls_that_only_pool_are_no_generations() -> None:
    pooled = [line.replace(PARAMS, "PoolingParams(task='embed')") for line in now(1, "first")]
    _, entries = read(BANNER, *pooled, *now(2, "second"))
    assert [text_of(entry) for entry in entries] == ["second"]


def test_nested_sampling_parameters_are_read_whole() -> None:
    sampling = {"temperature": 0.1, "json_schema": '{"a": {"b": 1}}', "custom_params": {"x": {"y": "}"}}}
    asked = f"obj=GenerateReqInput(rid='a', text='Hello', sampling_params={sampling!r}, stream=False)"
    _, (entry,) = read(f"[2026-11-30 09:00:02] Finish: {asked}, out={ {'text': 'x', 'meta_info': USAGE}!r}")
    assert entry.sampling == {"temperature": 0.1}
    assert str(entry.schema).startswith("json_schema:")


def test_structured_output_is_told_by_its_kind() -> None:
    asked = (
        PARAMS[:-1]
        + ", structured_outputs=StructuredOutputsParams(json=None, regex='a+', choice=None), extra_args=None)"
    )
    lines = [line.replace(PARAMS, asked) for line in now(1, "first")]
    _, (with_regex, plain) = read(BANNER, *lines, *now(2, "second"))
    assert str(with_regex.schema).startswith("regex:")
    assert plain.schema is None


def test_a_prompt_that_quotes_a_servers_log_is_only_text() -> None:
    pasted = (
        "INFO 11-30 08:00:00 [a.py:1] Received request x: prompt: 'a', "
        "DEBUG 11-30 08:00:00 [a.py:1] Request a details: prompt: '] Request a details: prompt: ', "
        "prompt_token_ids: [1, 2, 3, 4, 5], params: PoolingParams("
    )
    older = (
        f"INFO 11-30 09:00:09 [logger.py:42] Received request cmpl-3: prompt: {pasted!r}, params: {PARAMS}, "
        "prompt_token_ids: [1, 2], prompt_embeds shape: None, lora_request: None."
    )
    answer = f"INFO 11-30 09:00:09 [request_logger.py:1] Generated response a: output: {pasted!r}, finish_reason: stop"
    _, entries = read(BANNER, *now(1, pasted), *now(2, "plain"), answer, older)
    assert [text_of(entry) for entry in entries] == [pasted, "plain", pasted]
    assert [entry.input_tokens for entry in entries] == [3, 3, 2]


def test_a_coloured_log_is_read() -> None:
    plain = "(APIServer pid=7) {level} 11-30 09:00:05 [request_logger.py:55] "
    coloured = (
        "\x1b[0;36m(APIServer pid=7)\x1b[0;0m \x1b[32m{level}\x1b[0m \x1b[90m11-30 09:00:05\x1b[0m "
        "\x1b[90m[request_logger.py:55]\x1b[0m "
    )
    lines = [line.replace("py:65", "py:55") for line in now(1, "first")]
    for level in ("DEBUG", "INFO"):
        lines = [line.replace(plain.format(level=level), coloured.format(level=level)) for line in lines]
    assert all(line.startswith("\x1b") for line in lines)
    _, (entry,) = read(*lines)
    assert (text_of(entry), entry.input_tokens) == ("first", 3)


@pytest.mark.parametrize(
    ("days", "seconds", "said"),
    [
        (["12-31 23:59:50", "01-01 00:00:10", "12-31 23:59:55", "01-01 00:00:12"], [0, 5, 20, 22], False),
        (["02-28 12:00:00", "03-01 12:00:00"], [0, 86_400], True),
        (["02-28 12:00:00", "02-29 12:00:00", "03-01 12:00:00"], [0, 86_400, 172_800], False),
    ],
    ids=["new year", "no leap day", "leap day"],
)
def test_times_without_a_year_go_on_over_its_end(days: list[str], seconds: list[float], *, said: bool) -> None:
    lines = [line for number, at in enumerate(days) for line in now(number, "Hello", at)]
    traffic, _ = read(*lines)
    assert traffic.arrival_s.tolist() == seconds
    assert any("28 days" in caveat.text for caveat in traffic.caveats) == said


def test_prompts_as_token_ids_are_read_exactly() -> None:
    lines = [
        line.replace("'first', prompt_token_ids: [1, 2, 3]", "None, prompt_token_ids: [7, 8]")
        for line in now(1, "first")
    ]
    older = (
        f"INFO 11-30 09:00:06 [logger.py:42] Received request cmpl-2: prompt: None, params: {PARAMS}, "
        "prompt_token_ids: [7, 8, 9], prompt_embeds shape: None, lora_request: None."
    )
    traffic, entries = read(*lines, older)
    assert [entry.content for entry in entries] == [Blocks([7, 8], 1), Blocks([7, 8, 9], 1)]
    assert [entry.input_tokens for entry in entries] == [2, 3]
    assert traffic.grain == Grain(by="tokens", tokens=1)


def test_token_ids_that_a_server_cuts_are_broken() -> None:
    told = "(APIServer pid=7) INFO 11-30 09:00:00 [utils.py:1] non-default args: {'model': 'm', 'max_log_len': 3}"
    lines = [line.replace("'first'", "None") for line in now(1, "first")]
    with pytest.raises(TrafficError, match="cut off"):
        read(BANNER, told, *lines)


def test_finished_requests_with_token_ids_and_no_text_are_read_exactly() -> None:
    sampling = "sampling_params={'temperature': 0.1}"
    name = "x, text='secret'"
    as_text = f"obj=GenerateReqInput(rid={name!r}, session_id=None, text=None, input_ids=[7, 8, 9], {sampling})"
    asked = {"rid": "a", "text": None, "input_ids": [7, 8], "sampling_params": {"temperature": 0.1}}
    as_json = {"timestamp": "2026-11-30T09:00:04", "event": "request.finished", "obj": asked}
    out = {"text": "x", "meta_info": USAGE}
    traffic, entries = read(f"[2026-11-30 09:00:02] Finish: {as_text}, out={out!r}", json.dumps(as_json | {"out": out}))
    assert [entry.content for entry in entries] == [Blocks([7, 8, 9], 1), Blocks([7, 8], 1)]
    assert [entry.input_tokens for entry in entries] == [3, 2]
    assert entries[0].sampling == {"temperature": 0.1}
    assert traffic.grain == Grain(by="tokens", tokens=1)


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-30 09:00:02] Finish: obj=GenerateReqInput(rid='a', text=None, input_ids=[7] ... [9]), out={}",
        '{"event": "request.finished", "obj": {"text": null, "input_ids": [7, "...", 9]}, "out": {}}',
    ],
    ids=["text", "json"],
)
def test_token_ids_that_lost_their_middle_are_broken(line: str) -> None:
    with pytest.raises(TrafficError, match="cut off"):
        read(line)


def in_docker(line: str, most: int = 100) -> list[str]:
    """As Docker's json-file driver keeps a line: in pieces, of which the last ends it."""
    line += "\n"
    pieces = [line[at : at + most] for at in range(0, len(line), most)]
    return [json.dumps({"log": piece, "stream": "stdout", "time": "2026-11-30T09:00:00Z"}) for piece in pieces]


def test_lines_that_docker_wrapped_are_unwrapped() -> None:
    awkward = "two\nlines, é and \\n" * 20
    traffic, entries = read(*(piece for line in [BANNER, *now(1, awkward)] for piece in in_docker(line)))
    assert (traffic.format, [text_of(entry) for entry in entries]) == ("vllm-log", [awkward])
    asked = f"obj=GenerateReqInput(rid='a', text={awkward!r}, input_ids=None)"
    line = f"[2026-11-30 09:00:02] Finish: {asked}, out={ {'text': 'x', 'meta_info': USAGE}!r}"
    told = {"timestamp": "2026-11-30T09:00:05", "event": "request.finished", "obj": {"text": awkward}}
    as_json = json.dumps(told | {"out": {"meta_info": USAGE}})
    for wrapped in (line, as_json):
        traffic, entries = read(*in_docker(wrapped))
        assert (traffic.format, [text_of(entry) for entry in entries]) == ("sglang-log", [awkward])
