"""Makes requests.jsonl.gz beside this file: ten minutes of a gateway's log, invented, the same bytes on every machine.

    python examples/gateway-log/make.py OUT.jsonl.gz

Three teams, each with a habit seen in real logs. `support` begins its system prompt with the time of day, so no two
requests share it. `coding` lists the same four tools in another order each time. `extract` asks for JSON by a schema
and has nothing wrong. One JSON a line: `timestamp`, `team`, `session_id`, `request` (the chat body) and `response`.
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from unmoor.traffic.words import WORDS

START = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


def prose(draw: random.Random, words: int) -> str:
    """Sentences of common words, about `words` of them."""
    out: list[str] = []
    while words > 0:
        size = min(words, draw.randint(6, 16))
        out.append(" ".join(draw.choice(WORDS) for _ in range(size)).capitalize() + ".")
        words -= size
    return " ".join(out)


def tool(draw: random.Random, name: str) -> dict[str, Any]:
    """A function as a chat request defines it."""
    fields = {word: {"type": "string", "description": prose(draw, 12)} for word in draw.sample(WORDS, 3)}
    parameters = {"type": "object", "properties": fields, "required": sorted(fields)}
    return {"type": "function", "function": {"name": name, "description": prose(draw, 30), "parameters": parameters}}


def log(seed: int = 20261130) -> list[dict[str, Any]]:
    """The log's lines in order of time."""
    draw = random.Random(seed)  # noqa: S311 - an invented log, not a secret
    support, coding, extract = prose(draw, 420), prose(draw, 300), prose(draw, 520)
    tools = [tool(draw, name) for name in ("read_file", "search_code", "run_tests", "write_file")]
    fields = {word: {"type": "string"} for word in draw.sample(WORDS, 5)}
    schema = {"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False}
    rows: list[dict[str, Any]] = []
    for number in range(60):
        at = START + timedelta(seconds=draw.uniform(0, 540))
        team = draw.choices(("support", "coding", "extract"), (3, 2, 2))[0]
        turns: list[dict[str, str]] = []
        for _ in range({"support": draw.randint(1, 4), "coding": draw.randint(2, 5), "extract": 1}[team]):
            turns.append({"role": "user", "content": prose(draw, draw.randint(15, 120))})
            body: dict[str, Any] = {"model": "llama-3.1-70b", "temperature": 0.2, "max_tokens": 512, "stream": True}
            if team == "support":
                stamp = f"It is {at:%Y-%m-%d %H:%M:%S}. "
                body["messages"] = [{"role": "system", "content": stamp + support}, *turns]
            elif team == "coding":
                body["messages"] = [{"role": "system", "content": coding}, *turns]
                body["tools"] = draw.sample(tools, len(tools))
            else:
                body["messages"] = [{"role": "system", "content": extract}, *turns]
                named = {"name": "record", "strict": True, "schema": schema}
                body["response_format"] = {"type": "json_schema", "json_schema": named}
                body["temperature"] = 0
            answer = prose(draw, draw.randint(20, 150))
            took_s = 0.3 + len(answer) / 250
            named_by = {
                "timestamp": at.isoformat(timespec="milliseconds"),
                "team": team,
                "session_id": f"session-{number}",
            }
            rows.append(named_by | {"duration_s": round(took_s, 3)} | exchange(body, answer))
            turns.append({"role": "assistant", "content": answer})
            at += timedelta(seconds=took_s + draw.uniform(5, 40))
    return sorted(rows, key=lambda line: line["timestamp"])


def exchange(body: dict[str, Any], answer: str) -> dict[str, Any]:
    """Request and response; token counts are those of a tokenizer with five characters a token."""
    text = "".join(message["content"] for message in body["messages"]) + json.dumps(body.get("tools", ""))
    usage = {"prompt_tokens": len(text) // 5, "completion_tokens": len(answer) // 5}
    message = {"role": "assistant", "content": answer}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return {"request": body, "response": {"choices": choices, "usage": usage}}


if __name__ == "__main__":
    lines = "".join(json.dumps(line) + "\n" for line in log())
    Path(sys.argv[1]).write_bytes(gzip.compress(lines.encode(), mtime=0))
