from __future__ import annotations

import hashlib
import importlib
import importlib.resources
import importlib.util
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest

from unmoor.choose.prediction.coverage import LIVE_DEVICES, known_devices
from unmoor.choose.prediction.kernel_tables import KernelTable, NoTable, find_table, shipped_manifest
from unmoor.choose.prediction.live_tables import VERSION, check_installed, live_tables
from unmoor.core.errors import UsageError
from unmoor.core.hardware import TENSOR_PARALLEL_SIZES

TABLES = importlib.resources.files("unmoor.choose.prediction") / "tables"
DOCS = Path(__file__).parent.parent.parent / "docs"
MODEL = "nvidia/Llama-3.1-70B-Instruct-FP8"
LIVE = importlib.util.find_spec("aiconfigurator_core") is not None


def test_the_shipped_file_is_the_one_its_manifest_names() -> None:
    manifest = shipped_manifest()
    content = (TABLES / manifest.file).read_bytes()
    assert hashlib.sha256(content).hexdigest() == manifest.file_sha256
    assert len(content) < 2_000_000


def test_the_manifest_carries_origin_licence_and_the_word_modified() -> None:
    manifest = shipped_manifest()
    assert (manifest.origin, manifest.origin_version) == ("aiconfigurator-core", VERSION)
    assert manifest.licence == "Apache-2.0"
    assert "modified" in manifest.modified
    assert "NVIDIA" in manifest.copyright
    assert len(manifest.origin_sha256) == 64


def test_interpolation_is_within_what_was_aimed_at() -> None:
    manifest = shipped_manifest()
    assert manifest.error_median < 0.01
    assert manifest.error_p95 < 0.04
    assert all(row.error_p95 < 0.04 for row in manifest.tables)


def test_every_row_of_the_manifest_loads_and_grows_with_work() -> None:
    for row in shipped_manifest().tables:
        table = find_table(MODEL, "fp8", row.device, row.tables_name, row.tp)
        assert isinstance(table, KernelTable)
        assert table.kv_tokens == row.kv_tokens
        assert 0.001 < table.step_s(0, 0, 0, 1, 1000) < table.step_s(0, 0, 0, 256, 256 * 8000)
        assert table.step_s(1, 512, 0, 0, 0) < table.step_s(1, 8192, 0, 0, 0) < table.step_s(1, 8192, 100_000, 0, 0)
        assert table.step_s(1, 512, 0, 0, 0) < table.step_s(1, 512, 0, 64, 64 * 4000)


def reason(model: str, weights: str, device: str, tables_name: str, tp: int) -> str:
    found = find_table(model, weights, device, tables_name, tp)
    assert isinstance(found, NoTable)
    return found.code


def test_a_model_is_found_by_any_of_its_names_and_no_other_is() -> None:
    assert isinstance(find_table("meta-llama/Llama-3.1-70B-Instruct", "FP8", "h100_sxm", "vllm", 4), KernelTable)
    assert reason("meta-llama/Llama-3.1-8B-Instruct", "fp8", "h100_sxm", "vllm", 4) == "no_kernel_table"
    assert reason("meta-llama/Llama-3.1-70B-Instruct", "bf16", "h100_sxm", "vllm", 4) == "no_kernel_table"
    assert reason(MODEL, "fp8", "mi300x", "vllm", 4) == "no_kernel_table"


def test_no_room_for_a_kv_pool_is_told_from_no_table() -> None:
    assert reason(MODEL, "fp8", "h100_sxm", "vllm", 1) == "does_not_fit", "70 GB of weights leave no room"
    assert reason(MODEL, "bf16", "h100_sxm", "vllm", 1) == "does_not_fit", "141 GB of weights on 86 GB"
    assert reason(MODEL, "bf16", "h200_sxm", "vllm", 1) == "no_kernel_table", "they would go in, with what room unsaid"
    assert reason(MODEL, "odd", "h100_sxm", "vllm", 1) == "no_kernel_table", "a format whose size is not known"


def test_every_size_of_every_device_and_engine_is_a_table_or_known_to_have_no_room() -> None:
    manifest = shipped_manifest()
    there = {(r.device, r.tables_name, r.tp) for r in manifest.tables}
    full = {(r.device, r.tables_name, r.tp) for r in manifest.no_room}
    assert not there & full
    assert there | full == {
        (device, name, tp)
        for device in manifest.device_bytes
        for name in ("vllm", "sglang", "trtllm")
        for tp in TENSOR_PARALLEL_SIZES
    }


def test_known_devices_are_those_with_tables_and_this_machine() -> None:
    devices = known_devices()
    assert {"cpu", "h100_sxm", "h200_sxm", "b200_sxm", "l40s"} <= set(devices)
    assert "H100" not in devices
    assert "mi300x" not in devices
    assert list(devices) == sorted(set(devices))


def test_an_empty_iteration_takes_no_time() -> None:
    table = find_table(MODEL, "fp8", "h100_sxm", "vllm", 4)
    assert isinstance(table, KernelTable)
    assert table.step_s(0, 0, 0, 0, 0) == 0.0


@pytest.mark.skipif(LIVE, reason="aiconfigurator-core is installed")
def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    with pytest.raises(UsageError, match=r"unmoor\[predict\]"):
        check_installed()
    with pytest.raises(UsageError, match=r"unmoor\[predict\]"):
        live_tables("Qwen/Qwen3-32B", "bf16", "h100_sxm", "vllm", 2)


def test_live_tables_give_the_shipped_table_where_there_is_one() -> None:
    assert live_tables(MODEL, "fp8", "h100_sxm", "vllm", 4) is find_table(MODEL, "fp8", "h100_sxm", "vllm", 4)


@pytest.mark.skipif(not LIVE, reason="aiconfigurator-core is not installed")
def test_a_sample_of_the_shipped_table_agrees_with_the_live_model() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    live = importlib.import_module("unmoor.choose.prediction.live_tables").LiveTable(MODEL, "h100_sxm", "vllm", 4)
    table = find_table(MODEL, "fp8", "h100_sxm", "vllm", 4)
    assert isinstance(table, KernelTable)
    assert table.kv_tokens == live.kv_tokens
    rng = random.Random(7)  # noqa: S311 - shapes, not secrets
    errors = []
    for _ in range(100):
        shape = (1, rng.randint(16, 8192), rng.randint(0, 30_000), n := rng.randint(1, 256), n * rng.randint(64, 9000))
        errors.append(abs(table.step_s(*shape) / live.step_s(*shape) - 1))
    assert np.median(errors) < 0.01
    assert np.quantile(errors, 0.95) < 0.04


@pytest.mark.skipif(not LIVE, reason="aiconfigurator-core is not installed")
@pytest.mark.parametrize(
    ("model", "weights", "device", "tp", "code"),
    [
        ("Qwen/Qwen3-32B", "bf16", "h100_sxm", 2, None),
        ("qwen/qwen3-32b", "BF16", "h100_sxm", 2, None),
        ("Qwen/Qwen3-32B", "fp8", "h100_sxm", 2, "weights_differ"),
        ("Qwen/Qwen3-32B-FP8", "fp8", "h100_sxm", 2, None),
        ("Qwen/Qwen3-32B-FP8", "bf16", "h100_sxm", 2, "weights_differ"),
        ("moonshotai/Kimi-K2.5", "int4", "h200_sxm", 8, "weights_differ"),
        ("meta-llama/Meta-Llama-3.1-405B", "bf16", "h100_sxm", 1, "does_not_fit"),
        ("Qwen/Qwen3-32B", "bf16", "mi300x", 2, "no_kernel_table"),
        ("nobody/nothing", "bf16", "h100_sxm", 2, "no_kernel_table"),
    ],
)
def test_live_tables_are_of_the_weights_asked_for_or_there_are_none(
    model: str, weights: str, device: str, tp: int, code: str | None
) -> None:
    found = live_tables(model, weights, device, "vllm", tp)
    assert (found.code if isinstance(found, NoTable) else None) == code
    assert not isinstance(found, NoTable) or found.extra_asked or code == "does_not_fit"


@pytest.mark.skipif(not LIVE, reason="aiconfigurator-core is not installed")
def test_the_devices_we_name_are_those_of_the_extra() -> None:
    systems = importlib.resources.files("aiconfigurator_core") / "systems"
    found = [path.name.removesuffix(".yaml") for path in systems.iterdir() if path.name.endswith(".yaml")]
    assert set(LIVE_DEVICES) <= set(found)
    assert all((systems / f"{device}.yaml").read_text().count("mem_capacity") for device in LIVE_DEVICES)


def test_the_reference_names_every_device_and_every_model_with_tables() -> None:
    page = (DOCS / "reference" / "plan.md").read_text()
    assert [name for name in (*known_devices(), *shipped_manifest().aliases) if name not in page] == []


def test_every_caveat_of_a_prediction_has_its_line_on_the_page() -> None:
    room = importlib.resources.files("unmoor.choose.prediction")
    sources = [path.read_text() for path in room.iterdir() if path.name.endswith(".py")]
    codes = {code for text in sources for code in re.findall(r'(?:code=|_nothing\()\s*"(\w+)"', text)}
    page = (DOCS / "explain" / "prediction.md").read_text()
    assert {"does_not_fit", "traffic_repeated", "no_arrivals"} <= codes
    assert [code for code in sorted(codes) if f"`{code}`" not in page] == []


@pytest.mark.skipif(not LIVE, reason="aiconfigurator-core is not installed")
def test_the_models_named_on_the_page_are_bundled_at_those_weights() -> None:
    page = (DOCS / "explain" / "prediction.md").read_text().partition("## Other models")[2]
    groups = re.findall(r"^- `(\w+)`: (.*?)\.$", page, flags=re.MULTILINE | re.DOTALL)
    assert [weights for weights, _ in groups] == ["bf16", "fp8", "nvfp4", "mxfp4"]
    for weights, names in groups:
        for model in re.findall(r"`([^`]+)`", names):
            found = live_tables(model, weights, "b200_sxm", "vllm", 8)
            assert not isinstance(found, NoTable) or found.code != "weights_differ", model
