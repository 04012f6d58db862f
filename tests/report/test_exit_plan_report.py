"""An exit plan as Markdown, whole, and as a page that says the same."""

from __future__ import annotations

import html
import re
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from unmoor.core.decision import Cost, GateResult, Verdict
from unmoor.core.evidence import EvidenceKind
from unmoor.core.plan import RehearsedMove
from unmoor.engines.surface.surface import Source
from unmoor.leave.exit_plan.exit_plan import (
    Check,
    CitedFact,
    EngineOnly,
    ExitPlan,
    Expiry,
    HardwareKind,
    Letter,
    Move,
    OnEngine,
    Place,
    Risk,
    Side,
    Step,
    There,
    WeightFile,
    Weights,
)
from unmoor.leave.finding import Feature, Finding, Kind, MoveReport
from unmoor.report import exit_plan_markdown, exit_plan_page

GOLDEN = Path(__file__).parent / "exit_plan.golden.md"
SOURCE = Source(how="source", what="its package", version="Far 2", seen=date(2026, 11, 30))
KINDS = {"UM999": Kind(id="UM999", name="made", title="A thing | made up", bites="", look="", mend="")}
HASH = "ab" * 32


def fact(subject: str, text: str, *, stale: bool = False) -> CitedFact:
    return CitedFact(
        subject=subject, text=text, answer=None, kind=EvidenceKind.PUBLISHED, source="its pages", version="1",
        as_of=date(2026, 11, 1), good_until=date(2026, 11, 20) if stale else date(2027, 1, 30), stale=stale,
        recheck="open its pages",
    )  # fmt: skip


NEAR = Side(
    engine="near", title="Near", version="1", surface="1",
    facts=(fact("licence", "It is under Apache-2.0."), fact("security_policy", "It has one.", stale=True)),
)  # fmt: skip
FAR = Side(
    engine="far", title="Far <b>", version="2", surface="2", facts=(fact("governance", "A company's."),),
    gates=(GateResult(name="support", passed=False, reason="Not sold."),),
)  # fmt: skip
THIRD = Side(engine="third", title="Third", version=None, surface="", facts=())

REPORT = MoveReport(
    source_engine="near", source_version="1", target_engine="far", target_version="2", traffic="log.jsonl",
    format="openai", requests=10, bodies=9, lost_requests=2, translated_requests=3,
    features=(
        Feature(name="chat.top_k", requests=2, outcome="lost", kinds=("UM999",)),
        Feature(name="chat.seed", requests=3, outcome="translated", kinds=("UM999",)),
        Feature(name="chat.stop", requests=1, outcome="same"),
    ),
    findings=(
        Finding(
            kind="UM999", outcome="lost", severity="error", features=("chat.top_k",), requests=2, lines=(3, 7),
            seen="`top_k` above 5 | is refused by *Far*.", fix="Leave it out.", sources=(SOURCE,),
        ),
        Finding(
            kind="UM999", outcome="translated", severity="note", features=("chat.seed",), requests=3, lines=(1, 2, 3),
            seen="An odd ` tick.", fix="`seed` goes to `random_seed`.", sources=(SOURCE,),
        ),
    ),
    not_looked_at=("adapters: nobody brought any",), start_command=("far", "serve", "--slots", "6 4"),
)  # fmt: skip


def there(standing: str, *names: str, note: str = "") -> There:
    return msgspec.convert(
        {"engine": "far", "version": "2", "standing": standing, "names": names, "note": note, "source": SOURCE},
        There,
        from_attributes=True,
    )


PLAN = ExitPlan(
    plan="desk # 1", made_on=date(2026, 12, 1), model="org/Tiny_model", weights_word="fp8", hardware="8 × h100_sxm",
    traffic="log.jsonl: 10 requests, 9 of them with their bodies", serves=NEAR, serves_by="plan", others=(FAR, THIRD),
    leave_to="far", decision_rests_on="gates and dated facts alone",
    decision=Verdict(
        pick="near", sentence="Run Near.", decided_by="gates", against="", risk="", not_for="", tie=False
    ),
    cost=Cost(
        per_hour=33.12, per_million_output_tokens=None, per_million_good_requests=None, good_requests_reason=None,
        currency="USD", source="a <b>price</b> list", as_of="2026-08-24",
    ),
    places=(
        Place(what="model", where="./models/m|1", seen="there"), Place(what="evals", where="~/evals", seen="missing"),
        Place(what="routing", where="https://git.example.org/r", seen="not looked at"),
        Place(what="metering", where=None, seen="not recorded"),
    ),
    weights=Weights(
        scheme="fp8", said_in="config.json", container="safetensors", architecture="LlamaForCausalLM",
        dtype="bfloat16", kv_cache="fp8", weight_bytes=70_600_000_000,
        files=(
            WeightFile(name="a.safetensors", size_bytes=70_600_000_000, sha256=HASH),
            WeightFile(name="b.safetensors", size_bytes=1_500_000, sha256=HASH, recorded=HASH, recorded_in="SUMS"),
            WeightFile(name="c.safetensors", size_bytes=1_500, recorded=HASH, recorded_in="SUMS"),
            WeightFile(name="d.safetensors", size_bytes=15, sha256=HASH, recorded="cd" * 32, recorded_in="SUMS"),
            WeightFile(name="config.json", size_bytes=15),
        ),
    ),
    moves=(
        Move(engine="far", version="2", report=REPORT),
        Move(engine="third", version=None, why_not="no surface is known of one of the two engines"),
    ),
    engine_only=(
        EngineOnly(
            kind="setting", concept="max_running", meaning="requests decoded together", names=("--at-once",),
            there=(there("renamed", "--slots"), there("unknown")), source=SOURCE,
        ),
        EngineOnly(
            kind="metric", concept="running", meaning="requests that run", names=("near:running", "near:run"),
            there=(there("absent", note="later builds | alone"), there("same", "near:running", "near:run")),
        ),
    ),
    hardware_kinds=(
        HardwareKind(
            hardware="nvidia_hopper", title="NVIDIA Hopper (9.0)", vendor="nvidia", of_the_plan=True,
            engines=(
                OnEngine(engine="near", version="1", loads="native", sources=(SOURCE,)),
                OnEngine(engine="far", version="2", loads="refused", notes=("needs 10.0",), ways=("none", "mxfp4")),
                OnEngine(engine="third", version=None, loads="unknown"),
            ),
        ),
        HardwareKind(
            hardware="amd_cdna3", title="AMD Instinct MI300", vendor="amd", of_the_plan=False,
            engines=(
                OnEngine(engine="near", version="1", loads="fallback", notes=("unpacked",)),
                OnEngine(engine="far", version="2", loads="not supported"),
                OnEngine(engine="third", version=None, loads="elsewhere"),
            ),
        ),
    ),
    rehearsals=(
        RehearsedMove(to="far", on=date(2026, 11, 12), outcome="half of it answered", where="notes/1"),
    ),
    risks=(
        Risk(code="missing", text="No evals <script>alert(1)</script> there."), Risk(code="stale", text="#1 is old."),
    ),
    goes_stale=(
        Expiry(what="Near: security policy", good_until=date(2026, 11, 20), stale=True, recheck="open its pages"),
        Expiry(what="Near: licence", good_until=date(2027, 1, 30), stale=False, recheck="open its pages"),
    ),
    checks=(
        Check(
            when="This week",
            steps=(
                Step(asked="Pull a run", done=True, said="2026-11-02: notes", known_by="plan"),
                Step(asked="Measure overlap", done=True, said="25.0% of prompt tokens", known_by="seen"),
            ),
        ),
        Check(when="This month", steps=(Step(asked="Tune", done=False, said="not recorded"),)),
    ),
    letter=Letter(to="Third-Party Risk", lines=("We serve org/Tiny_model with Near 1.", "May we?")),
)  # fmt: skip


def test_the_markdown_is_whole() -> None:
    assert exit_plan_markdown.render(PLAN, KINDS) + "\n" == GOLDEN.read_text()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, 3_4 and h100_sxm", "plain words, 3_4 and h100_sxm"),
        ("# a heading", "\\# a heading"),
        ("> a quote", "\\> a quote"),
        (
            "*bold* _word_ [link](x) a|b `code` ~~gone~~",
            "\\*bold\\* \\_word\\_ \\[link\\](x) a\\|b \\`code\\` \\~~gone\\~~",
        ),
        ("two\nlines\r\n  of it", "two lines of it"),
        ("<script>", "&lt;script>"),
        ("&lt; is &amp;c.", "&amp;lt; is &amp;amp;c."),
        ("a & b", "a & b"),
        ("back\\slash", "back\\\\slash"),
    ],
)
def test_marks_in_a_text_from_outside_stay_text(text: str, shown: str) -> None:
    assert exit_plan_markdown.plain(text) == shown


def test_every_row_of_a_table_has_the_columns_of_its_head() -> None:
    columns = 0
    for line in exit_plan_markdown.render(PLAN, KINDS).splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not columns or cells in {0, columns}, line
        columns = cells


class Page(HTMLParser):
    """What a page refers to, and whether its tags are in order."""

    VOID = frozenset({"meta", "br"})

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


def test_the_page_needs_nothing_else_closes_its_tags_and_runs_nothing() -> None:
    text = exit_plan_page.render(PLAN, KINDS)
    page = Page()
    page.feed(text)
    assert (page.open, page.refers) == ([], [])
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "Far &lt;b&gt; 2" in text


def words_of(markdown: str) -> set[str]:
    """Words of a text without its marks; of what is hidden in links or tags nothing."""
    return set(re.findall(r"[\w./:-]{4,}", re.sub(r"[\\`*|#>]|&lt;|---", " ", markdown)))


def test_the_page_says_all_that_the_markdown_says() -> None:
    page = html.unescape(re.sub(r"<[^>]+>", " ", exit_plan_page.render(PLAN, KINDS))).casefold()
    words = {word.strip(".:").casefold() for word in words_of(exit_plan_markdown.render(PLAN, KINDS))}
    assert {word for word in words if word not in page} <= {"bold"}  # the plan's own hardware is marked otherwise there


def test_nothing_recorded_is_said_to_be_not_recorded() -> None:
    bare = msgspec.structs.replace(
        PLAN, serves_by="decision", leave_to=None, rehearsals=(), engine_only=(),
        weights=Weights(scheme="", said_in="plan"),
        places=(Place(what="evals", where=None, seen="not recorded"),), goes_stale=(),
        letter=msgspec.structs.replace(PLAN.letter, to=None), cost=msgspec.structs.replace(PLAN.cost, per_hour=None),
    )  # fmt: skip
    text = exit_plan_markdown.render(bare, KINDS)
    for said in (
        "Near 1 (the plan does not record which engine serves; this is the one that the decision picks)",
        "| Way out | not recorded; the plan's other candidates are looked at: Far &lt;b> 2, Third |",
        "| evals | not recorded |  |",
        "Weights: no format that is known here, by the plan's word alone: no folder of weights was looked at.",
        "None are known that another engine of the plan lacks.",
        "Nothing: no rehearsal is recorded by 2026-12-01.",
        "Nothing on this page has a date.",
        "| Cost | not known: a &lt;b>price&lt;/b> list |",
        "## Two lines to the owner of third-party risk (not recorded)",
    ):
        assert said in text
    page = re.sub(r"\s+", " ", html.unescape(exit_plan_page.render(bare, KINDS)))
    for said in ("not recorded; the plan's other candidates", "no rehearsal is recorded", "risk (not recorded)"):
        assert said in page
