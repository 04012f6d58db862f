"""Metrics, routes, buckets and error bodies in the user's files, on the other engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from unmoor.engines.surface.load import known_surfaces, surface
from unmoor.leave.case import Case
from unmoor.leave.checks.names import CHECK
from unmoor.leave.finding import Finding
from unmoor.leave.names_used import find_names
from unmoor.leave.uses import Uses

VLLM, SGLANG, TRTLLM, LLAMA = "vllm@0.32.0", "sglang@0.5.23", "tensorrt-llm@1.3.0rc3", "llama-cpp@11434"


def case_of(folder: Path, text: str, source: str, target: str) -> Case:
    (folder / "panel.json").write_text(text)
    here = surface(source)
    return Case(uses=Uses(), source=here, target=surface(target), names=find_names([folder], here))


def found(folder: Path, text: str, source: str, target: str, kind: str | None = None) -> list[Finding]:
    hits = CHECK.look(case_of(folder, text, source, target))
    return [hit.finding for hit in hits if kind in {None, hit.finding.kind}]


def panel(expression: str) -> str:
    return '{"panels": [{"targets": [{"expr": "' + expression.replace('"', '\\"') + '"}]}]}'


@pytest.mark.parametrize(
    ("kind", "target", "fires", "clean"),
    [
        ("UM121", SGLANG, panel("sum(vllm:num_requests_waiting)"), panel("sum(rate(http_requests_total[5m]))")),
        ("UM121", TRTLLM, 'get("http://llm:8000/metrics")', 'get("http://llm:8000/v1/models")'),
        ("UM121", LLAMA, 'get("http://llm:8000/version")', 'get("http://llm:8000/v1/models")'),
        (
            "UM147",
            SGLANG,
            panel("histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[5m])))"),
            panel("rate(vllm:time_to_first_token_seconds_sum[5m]) / rate(vllm:time_to_first_token_seconds_count[5m])"),
        ),
        ("UM148", SGLANG, 'raise Failed(body["error"]["message"])', 'raise Failed(body["message"])'),
        ("UM149", SGLANG, "readinessProbe:\n  httpGet:\n    path: /health\n", "httpGet:\n  path: /status\n"),
    ],
)
def test_a_kind_fires_and_its_clean_twin_does_not(
    tmp_path: Path, kind: str, target: str, fires: str, clean: str
) -> None:
    assert found(tmp_path, fires, VLLM, target, kind)
    assert found(tmp_path, clean, VLLM, target, kind) == []


def test_a_renamed_metric_names_the_new_one_its_unit_and_its_switch(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, panel("rate(vllm:prefix_cache_hits_total[5m])"), VLLM, TRTLLM)
    assert (finding.outcome, finding.features) == ("translated", ("metric vllm:prefix_cache_hits_total",))
    assert "trtllm_kv_cache_reused_blocks_total, in blocks where it was tokens" in finding.fix
    assert "Start TensorRT-LLM with return_perf_metrics: true." in finding.fix
    assert finding.seen.startswith("It stands in panel.json:1.")
    assert {source.version for source in finding.sources} > {"vLLM 0.32.0"}


def test_a_metric_that_the_target_has_not_is_lost(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, panel("vllm:kv_cache_usage_perc > 0.9"), VLLM, LLAMA)
    assert (finding.kind, finding.outcome, finding.severity) == ("UM121", "lost", "warning")
    assert "per slot in /slots" in finding.seen


def test_a_name_of_an_older_version_is_told_as_such(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, panel("avg(vllm:gpu_cache_usage_perc)"), VLLM, SGLANG)
    assert "It is vllm:kv_cache_usage_perc in 0.32.0 already." in finding.seen
    assert "sglang:token_usage" in finding.fix


def test_a_metric_route_that_answers_in_another_format_says_so(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, "metrics_path: /metrics\n", VLLM, TRTLLM)
    assert "/prometheus/metrics" in finding.fix
    assert "/metrics is JSON, and each reading empties it" in finding.fix


def test_bounds_that_are_asked_for_are_shown_beside_those_that_there_are(tmp_path: Path) -> None:
    share = panel('rate(vllm:e2e_request_latency_seconds_bucket{le="2.5"}[5m])')
    (finding,) = found(tmp_path, share, VLLM, SGLANG, "UM147")
    assert "Asked for are 2.5 (le)." in finding.seen
    assert "0.1, 0.2, 0.4, 0.6, 0.8, 1, 2, 4" in finding.seen


def test_buckets_that_are_the_same_are_no_finding(tmp_path: Path) -> None:
    quantile = panel("histogram_quantile(0.9, rate(vllm:time_to_first_token_seconds_bucket[5m]))")
    assert found(tmp_path, quantile, VLLM, TRTLLM, "UM147") == []


def test_a_health_probe_that_would_run_tokens_is_told_with_what_changes_it(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, "path: /health\n", VLLM, SGLANG, "UM149")
    assert "There it runs a token" in finding.seen
    assert "it answers 503, where the connection is refused today" in finding.seen
    assert "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=0" in finding.fix


def test_a_health_route_that_answers_alike_is_no_finding(tmp_path: Path) -> None:
    assert found(tmp_path, "path: /health\n", VLLM, TRTLLM, "UM149") == []


@pytest.mark.parametrize(
    ("name", "source"), [("vllm:never_heard_of_total", VLLM), ("trtllm_never_heard_of_total", TRTLLM)]
)
def test_names_that_no_table_has_are_told_as_not_looked_at(tmp_path: Path, name: str, source: str) -> None:
    case = case_of(tmp_path, panel(name), source, SGLANG)
    assert list(CHECK.look(case)) == []
    assert case.not_looked_at == [f"metrics that no table compares: {name}"]


def test_a_move_without_dashboards_says_so_once() -> None:
    case = Case(uses=Uses(), source=surface(VLLM), target=surface(SGLANG))
    assert list(CHECK.look(case)) == []
    assert len(case.not_looked_at) == 1
    assert "--dashboards" in case.not_looked_at[0]


@pytest.mark.parametrize("target", known_surfaces())
@pytest.mark.parametrize("source", [VLLM, SGLANG, TRTLLM, LLAMA])
def test_every_metric_and_route_of_every_pair_is_told_with_its_source(tmp_path: Path, source: str, target: str) -> None:
    here = surface(source)
    names = [name for metric in here.metrics.values() for name in metric.names]
    paths = [f'get("http://llm:1{route.path}")' for route in here.routes.values() if route.path]
    case = case_of(tmp_path, "\n".join([*map(panel, names), *paths]), source, target)
    findings = [hit.finding for hit in CHECK.look(case)]
    if here.engine == case.target.engine:
        assert not [one for one in findings if one.outcome == "lost"]
    else:
        told = {one.features[0] for one in findings} | {word for text in case.not_looked_at for word in text.split()}
        assert {f"metric {name}" for name in names} <= told | {f"metric {word}" for word in told}
    assert all(one.sources and one.seen and one.fix and "None" not in one.seen + one.fix for one in findings)
