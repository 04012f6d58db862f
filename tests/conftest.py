"""What several rooms' tests need: public traces from where the user has put them, and a running embedded engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from unmoor.engines.contract import LaunchSpec
from unmoor.engines.registry import engine
from unmoor.launch.environments import installed
from unmoor.launch.models import find_model
from unmoor.launch.process import RunningEngine, free_port, launch

# A busy machine makes an example slow; only a wrong answer is a failure.
settings.register_profile("unmoor", deadline=None)
settings.load_profile("unmoor")

ROOT = Path(__file__).parent.parent
MODEL = "smollm2-135m-instruct"
EMBEDDED = "openvino"


def trace(name: str) -> Path:
    """A public trace from where the user has put it: $UNMOOR_TRACES, else shared/traces beside the repository."""
    folder = Path(os.environ.get("UNMOOR_TRACES") or ROOT.parent / "shared" / "traces")
    path = folder / name
    if not path.is_file():
        pytest.skip(f"the public trace {name} is not here: put it in a folder and name that in UNMOOR_TRACES")
    return path


@pytest.fixture(scope="session")
def mooncake_trace() -> Path:
    return trace("mooncake-conversation.jsonl")


@pytest.fixture(scope="session")
def azure_trace() -> Path:
    return trace("azure-2023-conv.csv")


@pytest.fixture(scope="session")
def embedded_spec() -> LaunchSpec:
    environment, model = installed(EMBEDDED), find_model(MODEL)
    if environment is None or model is None:
        pytest.skip(f"needs `unmoor engines install {EMBEDDED}` and `unmoor engines fetch {MODEL}`")
    return LaunchSpec(
        python=environment.python,
        model_dir=model.root,
        served_name="demo",
        host="127.0.0.1",
        port=free_port(),
        threads=1,
        context_tokens=1024,
    )


@pytest.fixture(scope="session")
def embedded(embedded_spec: LaunchSpec, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    log = tmp_path_factory.mktemp("embedded") / "engine.log"
    settings = {"prefix_caching": True}
    with launch(
        engine(EMBEDDED), embedded_spec, settings, log_path=log, ready_timeout_s=120, say=lambda _: None
    ) as running:
        yield running


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "engine.log"
