from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from unmoor.core.decision import CandidateReport, Cost, Decision, GateResult, LeavingFact, MendFirst, Verdict
from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.traffic import TokenCounts, TrafficProfile
from unmoor.report import decision_page, decision_text
from unmoor.report.decision_page import chart_of
from unmoor.report.mend_words import mend_lines, mend_note
from unmoor.report.words import band, number, titled, unit_of

Ends = tuple[float | None, float | None, float | None]


def figure(metric: str, ends: Ends, unit: str, detail: str = "2 × TP4, all") -> Figure:
    value, low, high = ends
    return Figure(
        metric=metric, value=value, low=low, high=high, unit=unit, kind=EvidenceKind.PREDICTED,
        validated=value is not None, source="tables", as_of="2026-11-30", detail=detail,
    )  # fmt: skip


SHARED = Caveat(code="stale_price", text="The price is old.")
COST = Cost(
    per_hour=33.12,
    per_million_output_tokens=figure("cost_per_million_output_tokens", (None, 0.77, 1.19), "USD/1e6 output tokens"),
    per_million_output_tokens_at_own_rate=figure(
        "cost_per_million_output_tokens_at_own_rate", (None, 2.9, 2.9), "USD/1e6 output tokens", "2 × TP4, 7.97 rps"
    ),
    per_million_good_requests=None,
    good_requests_reason="goodput has not been measured",
    currency="USD",
    source="a <b>price</b> list",
    as_of="2026-08-24",
)
VLLM = CandidateReport(
    engine="vllm",
    version="0.33.0",
    gates=(GateResult(name="support", passed=True, reason="Sold.", source="shop", as_of="2026-11-30"),),
    evidence=(
        figure("max_rate_at_slo_rps", (8.0, 6.5, 9.5), "rps"),
        figure("ttft_p95_s", (None, 0.107, 0.228), "s", "2 × TP4, 4 requests/s"),
    ),
    cost=COST,
    headroom=figure("headroom", (None, 2.4, 3.7), "×"),
    leaving=(
        LeavingFact(
            subject="governance",
            text="It is a foundation's.",
            kind=EvidenceKind.CLAIMED,
            counts=False,
            source="news",
            as_of="2026-11-30",
        ),
    ),
    caveats=(SHARED, Caveat(code="own", text="Only this one's.")),
)
SGLANG = CandidateReport(
    engine="sglang",
    version=None,
    gates=(
        GateResult(name="security_policy", passed=False, reason="Not found.", source="page", as_of="2026-11-30"),
        GateResult(name="support", passed=None, reason="Nobody knows."),
    ),
    evidence=(figure("max_rate_at_slo_rps", (None, 5.0, 20.0), "rps"),),
    cost=COST,
    caveats=(SHARED,),
)
TOKENS = TokenCounts(total=4_802_366, mean=4002.0, p50=4004.0, p95=4360.0, max=4400)
DECISION = Decision(
    plan="agents",
    made_on="2026-11-30",
    slo="p95 TTFT <= 1500 ms",
    hardware="8 × h100_sxm",
    model="m (fp8)",
    traffic=TrafficProfile(
        requests=1200, duration_s=150.4, input_tokens=TOKENS, output_tokens=TOKENS, offered_rps=7.97, burstiness=1.03,
        prefix_overlap=0.797, overlap_block_tokens=1, source="<script>alert(1)</script>.jsonl", format="unmoor",
        fingerprint="0123456789abcdef",
    ),
    candidates=(VLLM, SGLANG),
    verdict=Verdict(
        pick="vllm", sentence="Run vLLM.", decided_by="gates", against="It is slow.", risk="You.", not_for="Them.",
        tie=False,
    ),
)  # fmt: skip

TEXT = """\
agents: m (fp8) on 8 × h100_sxm; p95 TTFT <= 1500 ms; 2026-11-30

── Traffic ─────────────────────────────────────────────────────────────────────────────────────────
  1,200 requests over 150 s, 7.97 requests/s, burstiness 1.03 (1 is Poisson)
  input tokens   mean 4,002, p50 4,004, p95 4,360, total 4,802,366
  output tokens  mean 4,002, p50 4,004, p95 4,360, total 4,802,366
  prefix overlap 79.7% of prompt tokens repeat the start of an earlier prompt
  source         <script>alert(1)</script>.jsonl (unmoor, sha256 0123456789ab)

── vLLM 0.33.0 ─────────────────────────────────────────────────────────────────────────────────────
  passes support            Sold. [shop, seen 2026-11-30]
  figure               value  range                  kind                    holds for
  highest rate at SLO  8      6.5 – 9.5  requests/s  predicted               2 × TP4, all
  TTFT p95             -      107 – 228  ms          predicted, unvalidated  2 × TP4, 4 requests/s
  source predicted: tables, 2026-11-30
  cost   33.12 USD per hour (a <b>price</b> list, seen 2026-08-24)
         per million output tokens at the traffic's own rate: about 2.9 USD (predicted, unvalidated;
         2 × TP4, 7.97 rps)
         per million output tokens at the highest rate: 0.77 – 1.19 USD (predicted, unvalidated; 2 ×
         TP4, all)
         per million good requests: not known (goodput has not been measured)
  room   predicted to carry 2.4 to 3.7 times the traffic at the SLO (unvalidated; 2 × TP4, all)
  ! Only this one's.

── SGLang  (out: a gate fails) ─────────────────────────────────────────────────────────────────────
  FAILS  security policy    Not found. [page, seen 2026-11-30]
  open   support            Nobody knows.
  figure               value  range               kind                    holds for
  highest rate at SLO  -      5 – 20  requests/s  predicted, unvalidated  2 × TP4, all
  source predicted: tables, 2026-11-30
  cost   33.12 USD per hour (a <b>price</b> list, seen 2026-08-24)
         per million output tokens at the traffic's own rate: about 2.9 USD (predicted, unvalidated;
         2 × TP4, 7.97 rps)
         per million output tokens at the highest rate: 0.77 – 1.19 USD (predicted, unvalidated; 2 ×
         TP4, all)
         per million good requests: not known (goodput has not been measured)

── How easy each is to leave, which decides a tie ──────────────────────────────────────────────────
  vLLM
    governance      It is a foundation's. [claimed, counts for nothing in a tie: news, seen
                    2026-11-30]
  SGLang

── Of every candidate ──────────────────────────────────────────────────────────────────────────────
  ! The price is old.

── Verdict ─────────────────────────────────────────────────────────────────────────────────────────
  Run vLLM.
  decided by gates
  against    It is slow.
  risk       You.
  not for    Them."""


def test_the_text_is_whole_and_ends_with_the_verdict() -> None:
    assert decision_text.render(DECISION) == TEXT


def test_unknown_overlap_is_said_to_be_unknown_and_why() -> None:
    traffic = msgspec.structs.replace(DECISION.traffic, prefix_overlap=None, overlap_block_tokens=None)
    decision = msgspec.structs.replace(DECISION, traffic=traffic)
    assert "  prefix overlap unknown: the source says nothing of what prompts contain\n" in decision_text.render(
        decision
    )
    html = re.sub(r"\s+", " ", decision_page.render(decision))
    assert "<strong>unknown</strong>: the source says nothing of what prompts contain." in html


def test_the_text_fits_a_hundred_columns() -> None:
    assert max(len(line) for line in decision_text.render(DECISION).splitlines()) <= 100


class Page(HTMLParser):
    """Collects what a browser would fetch, what it would run, and whether tags close."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [value for name, value in attrs if name in {"src", "href", "action", "data"} and value]
        if tag not in {"meta", "br", "line", "rect", "circle"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in {"line", "rect", "circle"}:
            return
        assert self.open.pop() == tag


def test_the_page_fetches_nothing_runs_nothing_and_closes_its_tags() -> None:
    html = decision_page.render(DECISION)
    page = Page()
    page.feed(html)
    assert page.fetched == []
    assert "script" not in page.tags
    assert page.open == []
    assert "url(" not in html.replace("url(#hatch)", "")
    assert "@import" not in html


def test_what_came_from_outside_is_escaped() -> None:
    html = decision_page.render(DECISION)
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;.jsonl" in html
    assert "a &lt;b&gt;price&lt;/b&gt; list" in html


def test_the_page_says_all_that_the_text_says() -> None:
    html = re.sub(r"\s+", " ", decision_page.render(DECISION))
    for said in ("Run vLLM.", "It is slow.", "You.", "Them.", "79.7%", "33.12 USD", "Not found.", "Nobody knows.",
        "It is a foundation&#39;s.",
        "claimed, counts for nothing in a tie", "predicted to carry 2.4 to 3.7 times the traffic",
    ):  # fmt: skip
        assert said in html
    assert html.count("The price is old.") == 1
    assert 'class="badge predicted unvalidated">predicted, unvalidated<' in html


def test_every_table_and_the_chart_are_labelled() -> None:
    html = decision_page.render(DECISION)
    assert html.count("<th scope=") > 20
    assert 'lang="en"' in html
    assert 'role="img" aria-labelledby="chart-title chart-text"' in html
    assert "vLLM 2 × TP4: 8 6.5 – 9.5 requests/s, predicted." in html


def test_unvalidated_ranges_are_hatched_and_have_no_dot() -> None:
    chart = chart_of(DECISION)
    assert [(row.label, row.validated, row.dot_x is None) for row in chart.rows] == [
        ("vLLM 2 × TP4", True, False),
        ("SGLang 2 × TP4", False, True),
    ]
    assert chart.rows[0].x < (chart.rows[0].dot_x or 0) < chart.rows[0].x + chart.rows[0].width
    assert decision_page.render(DECISION).count('fill="url(#hatch)"') == 1


@pytest.mark.parametrize(
    ("metric", "value", "unit", "shown"),
    [
        ("ttft_p95_s", 0.107, "s", ("TTFT p95", "107", "ms")),
        ("max_rate_at_slo_rps", 8.25, "rps", ("highest rate at SLO", "8.25", "requests/s")),
        ("slo_attainment", 0.953, "1", ("SLO attainment", "95.3", "%")),
        ("output_tput_tps", 3157.4, "tps", ("output throughput", "3,157", "tokens/s")),
    ],
)
def test_a_figure_reads_in_its_shown_unit(metric: str, value: float, unit: str, shown: tuple[str, str, str]) -> None:
    seen = figure(metric, (value, value, value), unit)
    assert (titled(metric), number(seen, seen.value), unit_of(seen)) == shown


def test_a_range_without_one_end_says_so() -> None:
    assert band(figure("x", (None, 1.0, None), "rps")) == "from 1"
    assert band(figure("x", (None, None, 2.0), "rps")) == "up to 2"
    assert band(figure("x", (None, None, None), "rps")) == "no range"
    assert band(figure("x", (None, 2.0, 2.0), "rps")) == "about 2"


def test_a_source_is_named_once_and_pointed_to_by_number() -> None:
    html = decision_page.render(DECISION)
    assert html.count("<li>tables, 2026-11-30</li>") == len(DECISION.candidates)


HABIT = MendFirst(
    what="tools_order", share_lost=0.25, gain=0.125, kv_tokens=1_300_000, fix="sort <them>", looked_at=1200
)


def test_what_to_mend_first_is_said_with_its_price_its_gain_and_its_fix() -> None:
    decision = msgspec.structs.replace(DECISION, mend_first=(HABIT,))
    assert mend_lines(decision) == [
        "tools order: costs 25.0% of prompt tokens, mending it gains 12.5% with 1.3 M tokens of KV. Fix: sort <them>."
    ]
    assert mend_note(decision).startswith("It helps with every engine; ")
    assert "First mend your prompts" in decision_text.render(decision)
    assert "Fix: sort &lt;them&gt;." in decision_page.render(decision)


def test_that_only_the_first_requests_were_looked_at_for_it_is_said() -> None:
    some = msgspec.structs.replace(HABIT, looked_at=1000, kv_tokens=None)
    decision = msgspec.structs.replace(DECISION, mend_first=(some,))
    assert mend_note(decision).startswith("Found in the first 1,000 requests. ")
    assert "gains 12.5%. Fix" in mend_lines(decision)[0]


def test_nothing_is_said_of_prompts_that_need_no_mending() -> None:
    assert (mend_lines(DECISION), mend_note(DECISION)) == ([], "")
    assert "mend your prompts" not in decision_text.render(DECISION) + decision_page.render(DECISION)
