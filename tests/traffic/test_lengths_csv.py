from __future__ import annotations

import csv
import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.core.errors import TrafficError
from unmoor.traffic.log import Traffic
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.readers.numerals import Numerals

ROWS = (("input_tokens", "output_tokens", "took_s", "team"), ("1200", "30", "1.5", "red"), ("80", "7", "0.25", "blue"))


def read(content: str, *, encoding: str = "utf-8", most_broken: int | None = 0) -> Traffic:
    return read_traffic(content.encode(encoding), where="log.csv", most_broken=most_broken)


def refused(content: str) -> TrafficError:
    with pytest.raises(TrafficError) as caught:
        read(content)
    return caught.value


def columns(traffic: Traffic) -> tuple[list[int], list[int], list[float], tuple[str, ...]]:
    assert traffic.format == "lengths"
    return (
        traffic.input_tokens.tolist(),
        traffic.output_tokens.tolist(),
        traffic.took_s.tolist(),
        tuple(traffic.tenant.names),
    )


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("begins", ["", "sep={}\n"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "; "])
def test_the_header_tells_the_delimiter(delimiter: str, begins: str, encoding: str, quote: str) -> None:
    text = "\n".join(delimiter.join(f"{quote}{field}{quote}" for field in row) for row in ROWS)
    traffic = read(begins.format(delimiter.strip(" ")) + text, encoding=encoding)
    assert columns(traffic) == ([1200, 80], [30, 7], [1.5, 0.25], ("red", "blue"))


def test_a_quoted_header_may_hold_other_delimiters_and_quoted_fields_theirs() -> None:
    traffic = read('Prompt-Tokens;"output tokens";"note, with, commas, in, it";team\n10;2;"a;b";"x;y"\n')
    assert columns(traffic)[0] == [10]
    assert traffic.tenant.names == ("x;y",)


def test_files_put_one_behind_another_keep_their_headers_and_their_marks() -> None:
    one = "\ufeffinput_tokens;output_tokens\n10;2\n"
    assert columns(read(one + one))[0] == [10, 10]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("1,234,567", 1_234_567),
        ("1.234.567", 1_234_567),
        ("1.234,0", 1234),
        ("1,234.00", 1234),
        ("1 234", 1234),
        ("1\u202f234", 1234),
        ("1'234'567", 1_234_567),
        ("1_234", 1234),
        ("1234.0", 1234),
        ("1234,0", 1234),
        ("1234", 1234),
    ],
)
def test_separators_that_can_mean_one_thing_only_are_read(text: str, whole: int) -> None:
    assert columns(read(f"input_tokens;output_tokens\n{text};1\n"))[0] == [whole]


@pytest.mark.parametrize("text", ["1,234", "1.234", "12,000", "374.000"])
def test_a_number_that_can_be_read_in_two_ways_is_broken_and_says_so(text: str) -> None:
    error = refused(f"input_tokens;output_tokens\n{text};1\n")
    grouped = text.replace(",", "").replace(".", "")
    assert (error.message, error.where) == ("'input_tokens' can be read in two ways", "log.csv:2")
    assert error.seen == f"{text}: {grouped}, or {text.replace(',', '.')}"


@pytest.mark.parametrize(
    ("took", "text", "whole"), [("1.5", "1,234", 1234), ("1,5", "1.234", 1234), ("0.250", "12,000", 12_000)]
)
def test_another_number_of_the_line_shows_which_mark_is_which(took: str, text: str, whole: int) -> None:
    traffic = read(f"input_tokens;output_tokens;took_s\n{text};1;{took}\n")
    assert columns(traffic)[0] == [whole]
    assert traffic.took_s.tolist() == [float(took.replace(",", "."))]


def test_commas_in_whole_numbers_group_where_commas_part_the_fields_too() -> None:
    traffic = read('input_tokens,output_tokens,took_s\n"12,000","1,234",1.234\n80,7,0.5\n')
    assert columns(traffic)[:3] == ([12_000, 80], [1234, 7], [1.234, 0.5])


def test_decimal_commas_hold_for_times_as_well() -> None:
    traffic = read("input_tokens;output_tokens;took_s;timestamp\n10;2;1,25;1700000000,5\n10;2;1.200,5;1700000002,75\n")
    assert traffic.took_s.tolist() == [1.25, 1200.5]
    assert traffic.arrival_s.tolist() == [0, 2.25]


def test_a_number_that_contradicts_those_before_it_is_broken() -> None:
    head = "input_tokens;output_tokens;took_s\n10;2;1,5\n"
    error = refused(head + "10;2;2.55\n")
    assert (error.message, error.where) == ("'took_s' is written unlike the numbers before it", "log.csv:3")
    assert error.expected == "a comma before decimals, as in the lines above"
    assert refused(head + "1,234;2;1,5\n").message == "'input_tokens' can be read in two ways"  # 1.234 is no count


@pytest.mark.parametrize(
    "rows",
    [
        "arrival_s;input_tokens;output_tokens\n800;900;500\n1.000;2.000;1.000\n1.100;3.000;2.000\n",
        "input_tokens;took_s;output_tokens\n900;1;500\n2.000;1.250;1.000\n",
        "took_s\tinput_tokens\toutput_tokens\n1.250\t2.000\t1.000\n1\t900\t500\n",
        "took_s\tinput_tokens\toutput_tokens\n0.500\t2.000\t1.000\n1\t900\t500\n",
        "input_tokens,output_tokens\n900,500\n2.000,5\n12.000,6\n",
        "input_tokens,output_tokens,took_s\n900,500,0.25\n2.000,5,0.25\n",
    ],
)
def test_a_number_with_two_readings_settles_nothing_in_any_column(rows: str) -> None:
    traffic = read(rows, most_broken=2)
    assert (traffic.input_tokens.tolist(), traffic.output_tokens.tolist()) == ([900], [500])
    assert traffic.skipped_lines == len(rows.splitlines()) - 2


def test_whole_numbers_with_decimals_are_read_once_one_shows_that_it_has_them() -> None:
    traffic = read("input_tokens,output_tokens\n374.0,1374.000\n2.000,12.000\n")
    assert columns(traffic)[:2] == ([374, 2], [1374, 12])


def test_of_two_columns_of_one_thing_the_first_name_is_read_and_both_are_named() -> None:
    traffic = read("prompt_tokens,input_tokens,output_tokens,team,Tenant\n1,100,5,red,blue\n2,200,6,red,blue\n")
    assert columns(traffic)[:2] == ([100, 200], [5, 6])
    assert traffic.tenant.names == ("blue",)
    assert [caveat.text for caveat in traffic.caveats if caveat.code == "columns_passed_over"] == [
        "Of several columns of 'input_tokens' only 'input_tokens' was read, not 'prompt_tokens'.",
        "Of several columns of 'tenant' only 'Tenant' was read, not 'team'.",
    ]
    assert not read("prompt_tokens,output_tokens\n1,5\n").caveats


@pytest.mark.parametrize("text", ["1,23,4", "1.2.3", ",", "-", "1,234.5", "12 34", "1,5", "many"])
def test_what_is_no_whole_number_is_broken(text: str) -> None:
    assert refused(f"input_tokens;output_tokens\n{text};1\n").message == "wrong value for 'input_tokens'"


@given(
    st.integers(0, 10**12),
    st.integers(0, 9999),
    st.sampled_from([(",", "."), (".", ","), (" ", ","), ("'", "."), ("\u00a0", ",")]),
)
def test_a_number_with_four_decimals_is_read_as_it_was_written(
    whole: int, decimals: int, marks: tuple[str, str]
) -> None:
    group, point = marks
    written = f"{whole:,}".replace(",", group) + f"{point}{decimals:04d}"
    assert Numerals().plain("n", written) == f"{whole}.{decimals:04d}"


def test_a_header_that_comes_again_may_order_its_columns_otherwise() -> None:
    again = "output_tokens;took_s;input_tokens\n3;1,5;1.200\n"
    traffic = read("input_tokens,output_tokens\n10,2\n" + again + "took_s,input_tokens,output_tokens\n1.5,20,4\n")
    assert columns(traffic)[:2] == ([10, 1200, 20], [2, 3, 4])


def test_a_spend_log_as_csv_says_how_long_requests_took_by_their_ends() -> None:
    traffic = read(
        "request_id,startTime,endTime,completionStartTime,prompt_tokens,completion_tokens,model,team_id\n"
        "x,2026-11-30 09:00:00.5,2026-11-30 09:00:02.75,,300,20,m,blue\n"
        "y,2026-11-30 09:00:01,,,40,3,m,blue\n"
    )
    assert traffic.arrival_s.tolist() == [0, 0.5]
    assert traffic.took_s.tolist() == [2.25, pytest.approx(float("nan"), nan_ok=True)]
    assert columns(traffic)[3] == ("blue",)


def test_an_end_before_its_start_leaves_unknown_how_long_it_took() -> None:
    traffic = read("input_tokens,output_tokens,start_time,end_time\n1,1,100,99\n1,1,101,101\n")
    assert traffic.took_s.tolist() == [pytest.approx(float("nan"), nan_ok=True), 0]


OVER_LINES = 'input_tokens,note,output_tokens\n10,"first\n\nthen ""third"", {end}2\n20,plain,4\nbad,x,1\n'


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_quoted_field_over_lines_is_one_row_and_lines_keep_their_numbers(ends: str) -> None:
    content = OVER_LINES.format(end='\n1,2,3\n",').replace("\n", ends)
    traffic = read(content, most_broken=1)
    assert columns(traffic)[:2] == ([10, 20], [2, 4])
    assert traffic.line.tolist() == [2, 7]
    assert refused(content).where == "log.csv:8"


@pytest.mark.parametrize("closed", ["", "5,x,6\n" * 3, '5,"x",6\n', '5,x,"6\n', '1"x,2\n', '"\n'])
def test_a_quote_that_closes_no_row_costs_its_own_line_alone(closed: str) -> None:
    around = f'7,"open,8\n{closed}9,y,9\n'
    traffic = read("input_tokens,note,output_tokens\n10,x,2\n" + around, most_broken=4)
    assert columns(traffic)[0] == [10, *[5] * closed.count("5,x,6"), *[5] * closed.count('"x"'), 9]


def test_a_quote_within_a_field_opens_none() -> None:
    traffic = read('input_tokens,note,output_tokens\n10,a 5" disk,2\n20,a 3" one,4\n')
    assert columns(traffic)[0] == [10, 20]


def test_a_row_over_more_than_one_may_hold_is_none() -> None:
    rows = 150_000
    content = 'input_tokens,note,output_tokens\n1,"open,1\n' + "2,plain,2\n" * rows + '3",3\n'
    assert set(read(content, most_broken=2).input_tokens.tolist()) == {2}
    assert columns(read(content.replace("2,plain,2\n" * rows, "2,plain,2\n")))[0] == [1]


NOTE = st.text(st.sampled_from('ab,";\n\t '), max_size=12)


@given(notes=st.lists(NOTE, min_size=1, max_size=8), delimiter=st.sampled_from([",", ";", "\t"]))
def test_what_a_csv_writer_writes_is_read_row_for_row(notes: list[str], delimiter: str) -> None:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(["input_tokens", "output_tokens", "note"])
    writer.writerows((place + 1, 1, note) for place, note in enumerate(notes))
    before = itertools.accumulate((note.count("\n") for note in notes), initial=0)
    traffic = read(out.getvalue())
    assert traffic.input_tokens.tolist() == list(range(1, len(notes) + 1))
    assert traffic.line.tolist() == [place + 2 + more for place, more in zip(range(len(notes)), before, strict=False)]
