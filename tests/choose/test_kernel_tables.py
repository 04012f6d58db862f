from __future__ import annotations

import hashlib
import importlib
import importlib.resources
import importlib.util
import os
import random

import numpy as np
import pytest

from unmoor.choose.prediction.kernel_tables import find_table, shipped_manifest
from unmoor.choose.prediction.live_tables import VERSION, check_installed, live_tables
from unmoor.core.errors import UsageError

TABLES = importlib.resources.files("unmoor.choose.prediction") / "tables"
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
        assert table is not None
        assert table.kv_tokens == row.kv_tokens
        assert 0.001 < table.step_s(0, 0, 0, 1, 1000) < table.step_s(0, 0, 0, 256, 256 * 8000)
        assert table.step_s(1, 512, 0, 0, 0) < table.step_s(1, 8192, 0, 0, 0) < table.step_s(1, 8192, 100_000, 0, 0)
        assert table.step_s(1, 512, 0, 0, 0) < table.step_s(1, 512, 0, 64, 64 * 4000)


def test_a_model_is_found_by_any_of_its_names_and_no_other_is() -> None:
    assert find_table("meta-llama/Llama-3.1-70B-Instruct", "FP8", "h100_sxm", "vllm", 4) is not None
    assert find_table("meta-llama/Llama-3.1-70B-Instruct", "bf16", "h100_sxm", "vllm", 4) is None
    assert find_table("meta-llama/Llama-3.1-8B-Instruct", "fp8", "h100_sxm", "vllm", 4) is None
    assert find_table(MODEL, "fp8", "mi300x", "vllm", 4) is None
    assert find_table(MODEL, "fp8", "h100_sxm", "vllm", 1) is None, "70 GB of weights leave no room on one device"


def test_an_empty_iteration_takes_no_time() -> None:
    table = find_table(MODEL, "fp8", "h100_sxm", "vllm", 4)
    assert table is not None
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
    assert table is not None
    assert table.kv_tokens == live.kv_tokens
    rng = random.Random(7)  # noqa: S311 - shapes, not secrets
    errors = []
    for _ in range(100):
        shape = (1, rng.randint(16, 8192), rng.randint(0, 30_000), n := rng.randint(1, 256), n * rng.randint(64, 9000))
        errors.append(abs(table.step_s(*shape) / live.step_s(*shape) - 1))
    assert np.median(errors) < 0.01
    assert np.quantile(errors, 0.95) < 0.04
