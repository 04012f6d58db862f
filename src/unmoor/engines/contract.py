"""The engine contract: everything the flow may ask of an engine. All of it is data and pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from unmoor.core.plan import Setting

GGUF_FILE = "gguf/model.gguf"
HF_FOLDER = "hf"
"""Where each format stands in a model's folder, so that a command line is a pure function of that folder."""

ModelFormat = Literal["gguf", "hf"]

Settings = Mapping[str, Setting]
"""Neutral knob names to values; a knob left out keeps the engine's own default."""


Metric = Literal[
    "running",  # gauge: requests in a batch
    "waiting",  # gauge: requests that wait for one
    "kv_use",  # gauge: share of its KV blocks in use, 0-1
    "preemptions",  # counter: requests thrown out of the batch for want of memory
    "prefix_hits",  # counter: prompt tokens found in the prefix cache
    "prefix_queries",  # counter: prompt tokens looked for there
    "prompt_tokens",  # counter
    "generated_tokens",  # counter
]
"""What is read of an engine while it serves, under names that are the same for all."""

OFFLINE: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
"""Offline and silent: an engine that loads a Hugging Face folder reaches for no hub and tells nobody that it runs."""


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that may be tuned, under a name that is the same for every engine that has it.

    `try_values` are worth trying on a small machine, the most telling first; `trades` says in words what it trades.
    `bears_on` names the property of traffic that makes the knob matter ("prefix_overlap", "concurrency", "prefill").
    """

    name: str
    flag: str
    default: Setting | None
    try_values: tuple[Setting, ...]
    trades: str
    bears_on: Literal["prefix_overlap", "concurrency", "prefill"]


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """An exact command line, what is added to its environment, and files it reads from the folder it is started in."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    files: Mapping[str, str] = {}


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine is started with. `python` is the interpreter of the engine's own environment.

    `model_dir` is a folder from `launch.models` that holds every format of one model; `context_tokens` bounds
    prompt and answer together. `kv_cache_gib` is the memory for keys and values, the same for every engine compared.
    """

    python: str
    model_dir: str
    served_name: str
    host: str
    port: int
    threads: int
    context_tokens: int
    kv_cache_gib: int = 1


class InstallSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine gets into an environment of its own, and what is told before anything is installed.

    `remove_after` names packages that break the environment once installed. `needs_cpu_torch` asks for a CPU build
    of torch first. `third_party` marks a build that the engine's own project does not publish. `exact` brings the
    requirements alone, and nothing that they say they need. `imports` is what must load; where `distribution` is given,
    its version is told, which need not load as a whole.
    """

    requirements: tuple[str, ...]
    publisher: str
    licence: str
    size_mb: int
    third_party: bool = False
    needs_cpu_torch: bool = False
    remove_after: tuple[str, ...] = ()
    imports: str = ""
    distribution: str = ""
    exact: bool = False


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's words turned into ours: what happened, the line that says so, and what to do."""

    message: str
    seen: str
    hint: str


class SchedulerModel(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine forms its batches, as the prediction simulates it.

    `policy`: "mixed" puts prefill chunks and decodes in one iteration; "prefill_first" runs waiting prefills alone and
    decodes when none waits. `reserve_output` admits a request only when its whole answer fits the KV pool
    (guaranteed no eviction). Sources stand with each engine.
    """

    policy: Literal["mixed", "prefill_first"]
    max_running: int
    max_batch_tokens: int
    kv_block_tokens: int
    chunked_prefill: bool = True
    prefix_caching: bool = True
    reserve_output: bool = False


class Engine(Protocol):
    """What every file in this room provides, under these names, at module level of its `ENGINE` object."""

    @property
    def name(self) -> str:
        """The name in plans and on the command line."""

    @property
    def title(self) -> str:
        """The name as its project writes it."""

    @property
    def known_version(self) -> str:
        """The version that this file was written against."""

    @property
    def tables_name(self) -> str | None:
        """Its name in the kernel tables; None when prediction knows nothing of it."""

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """What may be tuned."""

    @property
    def scrape(self) -> Mapping[Metric, str]:
        """Our metric name to its Prometheus name; absent where the engine has none."""

    @property
    def metrics_path(self) -> str:
        """Where its metrics are, in the Prometheus text format."""

    @property
    def cache_reset_path(self) -> str | None:
        """What a POST to which empties its prefix cache; None where it has no such thing."""

    @property
    def cache_reset_hint(self) -> str:
        """What it has to be started with for that, in words; empty for nothing."""

    @property
    def install(self) -> InstallSpec | None:
        """How to install it here; None where it cannot run on this machine's kind (`absent_reason` says why)."""

    @property
    def absent_reason(self) -> str:
        """Why it cannot be installed here; empty where it can."""

    @property
    def model_format(self) -> ModelFormat:
        """The format of a model's folder that it loads as launched here."""

    @property
    def cpu_weights(self) -> str:
        """The precision of the weights it computes with on a CPU, as launched here ("q4_1", "float32"); "" for none."""

    def command(self, spec: LaunchSpec, settings: Settings) -> Command:
        """The exact command line and environment. Raises UsageError for a knob the engine does not have."""

    def diagnose(self, log_tail: str) -> Diagnosis | None:
        """Its last words as our diagnosis; None when nothing in them is known."""

    def scheduler(self, settings: Settings) -> SchedulerModel:
        """The scheduler it would run with under `settings`, on a data-centre GPU."""
