"""A benchmark client as one is written in an hour, with the mistakes that such clients have: one request at a time.

Its time to first token is that of the first `data:` line, HTTP 200 is a success, tokens are those of the usage block or
else those asked for, and TPOT of one token is 0. It writes means as JSON.
"""

from __future__ import annotations

import http.client
import json
import sys
from time import perf_counter
from urllib.parse import urlsplit


def ask(url: str, tokens: int) -> dict[str, float] | None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": "say something"}],
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    started = perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        return None
    ttft, last, counted = 0.0, started, tokens
    try:
        for line in answer:
            if line.startswith(b"data: {"):
                last = perf_counter()
                ttft = ttft or last - started
                usage = json.loads(line[6:]).get("usage")
                counted = usage["completion_tokens"] if usage else counted
    except OSError:
        return None
    finally:
        connection.close()
    tpot = (last - started - ttft) / (counted - 1) if counted > 1 else 0.0
    return {"ttft": ttft, "tpot": tpot, "e2e": last - started, "tokens": counted}


def main(url: str, requests: int, tokens: int, out: str) -> None:
    answers = [ask(url, tokens) for _ in range(requests)]
    good = [answer for answer in answers if answer is not None]
    means = {name: sum(answer[name] for answer in good) / len(good) for name in ("ttft", "tpot", "e2e", "tokens")}
    with open(out, "w") as file:  # noqa: PTH123 - a client of somebody else
        json.dump({"sent": requests, "bad": requests - len(good), "mean": means}, file)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
