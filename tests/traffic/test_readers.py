from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.errors import TrafficError
from unmoor.traffic.log import UNKNOWN, Grain, Traffic
from unmoor.traffic.readers import FORMATS, read_traffic

MOONCAKE = b"""\
{"timestamp": 0, "input_length": 1000, "output_length": 50, "hash_ids": [0, 1]}
{"timestamp": 1500, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]}
"""
BAILIAN = b"""\
{"chat_id": 7, "parent_chat_id": -1, "timestamp": 0.5, "input_length": 40, "output_length": 9, "type": "text", \
"turn": 1, "hash_ids": [5, 6, 7]}
{"chat_id": 9, "parent_chat_id": 7, "timestamp": 61.25, "input_length": 48, "output_length": 8, "type": "search", \
"turn": 2, "hash_ids": [5, 6, 8]}
"""
AZURE = b"""\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
BURSTGPT = b"""\
Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,12,3.5,ChatGPT,472,18,490,Conversation log
45.5,,,GPT-4,1087,0,1087,API log
"""
LENGTHS = b"""\
Prompt Tokens,completion_tokens,timestamp,Session-ID,latency_s,team
100,20,1700000000123,"a, b",1.5,red
120,30,1700000001123,,,
"""
SHAREGPT = b"""\
[{"id": "x", "conversations": [{"from": "human", "value": "What is the time?"}, {"from": "gpt", "value": "Noon."},
  {"from": "human", "value": "And now?"}, {"from": "gpt", "value": "Noon, {still}."}]}]
"""
OURS = b"""\
{"unmoor_traffic":1,"overlap_block_tokens":1}
{"arrival_s":0.5,"input_tokens":10,"output_tokens":5,"segments":[["a",4],["b",6]]}
{"arrival_s":1.5,"input_tokens":4,"output_tokens":5,"segments":[["a",4]],"session":"s1"}
"""
LINES = {
    "mooncake": MOONCAKE,
    "bailian": BAILIAN,
    "azure": AZURE,
    "burstgpt": BURSTGPT,
    "lengths": LENGTHS,
    "unmoor": OURS,
}
SAMPLES = {**LINES, "sharegpt": SHAREGPT}


def read(content: bytes, **options: object) -> Traffic:
    return read_traffic(content, where="log", **options)  # type: ignore[arg-type] # a test's own options


def rows(traffic: Traffic) -> list[tuple[object, ...]]:
    """What is known of each request, without where its prompt stands in the tree."""
    arrivals = traffic.arrival_s.tolist() if traffic.timed else [None] * len(traffic)
    return list(
        zip(arrivals, traffic.input_tokens.tolist(), traffic.output_tokens.tolist(), _names(traffic), strict=True)
    )


def _names(traffic: Traffic) -> list[str | None]:
    return [None if code == UNKNOWN else traffic.session.names[code] for code in traffic.session.code.tolist()]


def paths(traffic: Traffic) -> list[list[int]]:
    """For each request, where the nodes on its prompt's path end."""
    assert traffic.tree is not None
    return [[int(traffic.tree.end[node]) for node in traffic.tree.path(row)] for row in traffic.node.tolist()]


def refused(content: bytes, format_name: str | None = None, most_broken: int | None = 0) -> TrafficError:
    with pytest.raises(TrafficError) as caught:
        read(content, format_name=format_name, most_broken=most_broken)
    error = caught.value
    assert error.exit_code == 2
    assert error.seen
    assert len(error.seen) <= 80
    assert error.expected
    assert error.hint
    return error


def test_every_sample_is_of_a_format() -> None:
    assert SAMPLES.keys() <= FORMATS.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_the_first_record_tells_the_format(name: str) -> None:
    traffic = read(SAMPLES[name])
    assert traffic.format == name
    assert rows(traffic) == rows(read(SAMPLES[name], format_name=name))
    assert traffic.source == "log"
    assert traffic.fingerprint == hashlib.sha256(SAMPLES[name]).hexdigest()
    assert len(traffic) == 2


@pytest.mark.parametrize("name", LINES)
def test_line_ends_blank_lines_and_a_byte_order_mark_change_nothing(name: str) -> None:
    plain = rows(read(SAMPLES[name]))
    windows = b"\xef\xbb\xbf" + SAMPLES[name].replace(b"\n", b"\r\n")
    assert rows(read(windows)) == plain
    assert rows(read(SAMPLES[name].rstrip(b"\n"))) == plain
    assert rows(read(b"\n" + SAMPLES[name].replace(b"\n", b"\n\n"))) == plain


def test_the_lines_of_a_log_are_numbered_as_an_editor_does() -> None:
    assert read(b"\n" + AZURE.replace(b"\n", b"\n\n")).line.tolist() == [4, 6]


def test_mooncake_blocks_become_a_tree_and_the_last_one_is_partial() -> None:
    traffic = read(MOONCAKE)
    assert rows(traffic) == [(0.0, 1000, 50, None), (1.5, 1024, 7, None)]
    assert traffic.grain == Grain(by="blocks", tokens=512)
    assert paths(traffic) == [[512, 1000], [512, 1024]]


def test_a_partial_block_is_not_the_whole_one_of_the_same_id() -> None:
    row = '{{"timestamp": 0, "input_length": {}, "output_length": 1, "hash_ids": [4, 5]}}\n'
    assert paths(read("".join(map(row.format, (1000, 1024, 1000))).encode())) == [[512, 1000], [512, 1024], [512, 1000]]


def test_bailian_turns_are_of_the_session_that_their_first_one_began() -> None:
    later = BAILIAN.splitlines()[1].replace(b'"chat_id": 9, "parent_chat_id": 7', b'"chat_id": 11, "parent_chat_id": 9')
    traffic = read(BAILIAN + later)
    assert rows(traffic)[2] == (60.75, 48, 8, "7")
    assert {row[3] for row in rows(traffic)} == {"7"}
    assert traffic.grain == Grain(by="blocks", tokens=16)
    assert paths(traffic) == [[32, 40], [32, 48], [32, 48]]
    assert "1 text" in traffic.caveats[0].text


@pytest.mark.parametrize("ids", [(7, 9, 11), (7, 5_000_000, 3), ("a", "b", "c"), (2**80, 4, 2**70), (-5, -6, -7)])
def test_bailian_sessions_whatever_ids_are(ids: tuple[int | str, ...]) -> None:
    lines = [json.loads(BAILIAN.splitlines()[0]) | {"chat_id": chat} for chat in ids]
    for line, parent in zip(lines[1:], ids, strict=False):
        line["parent_chat_id"] = parent
    alone = lines[0] | {"chat_id": 77}
    traffic = read("\n".join(map(json.dumps, [*lines, alone])).encode())
    assert _names(traffic) == [str(ids[0])] * 3 + ["77"]


def test_bailian_without_a_hash_of_the_partial_block_takes_it_to_be_like_no_other() -> None:
    short = BAILIAN.replace(b"[5, 6, 7]", b"[5, 6]").splitlines()[0]
    assert paths(read(short + b"\n" + short)) == [[32, 40], [32, 40]]
    assert len(set(read(short + b"\n" + short).node.tolist())) == 2


def test_azure_times_count_from_the_first_and_content_is_unknown() -> None:
    traffic = read(AZURE)
    assert rows(traffic) == [(0.0, 374, 44, None), (pytest.approx(4.314579, abs=1e-6), 396, 109, None)]
    assert traffic.grain is None
    assert traffic.tree is None
    assert traffic.node.tolist() == [UNKNOWN, UNKNOWN]


def test_azure_times_with_a_zone_and_without_one_can_stand_together() -> None:
    mixed = AZURE.replace(b"15:50.9951690", b"15:50.9951690+00:00")
    assert rows(read(mixed)) == rows(read(AZURE))


def test_burstgpt_failures_are_kept_and_counted() -> None:
    traffic = read(BURSTGPT)
    assert rows(traffic) == [(0.0, 472, 18, "12"), (40.5, 1087, 0, None)]
    assert traffic.took_s.tolist() == [3.5, pytest.approx(float("nan"), nan_ok=True)]
    assert traffic.features.models == {"ChatGPT": 1, "GPT-4": 1}
    assert [c.code for c in traffic.caveats] == ["request_kinds", "failed_requests", "several_models"]


def test_burstgpt_of_the_first_release_has_no_sessions() -> None:
    first = b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n"
    traffic = read(first)
    assert (traffic.format, rows(traffic)) == ("burstgpt", [(0.0, 472, 18, None)])


def test_a_csv_of_lengths_goes_by_its_header_whatever_the_order_and_the_case() -> None:
    traffic = read(LENGTHS)
    assert rows(traffic) == [(0.0, 100, 20, "a, b"), (1.0, 120, 30, None)]
    assert traffic.took_s[0] == 1.5
    assert traffic.tenant.names == ("red",)
    assert [c.code for c in traffic.caveats] == ["clock_unit"]


def test_a_csv_of_lengths_alone_has_no_times_and_keeps_its_order() -> None:
    traffic = read(b"output_tokens,input_tokens\n1,30\n,20\n3,10.0\n")
    assert traffic.input_tokens.tolist() == [30, 20, 10]
    assert traffic.output_tokens.tolist() == [1, UNKNOWN, 3]
    assert not traffic.timed
    assert traffic.duration_s is None


def test_sharegpt_answers_are_requests_whose_prompt_is_all_that_came_before() -> None:
    traffic = read(SHAREGPT.replace(b"What is", b"What is" * 50))
    assert not traffic.timed
    first, second = paths(traffic)
    assert first[0] == second[0] == 80  # of 23 + 49 * 7 bytes and a role, the pieces that are full
    assert traffic.session.names == ("x/1",)
    assert [c.code for c in traffic.caveats] == ["tokens_assumed"]
    assert traffic.output_tokens.tolist() == [2, 4]  # 5 and 14 bytes, at 4 a token


def test_sharegpt_one_dialogue_a_line_is_read_too() -> None:
    lines = b"".join(SHAREGPT.strip()[1:-1].splitlines())
    assert rows(read(lines)) == rows(read(SHAREGPT))


def test_our_own_arrivals_count_from_the_first() -> None:
    traffic = read(OURS)
    assert rows(traffic) == [(0.0, 10, 5, None), (1.0, 4, 5, "s1")]
    assert traffic.grain == Grain(by="segments", tokens=1)
    assert paths(traffic) == [[4, 10], [4]]


@pytest.mark.parametrize("name", LINES)
def test_arrivals_out_of_order_are_sorted_and_a_caveat_says_so(name: str) -> None:
    lines = SAMPLES[name].splitlines(keepends=True)
    traffic = read(b"".join([*lines[:-2], lines[-1], lines[-2]]))
    assert rows(traffic) == rows(read(SAMPLES[name]))
    assert traffic.caveats[0].code == "out_of_order"
    assert np.diff(traffic.line).tolist() == [-1]


def test_requests_of_one_moment_keep_their_order() -> None:
    row = '{{"timestamp": 5, "input_length": 1, "output_length": {}, "hash_ids": [1]}}\n'
    traffic = read("".join(row.format(n) for n in (3, 1, 2)).encode())
    assert traffic.output_tokens.tolist() == [3, 1, 2]
    assert traffic.caveats == ()
    assert traffic.arrival_s.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("content", [b"", b"\n \n\r\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", [None, *SAMPLES])
def test_an_empty_file_is_refused(content: bytes, name: str | None) -> None:
    error = refused(content, name)
    assert error.message == "no request in it"
    assert error.seen == "an empty file"


@pytest.mark.parametrize("name", ["azure", "burstgpt", "lengths", "unmoor"])
def test_a_header_alone_is_refused(name: str) -> None:
    assert refused(SAMPLES[name].splitlines()[0]).seen == "a header without a request after it"


def test_an_array_of_nothing_is_refused() -> None:
    assert refused(b" [ ] ").message == "no request in it"


def test_an_unknown_format_name_is_refused_with_the_nearest() -> None:
    assert refused(MOONCAKE, "moncake").hint == "did you mean 'mooncake'?"


def test_an_object_that_holds_a_list_is_told_how_it_can_be_taken_apart() -> None:
    assert "jq -c '.data[]' LOG" in str(refused(b'{"data": [{"a": 1}]}\n').hint)


SECRET = "my bank account is 12345"  # noqa: S105 - stands for a prompt, not a password


@pytest.mark.parametrize(
    "content",
    [
        '{"letters": [{"role": "user", "content": "my bank account is 12345"}]}',
        "my bank account is 12345",
        '["my bank account is 12345"]',
        '{"content": "my bank account is 12345',
        "[" * 100_000,
        '{"a": ' * 100_000,
    ],
)
@pytest.mark.parametrize("name", [None, *SAMPLES])
def test_a_log_of_no_known_format_is_refused_without_showing_what_it_holds(content: str, name: str | None) -> None:
    error = refused(content.encode(), name)
    assert error.where == "log:1"
    assert SECRET not in str(error)


def test_a_json_object_over_several_lines_is_told_how_to_become_one() -> None:
    assert "jq" in str(refused(b'{\n  "messages": []\n}\n').hint)


@pytest.mark.parametrize("row", [f"2023-11-16 18:15:46,{SECRET},1", f"{SECRET},1,1", f"2023-11-16 18:15:46,1,{SECRET}"])
def test_a_text_in_a_column_is_refused_without_being_shown(row: str) -> None:
    error = refused(AZURE + row.encode())
    assert error.where == "log:4"
    assert SECRET not in str(error)
    assert error.seen == f"a text of {len(SECRET)} characters"


def test_bytes_that_are_not_utf8_are_refused_with_their_line() -> None:
    error = refused(AZURE + b"2023-11-16 18:15:51,\xff,3\n")
    assert (error.message, error.where) == ("not UTF-8", "log:4")
    assert error.seen == "byte 0xff at byte 20 of 24"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"1500", b"-1", "'timestamp' is out of range"),
        (b"1500", b"1e300", "'timestamp' is out of range"),
        (b"1500", b"1e999", "wrong value for 'timestamp'"),
        (b"1500", b"NaN", "not a JSON object"),
        (b"1500", b'"1500"', "wrong value for 'timestamp'"),
        (b"1500", b"null", "wrong value for 'timestamp'"),
        (b"1500", b"true", "wrong value for 'timestamp'"),
        (b"1024", b"0", "'input_length' is out of range"),
        (b"1024", b"-1024", "'input_length' is out of range"),
        (b"1024", b"1" + b"0" * 400, "'input_length' is out of range"),
        (b"1024", b"1024.5", "wrong value for 'input_length'"),
        (b"1024", b"1025", "the hashes do not cover the prompt"),
        (b"1024", b"512", "the hashes do not cover the prompt"),
        (b": 7", b": -1", "'output_length' is out of range"),
        (b"[0, 2]", b"[]", "the hashes do not cover the prompt"),
        (b"[0, 2]", b'[0, "2"]', "wrong value for 'hash_ids[1]'"),
        (b"[0, 2]", b"7", "wrong value for 'hash_ids'"),
        (b', "hash_ids": [0, 2]', b"", "missing key 'hash_ids'"),
        (b"[0, 2]}", b"[0, 2]", "not a JSON object"),
        (b"[0, 2]}", b"[0, 2]} x", "not a JSON object"),
    ],
)
def test_a_broken_mooncake_line_names_its_place(old: bytes, new: bytes, message: str) -> None:
    head, tail = MOONCAKE.splitlines(keepends=True)
    error = refused(head + tail.replace(old, new))
    assert (error.message, error.where) == (message, "log:2")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"374,44", b"374", "wrong number of columns"),
        (b"374,44", b"374,44,1", "wrong number of columns"),
        (b"374", b"", "wrong value for 'ContextTokens'"),
        (b"374", b"nan", "wrong value for 'ContextTokens'"),
        (b"374", b"37.4", "wrong value for 'ContextTokens'"),
        (b"374", b"9" * 5000, "wrong value for 'ContextTokens'"),
        (b"374", b"9" * 18, "'ContextTokens' is out of range"),
        (b"374", b"0", "'ContextTokens' is out of range"),
        (b"374", b"-3", "'ContextTokens' is out of range"),
        (b",44", b",-1", "'GeneratedTokens' is out of range"),
        (b"2023-11-16 18:15:46.6805900", b"inf", "wrong value for 'TIMESTAMP'"),
        (b"2023-11-16 18:15:46.6805900", b"2023-13-16 18:15:46", "wrong value for 'TIMESTAMP'"),
    ],
)
def test_a_broken_azure_line_names_its_place(old: bytes, new: bytes, message: str) -> None:
    error = refused(AZURE.replace(old, new, 1))
    assert (error.message, error.where) == (message, "log:2")


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        (b'traffic":1', b'traffic":2', "a version of the format that is not known", 1),
        (b'traffic":1', b'traffic":"1"', "wrong value for 'unmoor_traffic'", 1),
        (b',"overlap_block_tokens":1', b"", "missing key 'overlap_block_tokens'", 1),
        (b'block_tokens":1', b'block_tokens":0', "'overlap_block_tokens' is out of range", 1),
        (b'block_tokens":1', b'block_tokens":null', "the segments do not add up to the prompt", 2),
        (b":0.5", b":-0.5", "'arrival_s' is out of range", 2),
        (b":0.5", b":Infinity", "not a JSON object", 2),
        (b'"input_tokens":10', b'"input_tokens":11', "the segments do not add up to the prompt", 2),
        (b',"segments":[["a",4],["b",6]]', b"", "the segments do not add up to the prompt", 2),
        (b'["b",6]', b'["b",0],["c",6]', "'segments[...].tokens' is out of range", 2),
        (b'["b",6]', b'["b"]', "wrong value for 'segments[1]'", 2),
        (b'"output_tokens":5,', b"", "missing key 'output_tokens'", 2),
        (b'"output_tokens":5', b'"output_tokens":0', "'output_tokens' is out of range", 2),
    ],
)
def test_a_broken_line_of_our_own_names_its_place(old: bytes, new: bytes, message: str, line: int) -> None:
    error = refused(OURS.replace(old, new, 1))
    assert (error.message, error.where) == (message, f"log:{line}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"[5, 6, 8]", b"[5]", "the hashes do not cover the prompt"),
        (b"[5, 6, 8]", b"[5, 6, null]", "wrong value for 'hash_ids[2]'"),
        (b": 48,", b": 0,", "'input_length' is out of range"),
        (b"61.25", b"-1e300", "'timestamp' is out of range"),
        (b'"chat_id": 9, ', b"", "missing key 'chat_id'"),
    ],
)
def test_a_broken_bailian_line_names_its_place(old: bytes, new: bytes, message: str) -> None:
    error = refused(BAILIAN.replace(old, new))
    assert (error.message, error.where) == (message, "log:2")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"472", b"0", "'Request tokens' is out of range"),
        (b",18,", b",-1,", "'Response tokens' is out of range"),
        (b"5,12", b"soon,12", "wrong value for 'Timestamp'"),
        (b"3.5", b"-3.5", "wrong value for 'Elapsed time'"),
        (b"ChatGPT", b'"ChatGPT', "a quoted field is not closed"),
    ],
)
def test_a_broken_burstgpt_line_names_its_place(old: bytes, new: bytes, message: str) -> None:
    error = refused(BURSTGPT.replace(old, new, 1))
    assert (error.message, error.where) == (message, "log:2")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"human", b"nobody", "a speaker that is not known"),
        (b'"conversations"', b'"talks"', "missing key 'conversations'"),
        (b'"Noon."', b"12", "wrong value for 'conversations[1].value'"),
    ],
)
def test_a_broken_dialogue_names_its_place(old: bytes, new: bytes, message: str) -> None:
    error = refused(SHAREGPT.replace(old, new, 1), "sharegpt")
    assert (error.message, error.where) == (message, "log:1")


@given(st.binary(max_size=200), st.sampled_from([None, *SAMPLES]), st.sampled_from([b"", *SAMPLES.values()]))
def test_no_bytes_break_a_reader(tail: bytes, name: str | None, head: bytes) -> None:
    try:
        traffic = read(head + tail, format_name=name)
    except TrafficError:
        return
    assert len(traffic)


@pytest.mark.trace
def test_the_real_mooncake_trace_is_read_whole_and_fast(mooncake_trace: Path) -> None:
    start = time.process_time()
    traffic = read(mooncake_trace.read_bytes())
    assert time.process_time() - start < 1
    assert len(traffic) == 12_031
    assert traffic.duration_s == pytest.approx(3537, abs=1)
    assert traffic.caveats == ()


@pytest.mark.trace
def test_the_real_azure_trace_is_read_whole(azure_trace: Path) -> None:
    traffic = read(azure_trace.read_bytes())
    assert len(traffic) == 19_366
    assert traffic.format == "azure"
