from __future__ import annotations

import msgspec
import pytest
from synthetic import LinearTable, SyntheticEngine, traffic, workload

from unmoor.choose.prediction import honesty
from unmoor.choose.prediction.honesty import Case, minors_apart, unvalidated
from unmoor.choose.prediction.kernel_tables import NoTable, StepTable, no_room
from unmoor.choose.prediction.predict import Prediction, predict_candidate
from unmoor.choose.prediction.published_error import shipped_error
from unmoor.core.evidence import EvidenceKind
from unmoor.core.hardware import Layout
from unmoor.core.plan import HardwarePlan, ModelPlan
from unmoor.core.slo import Slo
from unmoor.core.traffic import Request
from unmoor.traffic.overlap import prefix_overlap

MODEL = ModelPlan(name="nvidia/Llama-3.1-70B-Instruct-FP8", weights="fp8")
SOUND = Case(
    title="Engine",
    device="h200_sxm",
    measured_rows=70,
    version="1.2.1",
    tables_version="1.3.0rc20",
    uncached_tokens=8000,
    hit_rate=0.1,
    saturated=False,
)


def tables(model: str, weights: str, device: str, tables_name: str, tp: int) -> StepTable | NoTable:
    """One table for every size from 2 on, of the model whose errors are known."""
    del model, weights, tables_name
    if tp == 1:
        return no_room(device, tp, 0.9)
    return LinearTable(kv_tokens=100_000 * tp, factor=1 / tp, model=shipped_error().model)


def shipped(model: str, weights: str, device: str, count: int, *, tables_name: str | None = "vllm") -> Prediction:
    """What the shipped tables say of little traffic."""
    return predict_candidate(
        workload(traffic(10, 1.0, answer=5)),
        Slo(ttft_s=1.0),
        ModelPlan(name=model, weights=weights),
        HardwarePlan(device=device, count=count),
        engine=SyntheticEngine(tables_name=tables_name),
        version=None,
        settings={},
        effort="coarse",
        say=lambda _: None,
    )


def said(found: Prediction, code: str) -> str:
    return next((caveat.text for caveat in found.caveats if caveat.code == code), "")


def predicted(requests: tuple[Request, ...], *, slo: Slo, version: str = "1.2.1", content: bool = True) -> Prediction:
    return predict_candidate(
        msgspec.structs.replace(workload(requests), overlap_block_tokens=1 if content else None),
        slo,
        MODEL,
        HardwarePlan(device="h200_sxm", count=4),
        engine=SyntheticEngine(),
        version=version,
        settings={},
        effort="coarse",
        say=lambda _: None,
        tables=tables,
    )


@pytest.fixture(scope="module")
def long_prompts() -> Prediction:
    return predicted(traffic(300, 1.0, prompt=6000, answer=80), slo=Slo(ttft_s=2.0))


def changed(**what: object) -> Case:
    return Case(**{**{f: getattr(SOUND, f) for f in SOUND.__struct_fields__}, **what})


@pytest.mark.parametrize(
    ("case", "metric", "codes"),
    [
        (SOUND, honesty.TPOT, ()),
        (SOUND, honesty.TPUT, ("tput_is_offered",)),
        (SOUND, honesty.TTFT, ("tail_unmeasured",)),
        (SOUND, honesty.RATE, ("tail_unmeasured",)),
        (SOUND, honesty.HIT_RATE, ("hit_rate_unmeasured",)),
        (changed(measured_rows=0), honesty.TPOT, ("no_error_rows",)),
        (changed(version="0.33.0", tables_version="0.24.0"), honesty.TPOT, ("tables_lag",)),
        (changed(version="0.26.3", tables_version="0.24.0"), honesty.TPOT, ()),
        (changed(saturated=True), honesty.TPOT, ("kv_saturated",)),
        (changed(uncached_tokens=800.0), honesty.TTFT, ("tail_unmeasured", "short_prompts")),
        (changed(uncached_tokens=800.0), honesty.TPOT, ()),
        (changed(hit_rate=0.8), honesty.RATE, ("tail_unmeasured", "high_hit_rate")),
    ],
)
def test_each_rule_takes_the_value_from_its_own_figures(case: Case, metric: str, codes: tuple[str, ...]) -> None:
    assert tuple(rule.code for rule in unvalidated(metric, case)) == codes


def test_every_rule_says_why_in_a_sentence() -> None:
    for rule in honesty.RULES:
        assert rule.reason(SOUND).endswith(".")


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("0.33.0", "0.24.0", 9),
        ("1.2.1", "1.3.0rc20", 1),
        ("2.0", "1.9", None),
        ("main", "1.9", None),
        ("v0.5.1", "0.5", 0),
    ],
)
def test_versions_are_compared_by_minor_release(one: str, other: str, apart: int | None) -> None:
    assert minors_apart(one, other) == apart


def test_a_figure_without_validation_has_no_value_and_one_with_it_has_a_band(long_prompts: Prediction) -> None:
    for figure in long_prompts.figures:
        assert figure.kind is EvidenceKind.PREDICTED
        assert (figure.value is not None) == figure.validated
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low <= figure.high
        assert figure.source
        assert figure.as_of
        if figure.value is not None:
            assert figure.low <= figure.value <= figure.high
    validated = {figure.metric for figure in long_prompts.figures if figure.validated}
    assert validated == {honesty.TPOT}


def test_every_layout_with_a_table_has_a_range_of_rates_and_the_best_is_named(long_prompts: Prediction) -> None:
    rates = [figure for figure in long_prompts.figures if figure.metric == honesty.RATE]
    assert [figure.detail.split(",")[0] for figure in rates] == ["2 × TP2", "1 × TP4"]
    middles = [((figure.low or 0) + (figure.high or 0)) / 2 for figure in rates]
    best = Layout(replicas=2, tp=2) if middles[0] > middles[1] else Layout(replicas=1, tp=4)
    assert long_prompts.layout == best


def test_tables_too_old_take_every_value() -> None:
    found = predicted(traffic(100, 1.0, prompt=6000, answer=20), slo=Slo(ttft_s=2.0), version="1.20.0")
    assert not any(figure.validated for figure in found.figures)
    assert "tables_lag" in {caveat.code for caveat in found.caveats}


@pytest.mark.parametrize(
    ("device", "tables_name", "told"),
    [
        ("mi300x", "vllm", "No tables of mi300x are known of"),
        ("h100_sxm", None, "no kernel tables of Synthetic exist"),
        ("l40s", "vllm", "unmoor[predict]"),
    ],
)
def test_where_there_is_no_table_there_is_a_reason_and_no_number(
    device: str, tables_name: str | None, told: str
) -> None:
    found = shipped(MODEL.name, "fp8", device, 8, tables_name=tables_name)
    assert found.figures == ()
    assert found.layout is None
    assert found.fits is None
    assert [caveat.code for caveat in found.caveats] == ["no_kernel_table"]
    assert device in found.caveats[0].text
    assert told in found.caveats[0].text


@pytest.mark.parametrize(
    ("weights", "count", "fits", "code"),
    [
        ("fp8", 1, False, "does_not_fit"),
        ("bf16", 1, False, "does_not_fit"),
        ("fp8", 2, True, "sizes_left_out"),
        ("bf16", 2, None, "no_kernel_table"),
        ("fp8", 3, None, "no_layout"),
    ],
)
def test_a_model_that_leaves_no_room_is_not_one_without_tables(
    weights: str, count: int, *, fits: bool | None, code: str
) -> None:
    found = shipped(MODEL.name, weights, "h100_sxm", count)
    assert found.fits is fits
    assert said(found, code)
    assert bool(found.figures) == bool(fits)


def test_the_extra_is_not_advised_where_it_was_asked() -> None:
    def asked(*_: object) -> NoTable:
        return NoTable(code="weights_differ", text="the extra has it at bf16", extra_asked=True)

    found = predict_candidate(
        workload(traffic(10, 1.0)),
        Slo(ttft_s=1.0),
        MODEL,
        HardwarePlan(device="h100_sxm", count=2),
        engine=SyntheticEngine(),
        version=None,
        settings={},
        effort="coarse",
        say=lambda _: None,
        tables=asked,
    )
    assert "at bf16" in said(found, "weights_differ")
    assert "pip install" not in found.caveats[0].text


def test_sizes_without_room_are_named_beside_those_with_figures(long_prompts: Prediction) -> None:
    assert long_prompts.fits
    assert "4 × TP1: within 90 %" in said(long_prompts, "sizes_left_out").replace("90%", "90 %")


def test_tables_of_a_model_of_the_same_architecture_are_said_to_be_its() -> None:
    assert not said(shipped(MODEL.name, "fp8", "h100_sxm", 8), "tables_of_alias")
    text = said(shipped("meta-llama/Llama-3.3-70B-Instruct", "fp8", "h100_sxm", 8), "tables_of_alias")
    assert MODEL.name in text
    assert "Llama-3.3-70B-Instruct" in text


def test_unknown_content_has_no_hit_rate_and_says_that_reuse_can_only_help() -> None:
    found = predicted(traffic(100, 1.0, answer=20), slo=Slo(ttft_s=1.0), content=False)
    assert honesty.HIT_RATE not in {figure.metric for figure in found.figures}
    assert "can only raise" in said(found, "content_unknown")
    assert not said(found, "hit_rate_unmeasured")


def test_repeated_traffic_says_so_and_its_hit_rate_stays_within_its_own_overlap() -> None:
    load = traffic(6, 1.0, prompt=1000, answer=20, shared=600, groups=1)
    found = predicted(load, slo=Slo(ttft_s=1.0))
    text = said(found, "traffic_repeated")
    assert "6 requests" in text
    assert "1,500" in text
    hits = next(figure for figure in found.figures if figure.metric == honesty.HIT_RATE)
    overlap = prefix_overlap(workload(load))
    assert overlap is not None
    assert 0 < (hits.high or 0) <= overlap


def test_traffic_that_is_simulated_in_part_says_so() -> None:
    found = predicted(traffic(1600, 1.0, answer=5), slo=Slo(ttft_s=1.0))
    assert "first 1,500 of 1,600" in said(found, "traffic_cut")
    assert not said(found, "traffic_repeated")


def test_a_rate_says_how_finely_it_was_searched(long_prompts: Prediction) -> None:
    assert "within 5%" in said(long_prompts, "search_step")


def test_the_version_of_tables_and_of_rules_is_said_even_where_it_takes_no_value() -> None:
    near = predicted(traffic(100, 1.0, prompt=6000, answer=20), slo=Slo(ttft_s=2.0), version="1.2.1")
    assert "1.0.0, not of 1.2.1" in said(near, "tables_lag")
    assert any(figure.validated for figure in near.figures)
    other = predicted(traffic(100, 1.0, prompt=6000, answer=20), slo=Slo(ttft_s=2.0), version="1.20.0")
    assert "1.2.1" in said(other, "scheduler_version")
    assert [caveat.code for caveat in other.caveats].count("tables_lag") == 1


def test_an_slo_that_no_rate_meets_is_said_and_not_given_a_rate() -> None:
    found = predicted(traffic(100, 1.0, prompt=6000, answer=20), slo=Slo(ttft_s=0.001))
    assert found.layout is None
    assert honesty.RATE not in {figure.metric for figure in found.figures}
    assert "slo_unmet" in {caveat.code for caveat in found.caveats}


def test_an_slo_without_bounds_has_no_highest_rate() -> None:
    found = predicted(traffic(50, 1.0, answer=5), slo=Slo())
    assert honesty.RATE not in {figure.metric for figure in found.figures}
    assert "rate_unbounded" in {caveat.code for caveat in found.caveats}


def test_traffic_without_a_rate_is_not_predicted() -> None:
    found = predicted(traffic(1, 1.0), slo=Slo(ttft_s=1.0))
    assert [caveat.code for caveat in found.caveats] == ["no_arrivals"]


def test_arrivals_on_a_coarse_clock_are_spread_and_it_is_said() -> None:
    load = tuple(Request(arrival_s=float(i // 10), input_tokens=500, output_tokens=10) for i in range(200))
    found = predicted(load, slo=Slo(ttft_s=1.0))
    assert "arrivals_spread" in {caveat.code for caveat in found.caveats}


def test_the_shipped_errors_hold_no_rows_and_give_a_band_for_each_engine() -> None:
    error = shipped_error()
    bands = [error.band(engine.device, engine.tables_name) for engine in error.engines]
    assert all(0.5 < band.fast < band.mid < band.slow < 1.5 for band in bands)
    nowhere = error.band("nowhere", "none")
    assert (nowhere.fast, nowhere.slow) == (min(b.fast for b in bands), max(b.slow for b in bands))
    assert error.rows_for("h100_sxm", "sglang") == 0
    assert sum(engine.tpot.n for engine in error.engines) == error.rows - error.rows_saturated


def test_a_prediction_that_was_too_fast_in_every_run_has_its_whole_band_slower() -> None:
    band = shipped_error().band("h100_sxm", "vllm")
    assert band.fast > 1
    text = said(shipped(MODEL.name, "fp8", "h100_sxm", 8), "prediction_terms")
    assert f"× {band.fast:.2f} to {band.slow:.2f}" in text
    assert "too fast on average, which the range corrects" in text
