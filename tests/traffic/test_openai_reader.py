from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unmoor.core.errors import TrafficError
from unmoor.traffic.entry import Entry, Prompt
from unmoor.traffic.log import Grain, Traffic
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.curve import ideal
from unmoor.traffic.text.pieces import BytesCutter

ROOT = Path(__file__).parent.parent.parent
CHAT: dict[str, Any] = {
    "model": "m",
    "temperature": 0.5,
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"text": "Hello"}]}],
    "tools": [{"type": "function", "function": {"name": "find", "parameters": {}}}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
}
USAGE = {"prompt_tokens": 21, "completion_tokens": 7}
ANSWER = {"choices": [{"message": {"role": "assistant", "content": "Hi there"}}], "usage": USAGE}


def read(*rows: dict[str, Any]) -> tuple[Traffic, list[Entry]]:
    seen: list[Entry] = []
    content = "\n".join(json.dumps(row) for row in rows).encode()
    traffic = read_traffic(
        content, where="log", cutter=BytesCutter(b"key"), watch=lambda _, entry: seen.append(entry), most_broken=0
    )
    assert traffic.format == "openai"
    return traffic, seen


@pytest.mark.parametrize(
    "row",
    [
        {"timestamp": "2026-11-30T09:00:00Z", "request": CHAT, "response": ANSWER, "duration_s": 2.0, "team": "t"},
        {"startTime": "2026-11-30T09:00:00Z", "endTime": "2026-11-30T09:00:02Z", "input": CHAT, "output": ANSWER}
        | {"metadata": {"team": "t"}},
        {"time": 1796029200, "request_body": json.dumps(CHAT), "response": json.dumps(ANSWER), "latency_ms": 2000}
        | {"team_id": "t"},
        {"start_time": 1796029200.0, "proxy_server_request": {"url": "/v1", "body": CHAT}, "response": ANSWER}
        | {"latency": 2, "team": "t"},
    ],
    ids=["plain", "ends", "texts", "nested"],
)
def test_a_body_is_found_in_what_gateways_wrap_around_it(row: dict[str, Any]) -> None:
    traffic, (entry,) = read(row)
    assert traffic.timed
    assert (entry.input_tokens, entry.output_tokens, entry.answer_bytes) == (21, 7, None)
    assert entry.took_s == pytest.approx(2)
    assert (entry.tenant, entry.model, entry.tools) == ("t", "m", ("find",))
    assert entry.sampling == {"temperature": 0.5}
    assert entry.schema is not None
    assert entry.schema.startswith("json_schema:")


SAID = [{"role": "user", "content": "Hello"}]
LITELLM = {
    "request_id": "x",
    "call_type": "acompletion",
    "model": "m",
    "startTime": "2026-11-30 09:00:00.500",
    "endTime": "2026-11-30 09:00:02.500",
    "messages": SAID,
    "response": json.dumps({"choices": ANSWER["choices"]}),
    "prompt_tokens": 21,
    "completion_tokens": 7,
    "team_id": "t",
    "session_id": "s",
}
LANGFUSE = {
    "id": "x",
    "type": "GENERATION",
    "startTime": "2026-11-30T09:00:00.500Z",
    "endTime": "2026-11-30T09:00:02.500Z",
    "model": "m",
    "modelParameters": {"temperature": 1},
    "input": SAID,
    "output": {"role": "assistant", "content": "Hi there"},
    "usage": {"input": 21, "output": 7, "total": 28, "unit": "TOKENS"},
    "userId": "t",
    "sessionId": "s",
}


@pytest.mark.parametrize("row", [LITELLM, LANGFUSE], ids=["litellm", "langfuse"])
def test_exports_of_two_gateways_are_read_as_they_come(row: dict[str, Any]) -> None:
    traffic, (entry,) = read(row)
    assert traffic.timed
    assert (entry.input_tokens, entry.output_tokens) == (21, 7)
    assert entry.took_s == pytest.approx(2)
    assert (entry.tenant, entry.session, entry.model) == ("t", "s", "m")
    array = json.dumps([row, row]).encode()
    assert len(read_traffic(array, where="log", cutter=BytesCutter(b"key"))) == 2


def test_bodies_come_bare_in_three_forms() -> None:
    responses = {"model": "m", "instructions": "Be kind.", "input": [{"role": "user", "content": "Hello"}]}
    traffic, entries = read(CHAT, {"model": "m", "prompt": "Once upon"}, responses)
    assert not traffic.timed
    prompts = [entry.content for entry in entries]
    texts = [
        [part.text for part in prompt.parts] for prompt in prompts if prompt is not None and hasattr(prompt, "parts")
    ]
    assert texts == [["Be kind.", "Hello"], ["Once upon"], ["Be kind.", "Hello"]]


def test_the_order_of_a_schemas_keys_makes_no_other_schema() -> None:
    one = CHAT | {"response_format": None, "guided_json": {"a": 1, "b": 2}}
    other = CHAT | {"response_format": None, "guided_json": {"b": 2, "a": 1}}
    _, (first, second) = read(one, other)
    assert first.schema == second.schema


@pytest.mark.parametrize(
    "bad", [{"model": "m", "prompt": ["secret words", 3]}, {"a": "secret words"}, {"messages": ["secret words"]}]
)
def test_what_is_no_text_is_broken_and_never_quoted(bad: dict[str, Any]) -> None:
    with pytest.raises(TrafficError) as raised:
        read(CHAT, bad)
    assert "log:2" in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_list_of_prompts_is_as_many_requests_whose_tokens_are_not_told_apart() -> None:
    usage = {"usage": {"prompt_tokens": 9, "completion_tokens": 4}}
    traffic, entries = read({"request": {"model": "m", "prompt": ["Once upon", "There was"]}, "response": usage})
    assert [entry.input_tokens for entry in entries] == [None, None]
    assert len({int(node) for node in traffic.node}) == 2


def test_prompts_of_token_ids_are_exact() -> None:
    traffic, entries = read({"model": "m", "prompt": [5, 6, 7]}, {"model": "m", "prompt": [[5, 6, 8], [5, 6, 7, 9]]})
    assert [entry.input_tokens for entry in entries] == [3, 3, 4]
    assert traffic.grain == Grain(by="tokens", tokens=1)
    assert ideal(traffic).tokens == pytest.approx((2 + 3) / 10)


def test_prompts_that_differ_in_an_image_are_different() -> None:
    def seen(url: str) -> dict[str, Any]:
        image = {"type": "image_url", "image_url": {"url": url}}
        return {
            "model": "m",
            "messages": [{"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]}],
        }

    traffic, _ = read(seen("one"), seen("other"), seen("one"))
    assert traffic.node[0] == traffic.node[2] != traffic.node[1]
    assert [caveat.text[:9] for caveat in traffic.caveats if caveat.code == "beyond_text"] == ["3 records"]


def test_an_images_tokens_are_counted_where_usage_says_and_only_there() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    asked = {"model": "m", "messages": [{"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]}]}
    usage = {"usage": {"prompt_tokens": 1105, "completion_tokens": 3}}
    traffic, _ = read({"request": asked, "response": usage}, {"request": asked, "response": usage})
    assert traffic.input_tokens.tolist() == [1105, 1105]
    unsaid, _ = read({"request": asked}, {"request": asked})
    assert max(unsaid.input_tokens.tolist()) < 20
    for seen in (traffic, unsaid):
        (told,) = [caveat.text for caveat in seen.caveats if caveat.code == "beyond_text"]
        assert told.startswith("2 records with images, sounds or files")
        assert "tokens count only where usage says" in told


def test_litellms_logging_payload_names_its_team_its_parameters_and_its_clock() -> None:
    payload = LITELLM | {"startTime": 1796029200.25, "endTime": 1796029202.5, "team_id": None, "session_id": ""}
    payload |= {"metadata": {"user_api_key_team_alias": "blue", "user_api_key_hash": "x"}}
    payload |= {"model_parameters": {"temperature": 0.2, "structured_outputs": {"regex": "a+"}, "stop": "the end"}}
    _, (entry,) = read(payload)
    assert entry.took_s == pytest.approx(2.25)
    assert (entry.tenant, entry.session) == ("blue", None)
    assert entry.sampling == {"temperature": 0.2, "stop": ["the end"]}
    assert str(entry.schema).startswith("regex:")


def test_text_that_a_gateway_took_out_is_not_one_prompt_shared_by_all() -> None:
    redacted = LITELLM | {"messages": [{"role": "user", "content": "redacted-by-litellm"}]}
    traffic, _ = read(redacted, redacted)
    assert ideal(traffic).tokens is None
    assert "text_redacted" in {caveat.code for caveat in traffic.caveats}


def test_calls_that_generate_nothing_are_passed_over_and_counted() -> None:
    span = {"id": "y", "type": "SPAN", "startTime": "2026-11-30T09:00:00Z", "name": "retrieve", "input": {"query": "x"}}
    embedding = LITELLM | {"call_type": "aembedding", "messages": None, "input": ["text"]}
    nameless = {name: value for name, value in LANGFUSE.items() if name != "model"}
    traffic, entries = read(span, nameless, embedding, LANGFUSE)
    assert (len(entries), traffic.skipped_lines) == (2, 0)
    assert [caveat.text[:9] for caveat in traffic.caveats if caveat.code == "other_calls"] == ["2 records"]
    assert entries[0].sampling == {"temperature": 1}


def test_a_prompt_whose_middle_the_gateway_left_out_is_broken() -> None:
    text = "Once upon ... (litellm_truncated skipped 900 chars. Set MAX_STRING_LENGTH) ... a time"
    with pytest.raises(TrafficError, match="cut off"):
        read(LITELLM, LITELLM | {"messages": [{"role": "user", "content": text}]})


def test_cached_tokens_that_langfuse_counts_apart_are_part_of_the_prompt() -> None:
    apart = {"usage": None, "usageDetails": {"input": 1, "input_cached_tokens": 20, "output": 7, "total": 28}}
    _, (entry,) = read(LANGFUSE | apart)
    assert entry.input_tokens == 21


def test_a_streams_time_to_its_first_token_is_not_how_long_it_took() -> None:
    _, (entry,) = read(LITELLM | {"response_time": 0.75})
    assert entry.took_s == pytest.approx(2)


def test_an_end_before_its_start_leaves_unknown_how_long_a_request_took() -> None:
    _, (entry,) = read(LITELLM | {"startTime": LITELLM["endTime"], "endTime": LITELLM["startTime"]})
    assert entry.took_s is None


def test_failed_requests_are_counted_with_the_others_and_said() -> None:
    failed = LITELLM | {"status": "failure", "response": "{}", "completion_tokens": 0}
    traffic, entries = read(LITELLM, failed)
    assert [entry.output_tokens for entry in entries] == [7, None]
    assert [caveat.text[:8] for caveat in traffic.caveats if caveat.code == "failed_requests"] == ["1 record"]


def test_a_system_prompt_beside_the_messages_is_part_of_the_prompt() -> None:
    _, (one, other) = read(
        {"model": "m", "system": "Be kind.", "messages": SAID},
        {"model": "m", "system": [{"type": "text", "text": "Be kind."}], "messages": SAID},
    )
    for entry in (one, other):
        assert isinstance(entry.content, Prompt)
        assert [part.text for part in entry.content.parts] == ["Be kind.", "Hello"]


def test_an_input_that_is_written_as_json_text_is_a_body() -> None:
    written = json.dumps({"messages": CHAT["messages"], "tools": CHAT["tools"]})
    _, entries = read(LANGFUSE | {"input": written}, LANGFUSE | {"input": json.dumps(SAID)})
    assert [entry.tools for entry in entries] == [("find",), ()]
    assert [entry.model for entry in entries] == ["m", "m"]


def test_an_answer_over_http_is_looked_into() -> None:
    _, (entry,) = read({"request": CHAT, "response": {"status_code": 200, "body": json.dumps(ANSWER)}})
    assert (entry.input_tokens, entry.output_tokens) == (21, 7)


def test_counts_as_text_or_whole_floats_are_read_and_negative_ones_are_broken() -> None:
    _, entries = read(
        {"request": CHAT, "response": {"usage": {"prompt_tokens": "200", "completion_tokens": 30.0}}},
        {"model": "m", "input": "123"},
    )
    assert [(entry.input_tokens, entry.output_tokens) for entry in entries] == [(200, 30), (None, None)]
    with pytest.raises(TrafficError, match="prompt_tokens"):
        read({"request": CHAT, "response": {"usage": {"prompt_tokens": -5}}})


@pytest.mark.parametrize(
    "odd",
    [{"timestamp": 10**400}, {"duration_s": 10**400}, {"request": CHAT | {"response_format": {"type": ["a"]}}}],
    ids=["time", "duration", "type"],
)
def test_one_odd_value_costs_its_own_line_at_most(odd: dict[str, Any]) -> None:
    fine = {"timestamp": 1796029200, "request": CHAT}
    content = "\n".join(json.dumps(row) for row in (fine, fine | odd, fine)).encode()
    traffic = read_traffic(content, where="log", cutter=BytesCutter(b"key"))
    assert len(traffic) + traffic.skipped_lines == 3
    assert len(traffic) >= 2


def test_responses_that_go_on_from_one_another_are_a_session() -> None:
    def turn(made: str, before: str | None) -> dict[str, Any]:
        return {"request": {"model": "m", "input": "Hi", "previous_response_id": before}, "response": {"id": made}}

    _, entries = read(turn("r1", None), turn("r2", "r1"), turn("r3", "r2"), turn("r9", None))
    assert [entry.session for entry in entries] == ["r1", "r1", "r1", "r9"]


def test_a_batch_input_file_is_read() -> None:
    _, entries = read({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": CHAT})
    assert entries[0].tools == ("find",)


def test_the_example_of_a_gateways_log_is_read_whole() -> None:
    content = (ROOT / "examples" / "gateway-log" / "requests.jsonl.gz").read_bytes()
    traffic = read_traffic(content, where="log", cutter=BytesCutter(b"key"))
    assert (traffic.format, len(traffic), traffic.skipped_lines) == ("openai", 132, 0)
    assert traffic.grain is not None
    assert traffic.grain.ratio_measured


SPENT = {  # a spend log of LiteLLM's, which keeps no text unless it is told to
    "request_id": "x",
    "call_type": "acompletion",
    "model": "m",
    "startTime": "2026-11-30T09:00:05Z",
    "endTime": "2026-11-30T09:00:07Z",
    "messages": {},
    "response": {},
    "proxy_server_request": {},
    "metadata": {"user_api_key_team_alias": "blue"},
    "prompt_tokens": 300,
    "completion_tokens": 9,
    "total_tokens": 309,
    "status": "success",
}
REDACTED = [{"role": "user", "content": "redacted-by-litellm"}]


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {"messages": "{}", "response": "{}", "proxy_server_request": "{}"},
        {"messages": None, "response": None, "proxy_server_request": None},
        {"messages": []},
        {"messages": "[]"},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [{"role": "user", "content": ""}]},
        {"messages": REDACTED, "response": {"choices": [{"message": {"content": "redacted-by-litellm"}}]}},
        {"messages": [{"role": "system", "content": "Be kind."}, *REDACTED]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "redacted-by-litellm"}]}]},
        {"proxy_server_request": {"messages": REDACTED, "prompt": "", "input": ""}},
    ],
)
def test_a_spend_log_without_text_is_read_for_its_lengths(kept: dict[str, Any]) -> None:
    traffic, entries = read(SPENT | kept, SPENT | kept | {"prompt_tokens": 40, "completion_tokens": None})
    assert [(entry.content, entry.input_tokens, entry.output_tokens) for entry in entries] == [
        (None, 300, 9),
        (None, 40, None),
    ]
    assert traffic.output_tokens.tolist() == [9, -1]  # not as long as what stands for a redacted answer
    assert [(entry.tenant, entry.model) for entry in entries] == [("blue", "m")] * 2
    assert traffic.took_s.tolist() == pytest.approx([2, 2])
    assert traffic.timed
    assert (traffic.grain, traffic.tree, ideal(traffic).tokens) == (None, None, None)
    assert [caveat.text[:22] for caveat in traffic.caveats if caveat.code == "text_redacted"] == [
        "2 records without text"
    ]


def test_failures_of_which_nothing_is_known_are_left_out_and_said() -> None:
    nothing = {"status": "failure", "prompt_tokens": 0, "completion_tokens": 0}
    traffic, entries = read(SPENT, SPENT | nothing, SPENT | nothing)
    assert (len(entries), traffic.skipped_lines) == (1, 0)
    assert [caveat.text[:9] for caveat in traffic.caveats if caveat.code == "failed_left_out"] == ["2 records"]


def test_counts_alone_are_a_log_and_other_logs_counts_are_not() -> None:
    traffic, _ = read({"timestamp": 1796029200, "prompt_tokens": 7, "completion_tokens": 3})
    assert traffic.input_tokens.tolist() == [7]
    traffic, _ = read({"type": "GENERATION", "startTime": "2026-11-30T09:00:05Z", "usage": {"input": 7, "output": 3}})
    assert traffic.output_tokens.tolist() == [3]
    with pytest.raises(TrafficError, match="no known format"):
        read({"arrival_s": 0.5, "input_tokens": 10, "output_tokens": 5})  # our own, without its header
    with pytest.raises(TrafficError, match="no known format"):
        read({"prompt_tokens": -7, "completion_tokens": 3})


@pytest.mark.parametrize("kept", ["{}", "[]"])
def test_neither_text_nor_tokens_is_broken(kept: str) -> None:
    with pytest.raises(TrafficError, match=r"no request's body|an empty prompt|no content"):
        read(LITELLM, LITELLM | {"messages": kept, "prompt_tokens": 0})


def test_words_where_messages_should_be_are_one_prompt() -> None:
    _, entries = read(LITELLM, LITELLM | {"messages": "words"})
    assert [isinstance(entry.content, Prompt) for entry in entries] == [True, True]


def test_a_prompt_that_quotes_the_mark_is_a_prompt() -> None:
    said = [{"role": "user", "content": "What does redacted-by-litellm mean?"}]
    _, (entry,) = read(LITELLM | {"messages": said})
    assert isinstance(entry.content, Prompt)


def test_a_list_of_prompts_is_one_line_however_many_of_them_are_broken() -> None:
    fine, partly = {"model": "m", "prompt": ["a", "b"]}, {"model": "m", "prompt": ["", "c", "", "d", ""]}
    wholly = {"model": "m", "prompt": ["", "", ""]}
    content = "\n".join(map(json.dumps, [fine, partly, fine, fine, wholly, fine])).encode()
    traffic = read_traffic(content, where="log", cutter=BytesCutter(b"key"))
    assert (len(traffic), traffic.skipped_lines) == (10, 2)
    assert traffic.line.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 6, 6]
    assert traffic.skipped == (
        "line 2: an empty prompt (seen no text)",
        "line 5: an empty prompt (seen no text)",
    )
    (told,) = [caveat.text for caveat in traffic.caveats if caveat.code == "lines_skipped"]
    assert told.startswith(
        "2 of 6 lines were broken and skipped, 1 of them in part, whose other prompts were read; the"
    )


@pytest.mark.parametrize(("most_broken", "passes"), [(None, False), (0, False), (1, True)])
def test_a_line_that_is_broken_in_part_counts_as_broken(most_broken: int | None, *, passes: bool) -> None:
    content = json.dumps({"model": "m", "prompt": ["a", "", "b"]}).encode()
    if passes:
        assert len(read_traffic(content, where="log", cutter=BytesCutter(b"key"), most_broken=most_broken)) == 2
    else:
        with pytest.raises(TrafficError, match="an empty prompt"):
            read_traffic(content, where="log", cutter=BytesCutter(b"key"), most_broken=most_broken)


@pytest.mark.parametrize("odd", [0, 1, 30])
@pytest.mark.parametrize("timed", [True, False])
def test_most_of_the_first_requests_tell_whether_a_log_has_times(odd: int, *, timed: bool) -> None:
    rows = [{"request": CHAT} | ({"timestamp": 1796029200 + n} if (n != odd) == timed else {}) for n in range(40)]
    content = "\n".join(map(json.dumps, rows)).encode()
    traffic = read_traffic(content, where="log", cutter=BytesCutter(b"key"))
    assert (len(traffic), traffic.skipped_lines, traffic.timed) == (39, 1, timed)
    assert traffic.skipped[0].startswith(f"line {odd + 1}: {'no time' if timed else 'a time of another kind'}")


CACHED = {"input_tokens": 10, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 950, "output_tokens": 5}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (CACHED, 1000),
        (CACHED | {"cache_creation_input_tokens": None}, 960),
        (CACHED | {"input_tokens": 0}, 990),
        ({"input": 10, "cache_read_input_tokens": 990}, 1000),
        ({"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 990}}, 1000),
        ({"prompt_tokens": 1000, "cache_read_input_tokens": 990, "cache_creation_input_tokens": 5}, 1000),
        ({"prompt_tokens": 1000, "prompt_tokens_details": {"cached_tokens": 990}}, 1000),
    ],
    ids=["anthropic", "nothing written", "all cached", "langfuse", "responses", "litellm", "chat"],
)
def test_cached_tokens_count_once_whether_the_source_counts_them_in_or_beside(
    usage: dict[str, Any], tokens: int
) -> None:
    _, (beside, answered) = read({"request": CHAT, "usage": usage}, {"request": CHAT, "response": {"usage": usage}})
    assert (beside.input_tokens, answered.input_tokens) == (tokens, tokens)


def test_cached_tokens_count_in_a_record_of_counts_alone() -> None:
    traffic, _ = read({"timestamp": 1796029200} | CACHED)
    assert traffic.input_tokens.tolist() == [1000]


def test_true_and_false_name_nobody() -> None:
    _, entries = read(
        {"request": CHAT, "user": False, "session_id": True, "metadata": {"team": True}},
        {"request": CHAT, "user": 0, "session_id": 7},
    )
    assert [(entry.tenant, entry.session) for entry in entries] == [(None, None), ("0", "7")]


FAILED = {"call_type": "acompletion", "status": "failure", "prompt_tokens": 0, "messages": "{}"}
EMBEDDED = {"call_type": "aembedding", "prompt_tokens": 10, "messages": "{}"}
STEP = {"type": "SPAN", "startTime": "2026-11-30T09:00:05Z", "name": "retrieve"}


@pytest.mark.parametrize("passed_over", [FAILED, EMBEDDED, STEP], ids=["failed", "embedded", "step"])
def test_a_log_may_begin_with_any_number_of_records_that_are_no_requests(passed_over: dict[str, Any]) -> None:
    traffic, _ = read(*[passed_over] * 25, *[SPENT] * 30)
    assert (traffic.format, len(traffic), traffic.skipped_lines) == ("openai", 30, 0)


@pytest.mark.parametrize(
    ("passed_over", "seen"),
    [
        (FAILED, "3 records of failed requests say neither text nor tokens: they were left out"),
        (EMBEDDED, "3 records other than generations (embeddings, spans) were passed over"),
    ],
    ids=["failed", "embedded"],
)
def test_a_log_without_a_request_says_what_it_holds_instead(passed_over: dict[str, Any], seen: str) -> None:
    with pytest.raises(TrafficError, match="no request in it") as caught:
        read(*[passed_over] * 3)
    assert caught.value.seen == seen
    assert "--format" not in str(caught.value.hint)


def test_a_failure_of_something_else_is_no_log_of_requests() -> None:
    with pytest.raises(TrafficError, match="no known format"):
        read({"status": "failure", "message": "disk full"})
