from __future__ import annotations

import pytest

from unmoor.core.nearest import nearest

KNOWN = ("openai", "vllm-log", "mooncake", "tuning", "--tpot-ms", "--json", "tensorrt-llm")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("moncake", "mooncake"),
        ("vllm", "vllm-log"),
        ("tuned", "tuning"),
        ("tensorrt", "tensorrt-llm"),
        ("--jsn", "--json"),
        ("-json", "--json"),
        ("nope", None),
        ("--bogus", None),
        ("--", None),
        ("", None),
    ],
)
def test_a_name_is_guessed_only_where_one_is_alike(name: str, known: str | None) -> None:
    assert nearest(name, KNOWN) == known
