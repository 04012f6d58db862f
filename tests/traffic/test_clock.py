from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmoor.traffic.readers.clock import Clock
from unmoor.traffic.readers.contract import Broken

NOON_S = 1_764_590_400  # 2025-12-01 12:00 UTC


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (NOON_S, NOON_S + 2.5, "seconds since 1970"),
        (NOON_S * 10**3, NOON_S * 10**3 + 2500, "milliseconds since 1970"),
        (NOON_S * 10**6, NOON_S * 10**6 + 2_500_000, "microseconds since 1970"),
        (NOON_S * 10**9, NOON_S * 10**9 + 2_500_000_000, "nanoseconds since 1970"),
        (f"{NOON_S}", f"{NOON_S}.5e0", "seconds since 1970"),
        (" 1764590400000 ", "1764590402500", "milliseconds since 1970"),
        (0, 2.5, "seconds from a start of their own"),
    ],
)
def test_the_size_of_the_first_time_tells_the_unit_and_a_note_says_so(first: object, second: object, said: str) -> None:
    clock = Clock()
    gap = clock.seconds(second) - clock.seconds(first)
    assert gap == pytest.approx(2.5) or second == f"{NOON_S}.5e0"
    assert clock.note
    assert clock.note.code == "clock_unit"
    assert said in clock.note.text


@pytest.mark.parametrize(
    "text",
    [
        "2025-12-01T12:00:02.5Z",
        "2025-12-01 12:00:02,500",
        "2025-12-01T12:00:02.5000000",
        "2025-12-01 12:00:02.500000000+00:00",
        "2025-12-01T13:00:02.5+01:00",
        "20251201T120002.5Z",
        "2025/12/01 12:00:02.500000",
    ],
)
def test_iso_8601_with_and_without_a_zone_and_with_any_decimals_is_read(text: str) -> None:
    clock = Clock()
    assert clock.seconds(text) - clock.seconds("2025-12-01T12:00:00Z") == pytest.approx(2.5)
    without_zone = not text.endswith(("Z", ":00"))
    assert (clock.note is not None) == without_zone


@pytest.mark.parametrize(
    "text",
    [
        "01/Dec/2025:12:00:02 +0000",
        "[01/Dec/2025:13:00:02 +0100]",
        "Mon, 01 Dec 2025 12:00:02 GMT",
        "Mon, 1 Dec 2025 07:00:02 -0500",
        "Monday, 01-Dec-25 12:00:02 GMT",
        "Mon Dec  1 12:00:02 2025",
        "2025-12-01 12:00:02 +0000 UTC",
        "2025-12-01 13:00:02.000000001 +0100 CET m=+0.000000001",
        "2025-12-01 09:00:02 -0300 -03",
        "2025-12-01 12:00:02 UTC",
        "2025-12-01 12:00:02 +00:00",
        "01/Dec/2025:12:00:02.000 +0000",
    ],
)
def test_dates_as_web_servers_http_and_go_write_them_are_read(text: str) -> None:
    clock = Clock()
    assert clock.seconds("2025-12-01T12:00:00Z") == 0
    assert clock.seconds(text) == pytest.approx(2.0)
    assert clock.note is None


def test_two_digits_of_a_year_are_of_this_century_up_to_68() -> None:
    clock = Clock()
    clock.seconds("Sunday, 06-Nov-94 08:49:37 GMT")
    assert clock.seconds("Sun, 06 Nov 1994 08:49:38 GMT") == pytest.approx(1.0)
    assert clock.seconds("Tuesday, 06-Nov-68 08:49:37 GMT") > 70 * 365 * 86_400


@pytest.mark.parametrize(
    ("text", "after_s"),
    [
        ("2025-12-31 23:59:60", 0),
        ("2025-12-31T23:59:60.5Z", 0.5),
        ("31/Dec/2025:23:59:60 +0000", 0),
        ("2025-12-31 24:00:00", 0),
        ("2025-12-31T25:00:00+01:00", None),
        ("9999-12-31T24:00:00", None),
    ],
)
def test_a_leap_second_and_the_end_of_a_day_are_the_moment_after_them(text: str, after_s: float | None) -> None:
    clock = Clock()
    begin_s = clock.seconds("2026-01-01T00:00:00Z")
    if after_s is None:
        with pytest.raises(Broken):
            clock.seconds(text)
    else:
        assert clock.seconds(text) - begin_s == after_s


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("01.12.2025 12:00", "01.12.2025 12:00"),
        ("Dec 1, 2025 at 12:00 PM", "a text of the form Aaa 9, 9999 aa 99:99 AA"),
        ("2025-12-01 12:00:02 CST", "a text of the form 9999-99-99 99:99:99 AAA"),
        ("31/Jun/2025:12:00:02 +0000", "a text of the form 99/Aaa/9999:99:99:99 +9999"),
        ("my bank account is 12345, and that is a secret", "a text of 46 characters"),
        ("a secret", "a text of 8 characters"),
    ],
)
def test_a_date_in_no_known_form_is_broken_and_its_form_is_told_but_not_its_text(text: str, seen: str) -> None:
    with pytest.raises(Broken, match="wrong value for 'timestamp'") as caught:
        Clock().seconds(text)
    assert caught.value.seen == seen


def test_nanoseconds_keep_their_last_digit() -> None:
    clock = Clock()
    first = clock.seconds(NOON_S * 10**9 + 1)
    assert clock.seconds(str(NOON_S * 10**9 + 8)) - first == pytest.approx(7e-9, abs=1e-12)


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_a_format_that_names_its_unit_is_believed_and_nothing_is_noted(unit: str, per_second: int) -> None:
    clock = Clock(unit=unit)  # type: ignore[arg-type] # one of the units
    assert clock.seconds(3 * per_second) - clock.seconds(0) == 3
    assert clock.note is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (NOON_S, NOON_S * 1000),
        (NOON_S, 0),
        (0, NOON_S),
        (NOON_S, "2025-12-01T12:00:00Z"),
        ("2025-12-01T12:00:00Z", NOON_S),
    ],
)
def test_a_time_that_contradicts_the_first_is_broken(first: object, second: object) -> None:
    clock = Clock()
    clock.seconds(first)
    with pytest.raises(Broken, match="contradicts the log's first time"):
        clock.seconds(second)
    clock.seconds(first)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        [],
        float("nan"),
        float("inf"),
        -1,
        10**9 - 1 + 10**9 * 5,
        10**30,
        "",
        "soon",
        "2025-13-01T00:00:00Z",
        "2025-12-01",
        "9" * 400,
    ],
)
def test_what_is_no_time_is_broken_and_not_quoted(value: object) -> None:
    with pytest.raises(Broken) as caught:
        Clock().seconds(value)
    assert "soon" not in caught.value.seen


@given(st.timedeltas(min_value=dt.timedelta(0), max_value=dt.timedelta(days=36_000)))
def test_iso_text_says_how_long_after_another_it_is(since: dt.timedelta) -> None:
    at = dt.datetime(2002, 1, 1, tzinfo=dt.UTC) + since
    clock = Clock()
    origin = clock.seconds("2002-01-01T00:00:00")
    assert clock.seconds(at.isoformat()) - origin == pytest.approx(since.total_seconds(), abs=1e-6)
