"""A table whose times are known by heart, an engine with any scheduler, and traffic from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping

from unmoor.choose.prediction.kernel_tables import TableOrigin
from unmoor.core.plan import Setting
from unmoor.core.traffic import Request, Segment, Workload
from unmoor.engines.contract import (
    Command,
    Diagnosis,
    InstallSpec,
    Knob,
    LaunchSpec,
    Metric,
    ModelFormat,
    SchedulerModel,
    Settings,
)

MIXED = SchedulerModel(policy="mixed", max_running=64, max_batch_tokens=2048, kv_block_tokens=16)
PREFILL_FIRST = SchedulerModel(policy="prefill_first", max_running=64, max_batch_tokens=2048, kv_block_tokens=1)
NEVER_EVICTS = SchedulerModel(
    policy="mixed", max_running=64, max_batch_tokens=2048, kv_block_tokens=32, reserve_output=True
)
SCHEDULERS = (MIXED, PREFILL_FIRST, NEVER_EVICTS)


class LinearTable:
    """5 ms an iteration, 50 us a new token, 0.1 us a cached or KV token, 0.2 ms a decode; all times `factor`."""

    def __init__(self, kv_tokens: int = 200_000, factor: float = 1.0, model: str = "synthetic") -> None:
        self.kv_tokens = kv_tokens
        self.origin = TableOrigin(
            source="a synthetic table", model=model, tables_name="trtllm", tables_version="1.0.0", as_of="2026-11-30"
        )
        self._factor = factor
        self.most_kv = 0.0

    def step_s(
        self, prefills: int, new_tokens: int, cached_tokens: int, decodes: int, decode_kv_tokens: float
    ) -> float:
        assert prefills + decodes > 0, "an empty iteration is no iteration"
        assert new_tokens >= prefills
        self.most_kv = max(self.most_kv, decode_kv_tokens)
        cost = 5e-3 + 5e-5 * new_tokens + 1e-7 * (cached_tokens + decode_kv_tokens) + 2e-4 * decodes
        return self._factor * cost


class SyntheticEngine:
    """An engine that has no more than a scheduler and a name in the tables."""

    name = "synthetic"
    title = "Synthetic"
    knobs: tuple[Knob, ...] = ()
    scrape: Mapping[Metric, str] = {}
    metrics_path = "/metrics"
    cache_reset_path: str | None = None
    cache_reset_hint = ""
    install: InstallSpec | None = None
    absent_reason = "it does not exist"
    cpu_weights = ""
    model_format: ModelFormat = "hf"

    def __init__(self, scheduler: SchedulerModel = MIXED, tables_name: str | None = "trtllm") -> None:
        self._scheduler = scheduler
        self.tables_name = tables_name
        self.known_version = "1.2.1"

    def command(self, spec: LaunchSpec, settings: Settings) -> Command:
        raise NotImplementedError

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        raise NotImplementedError

    def scheduler(self, settings: Mapping[str, Setting]) -> SchedulerModel:
        del settings
        return self._scheduler


def traffic(
    n: int, rate_rps: float, *, prompt: int = 1000, answer: int = 60, shared: int = 0, groups: int = 2, seed: int = 0
) -> tuple[Request, ...]:
    rng = random.Random(seed)  # noqa: S311 - lengths, not secrets
    requests, now = [], 0.0
    for i in range(n):
        length = round(prompt * rng.uniform(0.9, 1.1))
        prefix = (Segment(f"shared-{i % groups}", shared),) if shared else ()
        requests.append(
            Request(
                arrival_s=now,
                input_tokens=length,
                output_tokens=round(answer * rng.uniform(0.5, 1.5)),
                segments=(*prefix, Segment(f"own-{i}", length - shared)),
            )
        )
        now += rng.expovariate(rate_rps)
    return tuple(requests)


def workload(requests: tuple[Request, ...]) -> Workload:
    return Workload(
        requests=requests, source="synthetic", format="synthetic", fingerprint="0" * 64, overlap_block_tokens=1
    )
