from __future__ import annotations

import json

import pytest

from unmoor.report.profile_words import overlap_sentence
from unmoor.report.words import overlap_words
from unmoor.traffic.breakers import Watch
from unmoor.traffic.conversion import workload_of
from unmoor.traffic.fingerprint import write
from unmoor.traffic.log import Traffic
from unmoor.traffic.profile.profile_log import profile_log
from unmoor.traffic.profile.question import EngineBlocks, Question
from unmoor.traffic.profile.report import TrafficReport
from unmoor.traffic.readers import read_traffic
from unmoor.traffic.readers.models_apart import several_models
from unmoor.traffic.shape import profile
from unmoor.traffic.text.pieces import BytesCutter

PROMPT = "You answer for the harbour office, in short and plain words, and name the berth. " * 20
QUESTION = Question(
    kv_tokens=(100_000,), replicas=(2,), engines={"e": EngineBlocks(block_tokens=16, prefix_caching=True)}
)


def body(at: int, model: str | None, prompt: str = PROMPT) -> str:
    named = {} if model is None else {"model": model}
    usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 5}
    request = named | {"messages": [{"role": "user", "content": prompt}]}
    return json.dumps({"timestamp": 1_764_590_400 + at, "request": request, "response": {"usage": usage}})


def log(*models: str | None) -> Traffic:
    return read_traffic("\n".join(body(at, model) for at, model in enumerate(models)).encode(), where="log")


def codes(report: TrafficReport) -> list[str]:
    return [caveat.code for caveat in report.caveats]


def test_equal_prompts_for_two_models_share_nothing() -> None:
    report = profile_log(log("a", "b"), QUESTION)
    assert (report.prefix_overlap, report.prefix_overlap_blocks) == (0.0, 0.0)
    assert [point.hit_rate for point in report.hit_rate_curve] == [0.0]
    assert report.engines["e"].hit_rate_curve[0].hit_rate == 0.0
    assert report.shared_prefixes == ()
    assert {replica.hit_rate for replica in report.replicas} == {0.0}
    assert codes(report).count("several_models") == 1


def test_within_each_model_all_is_shared_as_in_a_log_of_its_own() -> None:
    alone, both = profile_log(log("a", "a", "a"), QUESTION), profile_log(log(*"ababab"), QUESTION)
    assert alone.prefix_overlap == pytest.approx(2 / 3)
    assert both.prefix_overlap == pytest.approx(2 / 3)
    assert both.engines["e"].hit_rate_curve == alone.engines["e"].hit_rate_curve
    assert "several_models" not in codes(alone)


def test_who_names_no_model_is_answered_by_the_first_that_is_named() -> None:
    assert profile_log(log(None, "a"), QUESTION).prefix_overlap == pytest.approx(1 / 2)
    assert profile_log(log("a", "b", None), QUESTION).prefix_overlap == pytest.approx(1 / 3)


def test_a_fingerprint_keeps_models_apart_and_says_so() -> None:
    fingerprint = b"".join(write(log(*"ababab"), key=bytes(32)))
    report = profile_log(read_traffic(fingerprint, where="fingerprint.jsonl"), QUESTION)
    assert report.input_tokens.total is not None
    whole = len(PROMPT) // 4 // 16 * 16
    assert report.prefix_overlap == pytest.approx(4 * whole / report.input_tokens.total, rel=0.05)
    assert codes(report).count("several_models") == 1


def test_a_fingerprint_of_before_models_were_told_apart_does_not_claim_it() -> None:
    (caveat,) = several_models(2, apart=False)
    assert "not told apart by model" in caveat.text
    assert several_models(1) == ()


def test_a_decision_has_the_figure_and_the_doubt_of_the_profile() -> None:
    traffic = log(*"abab")
    shape, report = profile(workload_of(traffic)), profile_log(traffic, QUESTION)
    assert shape.prefix_overlap == pytest.approx(report.prefix_overlap) == pytest.approx(1 / 2)
    assert [caveat.code for caveat in shape.caveats].count("several_models") == 1
    assert "earlier prompt for the same model" in overlap_words(shape)[1]
    assert "earlier prompt for the same model, with" in overlap_sentence(report)


def test_what_ruins_sharing_is_priced_within_models() -> None:
    def found(*models: str) -> float:
        watch = Watch()
        lines = (body(at, model, f"Today is 2026-11-{10 + at}. {PROMPT}") for at, model in enumerate(models))
        read_traffic("\n".join(lines).encode(), where="log", watch=watch)
        breakers = watch.findings(BytesCutter(b""))
        assert breakers is not None
        return sum(breaker.share_lost for breaker in breakers)

    assert found(*"aaaaaaaa") == pytest.approx(7 / 8, abs=0.05)
    assert found(*"abababab") == pytest.approx(6 / 8, abs=0.05)
    assert found(*"abcdefgh") == 0.0


def test_where_a_decision_counts_prompts_by_their_text_it_says_both_totals() -> None:
    prompts = [PROMPT, PROMPT[:900]]  # a token is not as many bytes in each
    lines = [body(at, "a", prompt).replace(f": {len(prompts[1]) // 4},", ": 220,") for at, prompt in enumerate(prompts)]
    traffic = read_traffic("\n".join(lines).encode(), where="log")
    workload, report = workload_of(traffic), profile_log(traffic, QUESTION)
    (said,) = (caveat.text for caveat in workload.caveats if caveat.code == "lengths_by_text")
    assert f"{sum(request.input_tokens for request in workload.requests):,} tokens" in said
    assert f"{report.input_tokens.total:,}, which `unmoor profile` gives" in said
