from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from unmoor.core.errors import TrafficError
from unmoor.traffic.readers import LogFile, read_traffic
from unmoor.traffic.readers.contract import Broken
from unmoor.traffic.readers.json_array import elements
from unmoor.traffic.readers.records import LONGEST_RECORD_BYTES, Records

ROW = '{{"timestamp": {}, "input_length": 600, "output_length": 7, "hash_ids": [0, {}]}}\n'
LOG = "".join(ROW.format(n * 1000, n) for n in range(50)).encode()


class Trickle(io.RawIOBase):
    """A pipe that gives its bytes a few at a time."""

    def __init__(self, content: bytes, step: int) -> None:
        self._content = io.BytesIO(content)
        self._step = step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._content.read(min(self._step, size) if size > 0 else self._step)


def records(content: bytes, *, longest: int = LONGEST_RECORD_BYTES, step: int = 0) -> list[tuple[int, bytes | Broken]]:
    stream: BinaryIO | bytes = Trickle(content, step) if step else content  # type: ignore[assignment] # as a raw pipe is
    found = Records(stream, where="log", longest=longest)
    return [row for _, rows in found.files() for row in rows]


def refused(content: bytes) -> TrafficError:
    with pytest.raises(TrafficError) as caught:
        read_traffic(content, where="log")
    assert caught.value.hint
    return caught.value


PACKED = {
    "gzip": gzip.compress(LOG),
    "gzip of several members": gzip.compress(LOG[:1000]) + gzip.compress(LOG[1000:]),
    "gzip with padding": gzip.compress(LOG) + bytes(512),
    "zstd": zstd.compress(LOG),
    "zstd of several frames": zstd.compress(LOG[:1000]) + zstd.compress(LOG[1000:]),
    "zstd that begins with a skippable frame": b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + zstd.compress(LOG),
    "gzip with a mark": gzip.compress(b"\xef\xbb\xbf" + LOG),
}


@pytest.mark.parametrize("packed", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("step", [0, 1, 1000])
def test_archives_are_unpacked_whatever_their_name(packed: bytes, step: int) -> None:
    assert [record for _, record in records(packed, step=step)] == LOG.splitlines(keepends=True)


def test_a_log_and_its_archive_have_one_fingerprint() -> None:
    prints = {read_traffic(packed, where="log").fingerprint for packed in (LOG, gzip.compress(LOG), zstd.compress(LOG))}
    assert prints == {hashlib.sha256(LOG).hexdigest()}


@pytest.mark.parametrize("packed", [gzip.compress(LOG), zstd.compress(LOG), zstd.compress(LOG[:900]) * 2])
def test_an_archive_that_ends_early_is_an_error_wherever_it_is_cut(packed: bytes) -> None:
    for size in range(20, len(packed), 7):
        if size == len(packed) // 2 and packed[:size] == packed[size:]:
            continue
        error = refused(packed[:size])
        assert "ends early" in error.message
        assert "-dc FILE | unmoor profile -" in str(error.hint)


@pytest.mark.parametrize(("packed", "kind"), [(gzip.compress(LOG), "gzip"), (zstd.compress(LOG), "zstd")])
def test_a_damaged_archive_is_an_error(packed: bytes, kind: str) -> None:
    middle = len(packed) // 2
    broken = packed[:middle] + bytes(byte ^ 0xFF for byte in packed[middle : middle + 8]) + packed[middle + 8 :]
    assert refused(broken).message in (f"a damaged {kind} archive", f"the {kind} archive ends early")


def test_what_follows_an_archive_is_an_error() -> None:
    assert refused(gzip.compress(LOG) + b"hello hello hello").message == "a damaged gzip archive"


NO_LOGS = {
    "a Parquet file": b"PAR1\x15\x04\x15",
    "a zip archive": b"PK\x03\x04\x14",
    "a bzip2 archive": b"BZh91AY&SY",
    "an xz archive": b"\xfd7zXZ\x00\x00",
    "a Python pickle, which would run what is in it": pickle.dumps([{"text": "secret"}], protocol=2),
    "a NumPy array": b"\x93NUMPY\x01\x00",
    "a picture": b"\x89PNG\r\n\x1a\n",
    "a database": b"SQLite format 3\x00",
    "UTF-16": "text".encode("utf-16"),
    "binary content": b"\x00\x00\x07\x01text\x00",
}


@pytest.mark.parametrize("kind", NO_LOGS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd.compress])
def test_files_of_other_kinds_are_named(kind: str, pack: Callable[[bytes], bytes]) -> None:
    error = refused(pack(NO_LOGS[kind]))
    assert (error.message, error.seen) == ("not a log", kind)


def test_a_log_that_was_cut_back_while_it_was_written_begins_with_zeros() -> None:
    assert len(read_traffic(bytes(5000) + b"\n" + LOG, where="log")) == 50


def test_utf16_is_named() -> None:
    error = refused(LOG.decode().encode("utf-16"))
    assert (error.message, error.seen, "iconv" in str(error.hint)) == ("not a log", "UTF-16", True)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_archive_is_named_packed_or_not(mode: Literal["w", "w:gz"]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as tar:
        tar.addfile(tarfile.TarInfo("log.jsonl"), io.BytesIO(b""))
    error = refused(packed.getvalue())
    assert (error.message, error.seen) == ("not a log", "a tar archive")


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_line_that_is_too_long_is_broken_and_those_around_it_are_read(step: int) -> None:
    found = records(b"a\n" + b"b" * 100 + b"\nc\n" + b"d" * 50 + b"\r\n" + b"e" * 51, longest=50, step=step)
    assert [number for number, _ in found] == [1, 2, 3, 4, 5]
    assert [type(record) for _, record in found] == [bytes, Broken, bytes, bytes, Broken]
    assert [record.seen for _, record in found if isinstance(record, Broken)] == ["101 bytes", "51 bytes"]


def test_a_line_that_is_not_utf8_is_broken_with_its_place() -> None:
    found = records("naïve\n".encode() + b"a\xffb\n" + "\u2003\n".encode() + b"last")
    assert [(number, record) for number, record in found if isinstance(record, bytes)] == [
        (1, "naïve\n".encode()),
        (4, b"last"),
    ]
    assert isinstance(found[1][1], Broken)
    assert found[1][1].seen == "byte 0xff at byte 1 of 4"


TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\{}[],: é\n'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='a"\\]}'), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(TREES, max_size=5), st.integers(1, 30), st.sampled_from([None, 2]), st.booleans())
@settings(max_examples=300)
def test_an_array_comes_apart_into_its_elements_wherever_chunks_end(
    trees: list[object],
    step: int,
    indent: int | None,
    escaped: bool,  # noqa: FBT001 - hypothesis passes it by name
) -> None:
    text = b" " + json.dumps(trees, indent=indent, ensure_ascii=escaped).encode() + b"\n"
    chunks = (text[at : at + step] for at in range(0, len(text), step))
    found = list(elements(chunks, longest=10**6))
    assert [json.loads(element) for element in found if isinstance(element, bytes)] == trees
    assert len(found) == len(trees)


def test_an_array_that_ends_early_or_late_says_so() -> None:
    early = list(elements(iter([b'[{"a": 1}, {"b": [2']), longest=100))
    assert early[0] == b'{"a": 1}'
    assert isinstance(early[1], Broken)
    late = list(elements(iter([b"[1, 2] x", b" y"]), longest=100))
    assert late[:2] == [b"1", b"2"]
    assert isinstance(late[2], Broken)


@pytest.mark.parametrize("line", [b"[2026-11-30 12:00:00] INFO", b"[INFO] x", b"[1, 2]"])
def test_a_line_that_begins_with_a_bracket_makes_no_array(line: bytes) -> None:
    assert records(line + b"\n" + line) == [(1, line + b"\n"), (2, line)]


def test_an_element_that_is_too_long_is_passed_over() -> None:
    text = b'["' + b"x" * 90 + b'", "short"]'
    assert list(elements((text[at : at + 7] for at in range(0, len(text), 7)), longest=20)) == [92, b'"short"']


def folder(**files: bytes) -> Iterator[LogFile]:
    return (LogFile(name=name, stream=io.BytesIO(content)) for name, content in files.items())


def test_the_files_of_a_folder_are_one_log() -> None:
    traffic = read_traffic(folder(a=LOG[: len(LOG) // 2], b=gzip.compress(LOG[len(LOG) // 2 :])), where="logs")
    whole = read_traffic(LOG, where="log")
    assert traffic.fingerprint == whole.fingerprint
    assert len(traffic) in (49, 50)  # the line that was cut in two is broken twice, or was not cut
    assert traffic.source == "logs"


def test_each_file_of_a_folder_may_have_its_header_or_none() -> None:
    header = b"input_tokens,output_tokens\n"
    traffic = read_traffic(folder(a=header + b"1,2\n", b=header + b"3,4\n", c=b"5,6\n", d=b""), where="logs")
    assert traffic.input_tokens.tolist() == [1, 3, 5]
    assert traffic.line.tolist() == [2, 4, 5]
    assert traffic.caveats == ()


def test_a_file_of_another_kind_is_named_and_passed_over() -> None:
    traffic = read_traffic(folder(readme=b"Logs of May.\n\nKeep.\n", a=LOG, z=b"checksum of a\n"), where="logs")
    assert len(traffic) == 50
    assert [caveat.code for caveat in traffic.caveats] == ["files_passed_over"]
    assert "readme, z" in traffic.caveats[0].text


def test_files_that_are_clearly_no_logs_are_left_out_of_a_folder_and_named() -> None:
    files = {f"{n}-{kind[:8]}": content for n, (kind, content) in enumerate(NO_LOGS.items())}
    traffic = read_traffic(folder(**dict(list(files.items())[:3]), log=LOG, tail=files["7-a databa"]), where="logs")
    assert len(traffic) == 50
    (told,) = traffic.caveats
    assert told.code == "files_passed_over"
    assert "0-a Parque (a Parquet file), 1-a zip ar (a zip archive), 2-a bzip2" in told.text
    assert "tail (a database)" in told.text
    with pytest.raises(TrafficError) as caught:
        read_traffic(folder(**files), where="logs")
    assert (caught.value.where, caught.value.seen) == ("0-a Parque", "a Parquet file")


def test_files_of_two_formats_in_a_folder_are_an_error_that_names_both() -> None:
    lengths, chat = b"input_tokens,output_tokens\n1,2\n", b'{"messages": [{"role": "user", "content": "Hello"}]}\n'
    vllm = b"INFO 12-01 12:00:00 [core.py:58] ready\n"
    for name, first, second, third in (("openai", LOG, chat, lengths), ("lengths", vllm, lengths, chat)):
        with pytest.raises(TrafficError) as caught:
            read_traffic(folder(a=b"?\n", b=first, c=second, d=third), where="logs")
        assert (caught.value.message, caught.value.where) == ("files of two formats in one folder", "c")
        assert caught.value.seen == name
        assert "as b is" in str(caught.value.expected)
        assert "--format" in str(caught.value.hint)
    traffic = read_traffic(folder(b=LOG, c=chat, d=lengths), where="logs", format_name="lengths")
    assert traffic.input_tokens.tolist() == [1]
    assert "passed over: b, c" in traffic.caveats[0].text


def test_a_folder_reads_alike_whatever_its_files_are_called() -> None:
    """Files before the one that tells the format are read once it is known, as they are after it."""
    header, rows = b"input_tokens,output_tokens\n", b"".join(b"%d,1\n" % n for n in range(1, 60))
    unknown = b"\n".join([b"5;"] * 3 + [b"?"] * 2) + b"\n"
    read = {
        order: read_traffic(folder(**dict(zip("ab", order, strict=True))), where="logs")
        for order in ((header + b"99,1\n", rows), (rows, header + b"99,1\n"))
    }
    assert {tuple(sorted(traffic.input_tokens.tolist())) for traffic in read.values()} == {(*range(1, 60), 99)}
    assert {traffic.caveats for traffic in read.values()} == {()}
    both = [
        read_traffic(folder(**dict(zip("ab", order, strict=True))), where="logs")
        for order in ((unknown, header + rows), (header + rows, unknown))
    ]
    assert [len(traffic) for traffic in both] == [59, 59]
    assert [[caveat.code for caveat in traffic.caveats] for traffic in both] == [["files_passed_over"]] * 2


def test_a_log_of_lines_without_a_request_says_how_many() -> None:
    vllm = b"INFO 12-01 12:00:00 [core.py:58] ready\n"
    with pytest.raises(TrafficError) as caught:
        read_traffic(vllm * 4, where="log")
    assert caught.value.seen == "4 lines without a request"
    assert "--log-level DEBUG" in str(caught.value.expected)


def test_a_broken_line_of_a_folder_is_named_by_its_file() -> None:
    traffic = read_traffic(folder(a=LOG, b=LOG + b"{\n"), where="logs")
    assert traffic.skipped == ("b line 51: not a JSON object (seen Input data was truncated)",)


def test_a_folder_without_a_log_is_refused() -> None:
    with pytest.raises(TrafficError) as caught:
        read_traffic(folder(readme=b"Logs of May.\n", other=b"{}\n"), where="logs")
    assert (caught.value.message, caught.value.where) == ("no known format", "readme:1")


# The kernel's own high-water mark: ru_maxrss of a child is at least what its parent had when it was started.
READ_IT = """
import pathlib, re, sys
from unmoor.traffic.readers import read_traffic
traffic = read_traffic(sys.stdin.buffer, where="-", most_broken=10)
status = pathlib.Path("/proc/self/status")
peak = re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1] if status.exists() else 0
print(len(traffic), traffic.skipped_lines, peak)
"""
MIB = 1024 * 1024


def read_by_a_child(parts: Iterator[bytes]) -> tuple[int, int, int]:
    """Requests, broken lines and the peak of memory (MiB) of another process that reads these parts from a pipe."""
    with subprocess.Popen([sys.executable, "-c", READ_IT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for part in parts:
            child.stdin.write(part)
        child.stdin.close()
        requests, skipped, kib = map(int, child.stdout.read().split())
    return requests, skipped, kib // 1024


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_does_not_grow_with_the_log() -> None:
    padding = "x" * 10_000
    row = f'{{"timestamp": 1, "pad": "{padding}", "input_length": 600, "output_length": 7, "hash_ids": [0, 1]}}\n'
    block = (row * 100).encode()
    _, _, small = read_by_a_child(block for _ in range(2))
    requests, _, large = read_by_a_child(block for _ in range(300))
    assert requests == 30_000
    assert large - small < 24  # of 300 MB


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_of_a_log_of_prompts_grows_with_what_they_do_not_share() -> None:
    system = {"role": "system", "content": "You are kind. " * 1000}

    def parts(count: int) -> Iterator[bytes]:
        for n in range(count):
            messages = [system, {"role": "user", "content": f"Question {n}"}]
            yield json.dumps({"timestamp": 1_764_590_400 + n, "request": {"messages": messages}}).encode() + b"\n"

    _, _, small = read_by_a_child(parts(500))
    requests, _, large = read_by_a_child(parts(10_000))
    assert requests == 10_000
    assert large - small < 16  # of 140 MB


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_line_of_hundreds_of_megabytes_is_skipped_without_being_held() -> None:
    def parts() -> Iterator[bytes]:
        yield LOG
        for _ in range(200):
            yield b"y" * MIB
        yield b"\n" + LOG

    requests, skipped, mib = read_by_a_child(parts())
    assert (requests, skipped) == (100, 1)
    assert mib < 64 + 64 + 120  # the longest line that is read, once more as it is joined, and the interpreter


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress])
def test_an_archive_of_very_much_of_nothing_is_unpacked_in_small_steps(compress: object) -> None:
    assert callable(compress)
    packed = compress(LOG + (b" " * 999 + b"\n") * 400_000 + LOG)
    assert len(packed) < 2 * MIB
    requests, _, mib = read_by_a_child(iter([packed]))
    assert requests == 100
    assert mib < 120


def test_a_pipe_that_gives_little_at_a_time_is_read_whole() -> None:
    read_end, write_end = os.pipe()
    with subprocess.Popen([sys.executable, "-c", READ_IT], stdin=read_end, stdout=subprocess.PIPE) as child:
        os.close(read_end)
        for at in range(0, len(LOG), 100):
            os.write(write_end, LOG[at : at + 100])
        os.close(write_end)
        assert child.stdout is not None
        assert child.stdout.read().split()[0] == b"50"
