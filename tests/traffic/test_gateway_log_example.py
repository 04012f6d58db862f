from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unmoor.traffic.overlap import prefix_overlap
from unmoor.traffic.readers import read_workload

SCRIPT = Path(__file__).parent.parent.parent / "examples" / "gateway-log" / "to_traffic.py"


def logged(at: float, *messages: str, prompt_tokens: int) -> str:
    body = {"messages": [{"role": "user", "content": text} for text in messages]}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 7}
    return json.dumps({"timestamp": at, "request": body, "response": {"usage": usage}})


def test_a_gateway_log_becomes_traffic_without_its_text(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    system = "be brief and kind " * 40
    rows = [
        logged(100.5, system, "where is the secret kept", prompt_tokens=400),
        logged(100.0, system, "what is the time", prompt_tokens=390),
        logged(101.0, "short", prompt_tokens=3),
    ]
    log.write_text("\n".join(rows))
    made = subprocess.run([sys.executable, str(SCRIPT), str(log)], capture_output=True, check=True).stdout
    assert b"secret" not in made
    workload = read_workload(made, where="made")
    assert [request.arrival_s for request in workload.requests] == [0.0, 0.5, 1.0]
    assert [request.input_tokens for request in workload.requests] == [390, 400, 3]
    shared = workload.requests[0].segments[0].tokens
    assert workload.requests[1].segments[0] == workload.requests[0].segments[0]
    assert prefix_overlap(workload) == pytest.approx(shared / 793)
