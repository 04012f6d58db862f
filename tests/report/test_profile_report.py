from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from unmoor.choose.prediction.kernel_tables import find_table
from unmoor.choose.reuse_meaning import engine_blocks, plan_fleets, with_meaning
from unmoor.core.errors import TrafficError
from unmoor.core.plan_text import read_plan
from unmoor.report import profile_page, profile_text
from unmoor.report.profile_bars import prefix_bars
from unmoor.report.profile_words import next_steps, percent, rate_words, seconds, tokens_short
from unmoor.traffic.breakers import Place
from unmoor.traffic.conversion import workload_of
from unmoor.traffic.profile.profile_log import dense_curves, profile_log
from unmoor.traffic.profile.question import Question
from unmoor.traffic.profile.report import BreakerFound, CurvePoint, PrefixShared, TrafficReport
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse.curve import HitRate
from unmoor.traffic.text.pieces import BytesCutter

ROOT = Path(__file__).parent.parent.parent
AGENTS = ROOT / "examples" / "agents"
BREAKER = BreakerFound(
    what="date_in_prefix",
    where=Place(unit="message", index=0, role="system", offset_bytes=17, lines=(1, 2), excerpts=("<b>it is 9:41",)),
    share_lost=0.31,
    gain=0.29,
    overlap_after=0.8,
    fix="put the date last",
    requests=9,
    lines=(1, 2),
    kv_tokens=9000,
)


def agents() -> tuple[TrafficReport, dict[str, tuple[CurvePoint, ...]]]:
    plan = read_plan((AGENTS / "plan.toml").read_text(), where="plan.toml")
    traffic = read_traffic((AGENTS / "traffic.jsonl").read_bytes(), where="traffic.jsonl")
    question = Question(
        engines=engine_blocks([c.engine for c in plan.candidates]), fleets=plan_fleets(plan, find_table)
    )
    report = with_meaning(profile_log(traffic, question), traffic, plan, tables=find_table)
    return report, dense_curves(traffic, question, report)


REPORT, CURVES = agents()
LENGTHS = read_traffic(b"arrival_s,input_tokens,output_tokens,took_s\n0,10,1,3\n5,20,2,1\n6,30,3,9\n", where="<b>.csv")


def test_the_text_is_read_in_half_a_minute_and_fits_a_terminal() -> None:
    lines = profile_text.render(REPORT).splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 110
    text = "\n".join(lines)
    for said in (
        "1,200 requests over 2.51 min",
        "7.97 requests/s, gaps vary by 1.03 of their mean (1 is Poisson)",
        "79.7% of prompt tokens repeat the start of an earlier prompt",
        "round-robin  least-loaded  session-sticky  prefix-aware",
        "Prefix reuse alone cannot move the choice",
    ):
        assert said in text


def test_what_is_unknown_is_said_in_words() -> None:
    text = profile_text.render(profile_log(LENGTHS, Question()))
    assert "Unknown: the source says nothing of what prompts contain." in text
    assert "hit rate" not in text
    assert "%" not in text.partition("Prefix overlap")[2].partition("Doubts")[0]


def redacted(count: int, of: int) -> TrafficReport:
    """A gateway's log in which so many prompts were taken out, as LiteLLM takes them out."""
    rows = [
        {
            "startTime": 1_796_029_200.0 + number,
            "model": "m",
            "messages": [
                {"role": "user", "content": "redacted-by-litellm" if number < count else f"Why {number}?" * 40}
            ],
            "prompt_tokens": 120,
            "completion_tokens": 8,
        }
        for number in range(of)
    ]
    content = "\n".join(map(json.dumps, rows)).encode()
    report = profile_log(read_traffic(content, where="log", cutter=BytesCutter(b"key")), Question())
    return msgspec.structs.replace(report, breakers_looked_for=count < of)


def test_a_log_that_is_partly_redacted_says_so_and_of_what_breakers_are_said() -> None:
    half = redacted(20, 40)
    share = "20 of 40 requests, with 50.00% of prompt tokens, say nothing of their content."
    for said in (profile_text.render(half), profile_page.render(half, CURVES)):
        text = " ".join(said.replace("&#39;", "'").split())
        assert f"Unknown: the log's prompts are partly redacted or not kept: {share}" in text
        assert f"Said only of the requests whose prompts have text: {share}" in text
        assert "says nothing of what prompts contain" not in text
        assert "Profile the requests whose prompts were kept in a log of their own" in text
    whole = profile_text.render(redacted(0, 40))
    assert "What breaks sharing" in whole
    assert "Said only of" not in whole
    assert "Unknown: the source says nothing of what prompts contain." in profile_text.render(redacted(40, 40))


@pytest.mark.parametrize(
    ("log", "step"),
    [
        (
            b"arrival_s,input_tokens,output_tokens\n0,10,\n5,20,\n6,30,\n",
            "unmoor decide also needs how long answers were",
        ),
        (b"arrival_s,input_tokens,output_tokens\n0,10,1\n5,20,2\n6,30,3\n", "unmoor decide on the same plan weighs it"),
    ],
)
def test_what_is_recommended_next_works_on_this_log(log: bytes, step: str) -> None:
    traffic = read_traffic(log, where="lengths.csv")
    # the overlap is stated, as this is about the last step alone
    report = msgspec.structs.replace(
        profile_log(traffic, Question()), prefix_overlap=0.5, prefix_overlap_blocks=0.5, meaning=REPORT.meaning
    )
    assert next_steps(report)[-1].startswith(step)
    refused = "also needs" in step
    if refused:
        with pytest.raises(TrafficError, match="does not say how long answers were"):
            workload_of(traffic)
    else:
        assert workload_of(traffic).requests


def test_what_breaks_sharing_is_said_with_its_place_its_price_and_its_fix() -> None:
    broken = msgspec.structs.replace(REPORT, breakers=(BREAKER,))
    text = " ".join(profile_text.render(broken).split())
    assert (
        "date in prefix: costs 31.0% of prompt tokens with an unlimited cache, mending it gains 29.0% with 9 k tokens "
        "of KV; first seen in message 0 (system) at byte 17, lines 1 and 2. Fix: put the date last."
    ) in text
    assert "Mend date in prefix: 29.0% of prompt tokens are to gain." in text
    clean = msgspec.structs.replace(REPORT, breakers=(), breakers_looked_for=True)
    assert "nothing found" in profile_text.render(clean)
    assert "What breaks sharing" not in profile_text.render(REPORT)  # no text: nobody looked


def test_mended_prompts_stand_beside_those_that_are() -> None:
    meaning = REPORT.meaning
    assert meaning is not None
    better = HitRate(value=0.95, low=0.95, high=0.95)
    rows = tuple(
        msgspec.structs.replace(row, hit_rate=better, hit_rate_unmended=row.hit_rate)
        for row in meaning.expected
        if row.hit_rate is not None
    )
    mended = msgspec.structs.replace(meaning, expected=rows, sentence="With all mended, it could.")
    report = msgspec.structs.replace(REPORT, meaning=msgspec.structs.replace(meaning, mended=mended))
    text, page = profile_text.render(report), profile_page.render(report, CURVES)
    for said in (text, page):
        assert f"{rate_words(rows[-1].hit_rate_unmended)} → 95.0% ({tokens_short(rows[-1].kv_tokens or 0)})" in said
        assert "With all mended, it could." in said
    assert max(map(len, text.splitlines())) <= 110
    assert Tags(page).open == []
    assert "→" not in profile_text.render(REPORT)


class Tags(HTMLParser):
    """What a page is made of, and whether every element is closed."""

    VOID = frozenset(("meta", "br", "line", "rect", "circle", "polygon", "polyline"))

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_needs_nothing_else_and_closes_what_it_opens() -> None:
    page = profile_page.render(REPORT, CURVES)
    tags = Tags(page)
    assert tags.open == []
    assert tags.links == []
    assert "script" not in tags.seen
    assert not re.search(r"https?://|url\(|@import", page)
    assert tags.seen.count("figure") == 5  # hit rate, prompts, answers, arrivals, hit rate over time


def test_the_pages_axes_are_labelled_with_their_units() -> None:
    page = profile_page.render(REPORT, CURVES)
    for label in (
        "KV capacity of a replica, tokens (log)",
        "share of prompt tokens",
        "requests/s",
        "minutes from",
    ):
        assert label in page
    for name in ("vLLM, blocks of 16", "SGLang, blocks of 1", "TensorRT-LLM, blocks of 32"):
        assert name in page


def test_the_page_draws_who_ran_when_where_the_log_says_so() -> None:
    page = profile_page.render(profile_log(LENGTHS, Question()), {})
    assert "Concurrency" in page
    assert "requests running" in page
    assert "What a cache can serve" not in page


def test_what_came_from_outside_is_escaped() -> None:
    broken = msgspec.structs.replace(profile_log(LENGTHS, Question()), breakers=(BREAKER,))
    page = profile_page.render(broken, {})
    assert "<b>" not in page
    assert "&lt;b&gt;.csv" in page
    assert "&lt;b&gt;it is 9:41" in page


def test_prefixes_stand_under_the_one_that_they_extend() -> None:
    def edge(begins: int, tokens: int, parent: int | None) -> PrefixShared:
        return PrefixShared(tokens=tokens, requests=3, tokens_saved=tokens - begins, begins_at=begins, parent=parent)

    edges = (edge(10, 90, 1), edge(0, 10, None), edge(90, 95, 0), edge(0, 4, None))
    rows = prefix_bars(msgspec.structs.replace(REPORT, shared_prefixes=edges))
    assert [(row.label, row.indent) for row in rows] == [
        ("0 – 10", 0),
        ("10 – 90", 1),
        ("90 – 95", 2),
        ("0 – 4", 0),
    ]
    assert max(row.share for row in rows) == 1


@pytest.mark.parametrize(
    ("tokens", "said"), [(512, "512"), (999.9, "1 k"), (1_300_000, "1.3 M"), (81_000_000, "81 M"), (2e9, "2 G")]
)
def test_tokens_have_three_digits(tokens: float, said: str) -> None:
    assert tokens_short(tokens) == said


@pytest.mark.parametrize(
    ("value_s", "said"), [(0.4, "0.4 s"), (119, "119 s"), (180, "3 min"), (7560, "2.1 h"), (260_000, "3.01 days")]
)
def test_durations_are_told_in_their_unit(value_s: float, said: str) -> None:
    assert seconds(value_s) == said


def test_a_rate_that_is_not_known_exactly_is_a_range_or_a_dash() -> None:
    assert rate_words(HitRate(value=0.5, low=0.5, high=0.5)) == "50.0%"
    assert rate_words(HitRate(value=None, low=0.374, high=0.407)) == "37.4–40.7%"
    assert rate_words(HitRate(value=None, low=0.3741, high=0.3742)) == "37.4%"
    assert rate_words(CurvePoint(kv_tokens=9, hit_rate=None, low=None, high=None)) == "–"
    assert (rate_words(None), percent(None)) == ("–", "–")
