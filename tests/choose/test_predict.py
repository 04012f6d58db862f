from __future__ import annotations

import pytest
from synthetic import LinearTable, SyntheticEngine, traffic, workload

from unmoor.choose.prediction import honesty
from unmoor.choose.prediction.honesty import Case, minors_apart, unvalidated
from unmoor.choose.prediction.kernel_tables import StepTable
from unmoor.choose.prediction.predict import Prediction, predict_candidate
from unmoor.choose.prediction.published_error import shipped_error
from unmoor.core.evidence import EvidenceKind
from unmoor.core.hardware import Layout
from unmoor.core.plan import HardwarePlan, ModelPlan
from unmoor.core.slo import Slo
from unmoor.core.traffic import Request

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


def tables(model: str, weights: str, device: str, tables_name: str, tp: int) -> StepTable | None:
    """One table for every size from 2 on, of the model whose errors are known."""
    del model, weights, device, tables_name
    return LinearTable(kv_tokens=100_000 * tp, factor=1 / tp, model=shipped_error().model) if tp > 1 else None


def predicted(requests: tuple[Request, ...], *, slo: Slo, version: str = "1.2.1") -> Prediction:
    return predict_candidate(
        workload(requests),
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
        (SOUND, honesty.TPUT, ()),
        (SOUND, honesty.TTFT, ("tail_unmeasured",)),
        (SOUND, honesty.RATE, ("tail_unmeasured",)),
        (SOUND, honesty.HIT_RATE, ("hit_rate_unmeasured",)),
        (changed(measured_rows=0), honesty.TPOT, ("no_error_rows",)),
        (changed(version="0.33.0", tables_version="0.24.0"), honesty.TPUT, ("tables_lag",)),
        (changed(version="0.26.3", tables_version="0.24.0"), honesty.TPUT, ()),
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
    assert validated == {honesty.TPOT, honesty.TPUT}


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


def test_where_there_is_no_table_there_is_a_reason_and_no_number() -> None:
    for device, engine in (("mi300x", SyntheticEngine()), ("h100_sxm", SyntheticEngine(tables_name=None))):
        found = predict_candidate(
            workload(traffic(10, 1.0)),
            Slo(ttft_s=1.0),
            MODEL,
            HardwarePlan(device=device, count=8),
            engine=engine,
            version=None,
            settings={},
            effort="coarse",
            say=lambda _: None,
        )
        assert found.figures == ()
        assert found.layout is None
        assert [caveat.code for caveat in found.caveats] == ["no_kernel_table"]
        assert device in found.caveats[0].text


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
    assert 0.05 < error.band("h200_sxm", "trtllm") < 0.15
    assert error.band("nowhere", "none") == max(engine.tpot.p90 for engine in error.engines)
    assert error.rows_for("h100_sxm", "sglang") == 0
    assert sum(engine.tpot.n for engine in error.engines) == error.rows - error.rows_saturated
