"""Turns a gateway's log of OpenAI chat requests into Unmoor traffic. It keeps no text: names are salted hashes.

    python examples/gateway-log/to_traffic.py LOG.jsonl > traffic.jsonl

One JSON a line: `timestamp` (seconds), `request` (the chat body), `response` with `usage`. Adapt `read_line` to your
gateway's names. Tools and each message are one segment, so overlap is counted by whole messages: a lower bound.
Per-message tokens are estimated (4 characters a token); the last message takes what is left of the server's own count.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

CHARACTERS_PER_TOKEN = 4


def read_line(line: str) -> tuple[float, dict[str, Any], dict[str, int]]:
    """When it came (seconds), the request's body, and the server's usage block."""
    row = json.loads(line)
    return float(row["timestamp"]), row["request"], row["response"]["usage"]


def segments(body: dict[str, Any], total: int, salt: bytes) -> list[tuple[str, int]]:
    """Named runs of tokens that sum to `total`; equal content has an equal name and length in every request."""
    parts = [body["tools"], *body["messages"]] if body.get("tools") else list(body["messages"])
    texts = [json.dumps(part, sort_keys=True) for part in parts]
    names = [hashlib.sha256(salt + text.encode()).hexdigest()[:16] for text in texts]
    lengths = [-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts[:-1]]
    found: list[tuple[str, int]] = []
    left = total
    for name, length in zip(names, lengths, strict=False):
        if length >= left:  # the estimate is too long: what is left is one segment of its own
            break
        found.append((name, length))
        left -= length
    return [*found, (names[len(found)], left)]


def traffic(lines: Iterable[str], salt: bytes) -> Iterator[str]:
    """Lines of Unmoor's format, header first."""
    rows = sorted((read_line(line) for line in lines if line.strip()), key=lambda row: row[0])
    yield json.dumps({"unmoor_traffic": 1, "overlap_block_tokens": 1})
    for at, body, usage in rows:
        yield json.dumps(
            {
                "arrival_s": at - rows[0][0],
                "input_tokens": usage["prompt_tokens"],
                "output_tokens": max(1, usage["completion_tokens"]),
                "segments": segments(body, usage["prompt_tokens"], salt),
            }
        )


if __name__ == "__main__":
    with Path(sys.argv[1]).open(encoding="utf-8") as log:
        sys.stdout.writelines(f"{line}\n" for line in traffic(log, secrets.token_bytes(16)))
