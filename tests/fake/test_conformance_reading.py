"""Result files, in the shapes that clients write them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from unmoor.core.errors import UsageError
from unmoor.fake.conformance.clients import client_from_template, known_clients
from unmoor.fake.conformance.reading import Figure, Reads, read_result

ROOT = Path(__file__).parents[2]

# The part of a result file that is read, in the shape that each client wrote on 2026-12-01: half of ten had failed.
WRITTEN: dict[str, list[object]] = {
    "unmoor": [
        {
            "requests": 10,
            "failed": 5,
            "output_tokens": 100,
            "metrics": {"ttft_s": {"mean": 0.4}, "tpot_s": {"mean": 0.02}, "e2e_s": {"mean": 0.78, "n": 5}},
        }
    ],
    "vllm-bench": [
        {
            "completed": 5,
            "failed": 5,
            "total_output_tokens": 100,
            "mean_ttft_ms": 400.0,
            "mean_tpot_ms": 20.0,
            "mean_e2el_ms": 780.0,
        }
    ],
    "sglang-bench": [
        {"an": "older run"},
        {
            "completed": 5,
            "errors": ["", "refused"] * 5,
            "total_output_tokens": 100,
            "mean_ttft_ms": 400.0,
            "mean_tpot_ms": 20.0,
            "mean_e2e_latency_ms": 780.0,
        },
    ],
    "guidellm": [
        {
            "benchmarks": [
                {
                    "metrics": {
                        "request_totals": {"successful": 5, "errored": 5, "incomplete": 0, "total": 10},
                        "time_to_first_token_ms": {"successful": {"mean": 400.0}},
                        "inter_token_latency_ms": {"successful": {"mean": 20.0}},
                        "request_latency": {"successful": {"mean": 0.78}},
                        "output_token_count": {"successful": {"mean": 20.0}},
                    }
                }
            ]
        }
    ],
    "aiperf": [
        {
            "request_count": {"avg": 5.0},
            "error_request_count": {"avg": 5.0},
            "time_to_first_token": {"avg": 400.0},
            "inter_token_latency": {"avg": 20.0},
            "request_latency": {"avg": 780.0},
            "output_sequence_length": {"avg": 20.0},
        }
    ],
    "inference-perf": [
        {
            "load_summary": {"count": 10},
            "failures": {"count": 5},
            "successes": {
                "output_tokens": {"mean": 20.0},
                "latency": {
                    "time_to_first_token": {"mean": 0.4},
                    "time_per_output_token": {"mean": 0.02},
                    "request_latency": {"mean": 0.78},
                },
            },
        }
    ],
}


@pytest.mark.parametrize("name", sorted(known_clients()))
def test_each_known_clients_file_says_the_same_of_the_same(name: str) -> None:
    said = read_result(known_clients()[name].reads, b"\n".join(msgspec.json.encode(one) for one in WRITTEN[name]))
    assert (said.requests, said.failed, said.output_tokens) == (10, 5, 20)
    assert (said.ttft_s, said.tpot_s, said.e2e_s) == pytest.approx((0.4, 0.02, 0.78))


def test_what_is_missing_or_no_number_is_none_and_never_zero() -> None:
    reads = Reads(
        ttft_s=Figure(path=("mean",)),
        tpot_s=Figure(path=("nan",)),
        e2e_s=Figure(path=("deep.1.x",)),
        failed=Figure(path=("text", "flag", "list")),
        output_tokens=Figure(path=("total",), per=("none_of_them",)),
    )
    content = b'{"nan": NaN, "deep": [{"x": 1}], "text": "5", "flag": true, "list": [1], "total": 5, "none_of_them": 0}'
    assert msgspec.structs.astuple(read_result(reads, content)) == (None,) * 6


def test_a_count_that_is_left_out_when_it_is_none_may_be_said_to_be() -> None:
    failed = Figure(path=("errors.avg",), absent=0)
    assert read_result(Reads(failed=failed), b"{}").failed == 0
    assert read_result(Reads(failed=failed), b'{"errors": {"avg": 3}}').failed == 3


@pytest.mark.parametrize("content", [b"", b"nothing", b"{", b"\xff\xfe"])
def test_a_file_that_is_not_json_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own and msgspec's are both
        read_result(Reads(), content)


@pytest.mark.parametrize(
    ("template", "reads", "where"),
    [
        ("bench {url} {nothing}", "unmoor", "--command"),
        ("bench {url", "unmoor", "--command"),
        ("bench 'open {url}", "unmoor", "--command"),
        ("bench {url.x}", "unmoor", "--command"),
        ("bench {} {url}", "unmoor", "--command"),
        ("bench", "unmoor", "--command"),
        ("", "unmoor", "--command"),
        ("bench {url}", "nobody", "--reads"),
        ("bench {url}", "not/there.toml", "--reads"),
    ],
)
def test_a_template_or_format_that_cannot_be_used_is_an_error_with_a_way_out(
    template: str, reads: str, where: str
) -> None:
    with pytest.raises(UsageError) as caught:
        client_from_template(template, reads)
    assert str(caught.value.where).startswith(where)
    assert caught.value.hint


def test_the_published_page_is_what_the_kept_results_say() -> None:
    program = "import build_conformance_page as made; print(made.page_of(made.RESULTS), end='')"
    made = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "scripts", capture_output=True, text=True, check=True
    )
    kept = (ROOT / "docs" / "conformance.md").read_text()
    assert kept == made.stdout, "run: python scripts/build_conformance_page.py"
