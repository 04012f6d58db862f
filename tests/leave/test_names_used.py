"""Names of metrics and routes, found in dashboards, rules, manifests and clients as people write them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unmoor.core.errors import UsageError
from unmoor.engines.surface.load import surface
from unmoor.leave import names_used
from unmoor.leave.names_used import NamesUsed, find_names

DASHBOARD = r"""{
  "title": "Assistant",
  "panels": [
    {"title": "TTFT p95", "targets": [{"expr":
      "histogram_quantile(0.95, sum by(le) (rate(vllm:time_to_first_token_seconds_bucket{m=\"$m\"}[5m])))"}]},
    {"title": "under 2.5 s", "targets": [{"expr":
    "rate(vllm:e2e_request_latency_seconds_bucket{le=\"2.5\"}[5m])/rate(vllm:e2e_request_latency_seconds_count[5m])"}]},
    {"title": "load", "targets": [{"expr": "vllm:num_requests_waiting + vllm_num_requests_running"},
      {"expr": "vllm:gpu_cache_usage_perc"}, {"expr": "vllm:never_heard_of_total"}, {"expr": "up{job=\"llm\"}"}]}
  ]
}
"""
RULES = """\
groups:
  - rules:
      - record: job:vllm:num_requests_running:sum
        expr: sum by (job) (vllm:num_requests_running)
"""
PROBE = "livenessProbe:\n  httpGet:\n    path: /health\n    port: 8000\n"
CLIENT = """\
requests.get(f"{base}/health_generate")
requests.get("http://localhost:8000/v1/models")
requests.get("http://llm/metrics")
raise Failed(body["error"]["message"])
open("src/health")
from pkg/metrics import nothing
"""


def found(folder: Path, **files: str) -> NamesUsed:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return find_names([folder], surface("vllm@0.32.0"))


def test_a_dashboard_s_metrics_are_named_as_the_surface_names_them(tmp_path: Path) -> None:
    names = found(tmp_path, board_json=DASHBOARD)
    assert dict(names.metrics) == {
        "vllm:time_to_first_token_seconds": ("board.json:5",),
        "vllm:e2e_request_latency_seconds": ("board.json:7",),
        "vllm:num_requests_waiting": ("board.json:8",),
        "vllm:num_requests_running": ("board.json:8",),
        "vllm:gpu_cache_usage_perc": ("board.json:9",),
        "vllm:never_heard_of_total": ("board.json:9",),
    }
    assert set(names.buckets) == {"vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds"}
    assert names.bounds == {"vllm:e2e_request_latency_seconds": ("2.5",)}
    assert names.routes == {}


def test_recording_rules_probes_and_clients(tmp_path: Path) -> None:
    names = found(tmp_path, rules_yaml=RULES, pod_yaml=PROBE, client_py=CLIENT)
    assert names.metrics == {"vllm:num_requests_running": ("rules.yaml:3", "rules.yaml:4")}
    assert names.routes == {
        "/health": ("pod.yaml:3",),
        "/health_generate": ("client.py:1",),
        "/v1/models": ("client.py:2",),
        "/metrics": ("client.py:3",),
    }
    assert names.error_shapes == {"nested": ("client.py:4",)}
    assert names.files == 3


def test_bounds_belong_to_their_own_metric_in_a_minified_file(tmp_path: Path) -> None:
    names = found(tmp_path, board_json=DASHBOARD.replace("\n", " "))
    assert names.bounds == {"vllm:e2e_request_latency_seconds": ("2.5",)}
    assert names.metrics["vllm:num_requests_waiting"] == ("board.json:1",)


def test_what_has_nothing_of_an_engine_yields_nothing(tmp_path: Path) -> None:
    names = found(tmp_path, readme_md="See docs/health and src/metrics; time_to_first_token is a term.", data_json="{}")
    assert (names.metrics, names.routes, names.buckets, names.error_shapes) == ({}, {}, {}, {})


def test_binaries_and_large_files_are_left_out_and_said_so(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"vllm:num_requests_running\x00")
    with (tmp_path / "b.json").open("wb") as file:
        file.truncate(names_used.MOST_BYTES + 1)
    names = found(tmp_path)
    assert names.files == 0
    assert names.skipped == ("a.bin: not a text", "b.json: larger than 8 MiB")


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        find_names([tmp_path / "none"], surface("vllm"))


def test_what_is_no_regular_file_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "gone.yaml").symlink_to(tmp_path / "nowhere")
    pipe = "a pipe, a device or a socket, not a regular file"
    assert find_names([tmp_path], surface("vllm")).skipped == ("gone.yaml: a link to nothing", f"pipe.json: {pipe}")
    named = tmp_path / "pipe.json"
    assert find_names([named], surface("vllm")).skipped == (f"{named}: {pipe}",)
