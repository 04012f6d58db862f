from __future__ import annotations

from datetime import date, timedelta

import pytest

from unmoor.choose.facts import VERDICT_SUBJECTS, Fact, load_facts, load_prices
from unmoor.core.evidence import EvidenceKind
from unmoor.engines.registry import engine_names

FACTS = load_facts()
NEEDED = (
    "newest_version", "licence", "governance", "security_policy", "hardware", "biggest_risk", "not_for",
)  # fmt: skip


def each(fact: Fact) -> str:
    return f"{fact.engine}-{fact.subject}"


@pytest.mark.parametrize("name", engine_names())
def test_every_known_engine_has_the_facts_that_a_verdict_reads(name: str) -> None:
    assert FACTS.title(name) != name
    assert [subject for subject in NEEDED if FACTS.find(name, subject) is None] == []


@pytest.mark.parametrize("fact", FACTS.facts, ids=each)
def test_every_fact_says_where_when_and_how_to_look_again(fact: Fact) -> None:
    assert fact.claim.endswith(".")
    assert fact.source
    assert fact.version
    assert fact.recheck
    assert 0 < fact.stale_after_days <= 365
    assert fact.as_of <= date(2026, 12, 31)
    assert fact.engine in engine_names()


def test_no_fact_stands_twice() -> None:
    subjects = [(f.engine, f.subject, f.bears_on) for f in FACTS.facts]
    assert len(subjects) == len(set(subjects))
    several = {f.subject for f in FACTS.facts if f.bears_on and (f.engine, f.subject, "") in subjects}
    assert several <= set(VERDICT_SUBJECTS)


def test_every_trait_that_a_fact_bears_on_is_one_that_traffic_can_have() -> None:
    traits = {"", "schema", "adapter", "shared_prefix", "no_shared_prefix"}
    assert {f.bears_on for f in FACTS.facts} <= traits


def test_the_risk_told_is_the_one_that_the_traffic_makes_matter() -> None:
    plain = FACTS.most_telling("vllm", "not_for", frozenset())
    adapters = FACTS.most_telling("vllm", "not_for", frozenset({"adapter"}))
    assert plain is not None
    assert adapters is not None
    assert "LoRA" not in plain.claim
    assert "LoRA" in adapters.claim
    assert FACTS.most_telling("vllm", "no_such_subject", frozenset()) is None


def test_what_was_often_said_and_is_not_so_stands_beside_what_was_read() -> None:
    corrected = {(f.engine, f.subject) for f in FACTS.facts if f.corrects}
    assert {
        ("tensorrt-llm", "engine_build"),
        ("tensorrt-llm", "newest_version"),
        ("vllm", "security_policy"),
        ("sglang", "hardware_elsewhere"),
        ("vllm", "quantised_formats"),
        ("vllm", "prefix_granularity_tokens"),
        ("vllm", "batch_defaults"),
        ("sglang", "newest_version"),
        ("vllm", "roadmap"),
        ("tensorrt-llm", "structured_output"),
    } <= corrected


def test_what_others_claim_is_a_range_that_cannot_rank() -> None:
    figures = [f.figure() for f in FACTS.figures]
    assert figures
    assert all(f.kind is EvidenceKind.CLAIMED and not f.validated and f.value is None for f in figures)
    assert all(f.low is not None and f.high is not None for f in figures)


def test_a_fact_is_stale_the_day_after_its_last_good_day() -> None:
    fact = FACTS.facts[0]
    last = fact.as_of + timedelta(days=fact.stale_after_days)
    assert not fact.is_stale(last)
    assert fact.is_stale(last + timedelta(days=1))


def test_claims_about_adapters_come_with_traffic_that_has_adapters_only() -> None:
    plain = FACTS.figures_bearing_on("tensorrt-llm", frozenset())
    adapters = FACTS.figures_bearing_on("tensorrt-llm", frozenset({"adapter"}))
    assert plain == ()
    assert {f.metric for f in adapters} == {"output_tput_lost_to_adapters"}


def test_the_price_book_is_dated_and_knows_the_devices_of_the_examples() -> None:
    prices = load_prices()
    price = prices.device_price("h100_sxm")
    assert price is not None
    assert (price.low, price.high) == (3.99, 4.29)
    assert prices.device_price("abacus") is None
    assert prices.is_stale(price.as_of, date(2026, 11, 30))
    assert not prices.is_stale(price.as_of, price.as_of)
