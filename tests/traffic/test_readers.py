from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.errors import TrafficError
from unmoor.core.traffic import Segment
from unmoor.traffic.readers import FORMATS, read_workload

MOONCAKE = b"""\
{"timestamp": 0, "input_length": 1000, "output_length": 50, "hash_ids": [0, 1]}
{"timestamp": 1500, "input_length": 1024, "output_length": 7, "hash_ids": [0, 2]}
"""
AZURE = b"""\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
"""
OURS = b"""\
{"unmoor_traffic":1,"overlap_block_tokens":1}
{"arrival_s":0.5,"input_tokens":10,"output_tokens":5,"segments":[["a",4],["b",6]]}
{"arrival_s":1.5,"input_tokens":4,"output_tokens":5,"segments":[["a",4]],"session":"s1"}
"""
SAMPLES = {"mooncake": MOONCAKE, "azure": AZURE, "unmoor": OURS}


def refused(content: bytes, format_name: str | None = None) -> TrafficError:
    with pytest.raises(TrafficError) as caught:
        read_workload(content, where="log", format_name=format_name)
    error = caught.value
    assert error.exit_code == 2
    assert error.seen
    assert len(error.seen) <= 80
    assert error.expected
    assert error.hint
    return error


def test_every_format_has_a_sample_here() -> None:
    assert SAMPLES.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_the_first_line_tells_the_format(name: str) -> None:
    workload = read_workload(SAMPLES[name], where="log")
    assert workload.format == name
    assert workload == read_workload(SAMPLES[name], where="log", format_name=name)
    assert workload.source == "log"
    assert workload.fingerprint == hashlib.sha256(SAMPLES[name]).hexdigest()


@pytest.mark.parametrize("name", SAMPLES)
def test_line_ends_blank_lines_and_a_byte_order_mark_change_nothing(name: str) -> None:
    plain = read_workload(SAMPLES[name], where="log").requests
    windows = b"\xef\xbb\xbf" + SAMPLES[name].replace(b"\n", b"\r\n")
    assert read_workload(windows, where="log").requests == plain
    assert read_workload(SAMPLES[name].rstrip(b"\n"), where="log").requests == plain
    assert read_workload(b"\n" + SAMPLES[name].replace(b"\n", b"\n\n"), where="log").requests == plain


def test_mooncake_blocks_become_segments_and_the_last_one_is_partial() -> None:
    workload = read_workload(MOONCAKE, where="log")
    first, second = workload.requests
    assert first.segments == (Segment("0", 512), Segment("1", 488))
    assert second.segments == (Segment("0", 512), Segment("2", 512))
    assert (second.arrival_s, second.input_tokens, second.output_tokens) == (1.5, 1024, 7)
    assert workload.overlap_block_tokens == 512


def test_azure_times_count_from_the_first_and_content_is_unknown() -> None:
    workload = read_workload(AZURE, where="log")
    assert [r.arrival_s for r in workload.requests] == [0.0, pytest.approx(4.314579, abs=1e-6)]
    assert [(r.input_tokens, r.output_tokens) for r in workload.requests] == [(374, 44), (396, 109)]
    assert workload.overlap_block_tokens is None
    assert all(not r.segments for r in workload.requests)


def test_azure_times_with_a_zone_and_without_one_can_stand_together() -> None:
    mixed = AZURE.replace(b"15:50.9951690", b"15:50.9951690+00:00")
    assert read_workload(mixed, where="log").requests == read_workload(AZURE, where="log").requests


def test_our_own_arrivals_stand_as_written() -> None:
    workload = read_workload(OURS, where="log")
    assert [r.arrival_s for r in workload.requests] == [0.5, 1.5]
    assert workload.requests[1].session == "s1"
    assert workload.overlap_block_tokens == 1


@pytest.mark.parametrize("name", SAMPLES)
def test_arrivals_out_of_order_are_sorted_and_a_caveat_says_so(name: str) -> None:
    lines = SAMPLES[name].splitlines(keepends=True)
    swapped = b"".join([*lines[:-2], lines[-1], lines[-2]])
    workload = read_workload(swapped, where="log")
    assert workload.requests == read_workload(SAMPLES[name], where="log").requests
    assert [c.code for c in workload.caveats] == ["out_of_order"]


def test_requests_of_one_moment_keep_their_order() -> None:
    row = '{{"timestamp": 5, "input_length": 1, "output_length": {}, "hash_ids": [1]}}\n'
    workload = read_workload("".join(row.format(n) for n in (3, 1, 2)).encode(), where="log")
    assert [r.output_tokens for r in workload.requests] == [3, 1, 2]
    assert workload.caveats == ()
    assert {r.arrival_s for r in workload.requests} == {0.0}


@pytest.mark.parametrize("content", [b"", b"\n \n\r\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", [None, *SAMPLES])
def test_an_empty_file_is_refused(content: bytes, name: str | None) -> None:
    error = refused(content, name)
    assert error.message == "no request in it"
    assert error.seen == "an empty file"


@pytest.mark.parametrize("name", ["azure", "unmoor"])
def test_a_header_alone_is_refused(name: str) -> None:
    assert refused(SAMPLES[name].splitlines()[0]).seen == "a header without a request after it"


def test_an_unknown_format_name_is_refused_with_the_nearest() -> None:
    assert refused(MOONCAKE, "moncake").hint == "did you mean 'mooncake'?"


SECRET = "my bank account is 12345"  # noqa: S105 - stands for a prompt, not a password


@pytest.mark.parametrize(
    "content",
    [
        '{"messages": [{"role": "user", "content": "my bank account is 12345"}]}',
        "my bank account is 12345",
        '["my bank account is 12345"]',
        '{"content": "my bank account is 12345',
        "[" * 100_000,
    ],
)
@pytest.mark.parametrize("name", [None, *SAMPLES])
def test_a_log_of_no_known_format_is_refused_without_showing_what_it_holds(content: str, name: str | None) -> None:
    error = refused(content.encode(), name)
    assert error.where == "log:1"
    assert SECRET not in str(error)


@pytest.mark.parametrize("row", [f"2023-11-16 18:15:46,{SECRET},1", f"{SECRET},1,1", f"2023-11-16 18:15:46,1,{SECRET}"])
def test_a_text_in_a_column_is_refused_without_being_shown(row: str) -> None:
    error = refused(AZURE + row.encode())
    assert error.where == "log:4"
    assert SECRET not in str(error)
    assert error.seen == f"a text of {len(SECRET)} characters"


def test_bytes_that_are_not_utf8_are_refused_with_their_line() -> None:
    error = refused(AZURE + b"2023-11-16 18:15:51,\xff,3\n")
    assert (error.message, error.where) == ("not UTF-8", "log:4")
    assert error.seen == f"byte 0xff at offset {len(AZURE) + 20}"


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
        (b": 7", b": 0", "'output_length' is out of range"),
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
        (b",44", b",0", "'GeneratedTokens' is out of range"),
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


@given(st.binary(max_size=200), st.sampled_from([None, *SAMPLES]), st.sampled_from([b"", *SAMPLES.values()]))
def test_no_bytes_break_a_reader(tail: bytes, name: str | None, head: bytes) -> None:
    try:
        workload = read_workload(head + tail, where="log", format_name=name)
    except TrafficError:
        return
    assert workload.requests


@pytest.mark.trace
def test_the_real_mooncake_trace_is_read_whole_and_fast(mooncake_trace: Path) -> None:
    content = mooncake_trace.read_bytes()
    start = time.process_time()
    workload = read_workload(content, where="mooncake")
    assert time.process_time() - start < 2
    assert len(workload.requests) == 12_031
    assert workload.duration_s == pytest.approx(3537, abs=1)
    assert workload.caveats == ()


@pytest.mark.trace
def test_the_real_azure_trace_is_read_whole(azure_trace: Path) -> None:
    workload = read_workload(azure_trace.read_bytes(), where="azure")
    assert len(workload.requests) == 19_366
    assert workload.format == "azure"
