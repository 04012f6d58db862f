from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


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
