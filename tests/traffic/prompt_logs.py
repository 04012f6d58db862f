"""Logs of invented prompts, as the columns that a reader makes of them, for tests that need to know every token."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from unmoor.core.evidence import Caveat
from unmoor.traffic.log import UNKNOWN, Features, Grain, Names, Traffic
from unmoor.traffic.tree import TreeBuilder

Prompt = tuple[int, ...]

PROMPTS = st.lists(
    st.lists(st.integers(0, 1), min_size=1, max_size=40).map(tuple) | st.integers(1, 60).map(lambda n: (1,) * n),
    min_size=1,
    max_size=12,
)
"""Prompts of few different tokens, so that they share prefixes of every length."""


def traffic_of_prompts(prompts: Sequence[Prompt], *, gap_s: float = 0.5, **changes: object) -> Traffic:
    """One request a prompt, at equal gaps; every other name and length follows from its place."""
    builder, count = TreeBuilder(), len(prompts)
    node = [builder.add([hash(p[: i + 1]) & (2**64 - 1) for i in range(len(p))], range(1, len(p) + 1)) for p in prompts]
    columns: dict[str, object] = {
        "arrival_s": np.arange(count) * gap_s,
        "input_tokens": np.array([len(prompt) for prompt in prompts], dtype=np.int64),
        "output_tokens": np.arange(1, count + 1),
        "took_s": np.full(count, np.nan),
        "node": np.array(node, dtype=np.int32),
        "line": np.arange(1, count + 1),
        "session": names("session", [i % 3 for i in range(count)]),
        "tenant": names("tenant", [i % 2 for i in range(count)]),
        "adapter": names("adapter", [i % 2 - 1 for i in range(count)]),
        "schema": names("json_schema:", [i % 4 - 1 for i in range(count)]),
        "tree": builder.build(),
        "grain": Grain(by="tokens", tokens=1),
        "features": Features(),
        "source": "a test",
        "format": "made",
        "fingerprint": "0" * 64,
        "caveats": (Caveat(code="made", text="Made by a test."),),
        **changes,
    }
    return Traffic(**columns)  # type: ignore[arg-type] # a table of columns


def names(stem: str, codes: Sequence[int]) -> Names:
    """A column that names row i by the stem and its code; UNKNOWN codes have no name."""
    assert min(codes, default=UNKNOWN) >= UNKNOWN
    return Names(
        code=np.array(codes, dtype=np.int32), names=tuple(f"{stem}{code}" for code in range(max(codes, default=-1) + 1))
    )
