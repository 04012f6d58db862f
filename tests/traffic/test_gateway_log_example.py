from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from unmoor.traffic.readers import read_traffic
from unmoor.traffic.reuse import ideal

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
    traffic = read_traffic(made, where="made")
    assert traffic.arrival_s.tolist() == [0.0, 0.5, 1.0]
    assert traffic.input_tokens.tolist() == [390, 400, 3]
    system = json.dumps({"role": "user", "content": "be brief and kind " * 40})
    assert ideal(traffic).tokens == pytest.approx(-(-len(system) // 4) / 793)
