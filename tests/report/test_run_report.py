"""A bake-off on the terminal and on the page."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import msgspec

from unmoor.bakeoff.result import (
    BakeoffResult,
    Comparison,
    EngineReport,
    Finding,
    Machine,
    Skipped,
    TrialReport,
    Versus,
)
from unmoor.core.evidence import Caveat, EvidenceKind, Figure
from unmoor.core.traffic import TokenCounts, TrafficProfile
from unmoor.report import run_page, run_text

GOLDEN = Path(__file__).parent / "run_report.golden.txt"


def figure(metric: str, value: float | None, low: float, high: float | None, unit: str) -> Figure:
    return Figure(
        metric=metric, value=value, low=low, high=high, unit=unit, kind=EvidenceKind.MEASURED, validated=True,
        source="bake-off local-1", as_of="2026-11-30", detail="n = 24",
    )  # fmt: skip


def compared(metric: str, effect: float | None, low: float, high: float, finding: Finding) -> Comparison:
    share = metric == "slo_attainment"
    return Comparison(
        metric=metric, before="defaults", after="prefix_caching=true", effect=effect, low=low, high=high,
        kind="difference" if share else "ratio", pairs=22, failed_before=2, failed_after=0, margin=0.05,
        finding=finding,
    )  # fmt: skip


def trial(name: str, scale: float, **more: object) -> TrialReport:
    ttft = (None if scale > 1 else 0.9, 0.7 * scale, None if scale > 1 else 1.0)
    plain = TrialReport(
        name=name, settings={}, why="what Engine <X> does when nobody tunes it", blocks=2, requests=24, left_out=4,
        failures=2,
        figures=(
            figure("scheduled_ttft_p95_s", *ttft, "s"),
            figure("scheduled_e2e_mean_s", 2.0 * scale, 1.5 * scale, 2.5 * scale, "s"),
            figure("slo_attainment", 0.9 / scale, 0.7 / scale, 0.97 / scale, "1"),
            figure("goodput_rps", 1.3 / scale, 1.0 / scale, 1.5 / scale, "rps"),
        ),
        caveats=(Caveat(code="few_requests", text="a p95 of 24 requests rests on 1.2 of them"),),
    )  # fmt: skip
    return msgspec.structs.replace(plain, **more)


def result() -> BakeoffResult:
    counts = TokenCounts(total=4480, mean=320, p50=320, p95=350, max=352)
    against = (
        compared("slo_attainment", 0.45, 0.2, 0.7, Finding.BETTER),
        compared("scheduled_e2e_s", 0.5, 0.4, 0.6, Finding.BETTER),
        compared("scheduled_ttft_s", None, 0.0, 0.0, Finding.NO_EFFECT),
    )
    refused = TrialReport(
        name="max_running=4", settings={"max_running": 4}, why="few at once", blocks=0, requests=0, left_out=0,
        failures=0, failed_to_start="Engine <X> refuses an option",
    )  # fmt: skip
    engine = EngineReport(
        engine="x", title="Engine <X>", version="1.0", weights="q4_1",
        trials=(trial("defaults", 2.0), trial("prefix_caching=true", 1.0, against_defaults=against), refused),
        best="prefix_caching=true", best_because="it beat the defaults", effect_shown=True,
        sentence="Engine <X> 1.0: best with prefix_caching=true; it beat the defaults.",
    )  # fmt: skip
    gap = tuple(msgspec.structs.replace(c, finding=Finding.NOT_COMPARABLE) for c in against[:2])
    return BakeoffResult(
        plan="local", run="local-1", made_on="2026-11-30", finished=False, slo="p95 TTFT <= 1000 ms",
        model="small (q4_1)",
        machine=Machine(cpu="A CPU", cores=2, memory_bytes=8 * 2**30, system="Linux x86_64", load_1m=0.4),
        traffic=TrafficProfile(
            requests=14, duration_s=8.6, input_tokens=counts, output_tokens=counts, offered_rps=1.5, burstiness=0.5,
            prefix_overlap=0.75, overlap_block_tokens=1, source="synthetic", format="synthetic", fingerprint="ab" * 32,
        ),
        engines=(engine,),
        versus=(
            Versus(
                before="Y 1 (defaults)", after="Engine <X> 1.0 (prefix_caching=true)", comparable=False,
                reason="Y computes with float32 weights, Engine <X> with q4_1", comparisons=gap,
            ),
        ),
        skipped=(Skipped(engine="z", reason="not installed"),),
        verdict="NOT COMPARABLE, no engine verdict: Y computes with float32 weights, Engine <X> with q4_1.",
        method=("Each setting is measured 2 times.",),
        caveats=(Caveat(code="skipped", text="z: not installed"),),
    )  # fmt: skip


def test_the_terminal_shows_all_of_it_within_its_width() -> None:
    text = run_text.render(result())
    assert max(map(len, text.splitlines())) <= 100
    assert text + "\n" == GOLDEN.read_text()


class Page(HTMLParser):
    """What a page refers to, and whether its tags are in order."""

    VOID = frozenset({"meta", "line", "rect", "circle", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.refers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.refers += [value or "" for name, value in attrs if name in {"src", "href"}]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_the_page_needs_nothing_else_and_is_well_formed() -> None:
    text = run_page.render(result())
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.refers == []
    assert "<script" not in text


def test_the_page_escapes_what_came_from_outside_and_says_what_the_terminal_says() -> None:
    text = run_page.render(result())
    assert "Engine <X>" not in text
    assert "Engine &lt;X&gt;" in text
    assert "NOT COMPARABLE" in text
    assert "refuses an option" in text
    assert "Not finished" in text
    assert text.count("<svg") == 3


def test_an_interval_whose_end_rests_on_failures_is_drawn_to_the_edge() -> None:
    chart = run_page.chart_of(result().engines[0], "scheduled_ttft_p95_s")
    assert [bar.open_end for bar in chart.bars] == [True, False]
    assert chart.bars[0].dot_x is None
    assert "never" in chart.bars[0].said


def test_a_metric_that_nothing_has_makes_no_chart() -> None:
    assert run_page.chart_of(result().engines[0], "prefix_hit_rate").bars == ()
