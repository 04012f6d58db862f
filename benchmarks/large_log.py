"""Writes an endless-looking gateway's log to standard output, for `unmoor profile -` to read: what a large log costs.

    python benchmarks/large_log.py 510000 | /usr/bin/time -v unmoor profile -

Chats of up to seven turns behind one of eight system prompts of about 3,000 tokens, of invented words, three arrivals a
second; 20 KB a request, so that 510,000 are 10 GB. The same requests on every run.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

from unmoor.traffic.words import WORDS

_LONGEST = 14
_GOES_ON = 0.6


def log(requests: int) -> Iterator[dict[str, Any]]:
    """The log's lines."""
    draw = random.Random(1)  # noqa: S311 - an invented log, not a secret
    sentences = [" ".join(draw.choices(WORDS, k=60)).capitalize() + ".\n" for _ in range(4000)]
    systems = ["".join(draw.choices(sentences, k=40)) for _ in range(8)]
    open_chats: list[list[dict[str, str]]] = []
    at = 1.79e9
    for _ in range(requests):
        at += draw.expovariate(3)
        if open_chats and draw.random() < _GOES_ON:
            messages = open_chats.pop(draw.randrange(len(open_chats)))
        else:
            messages = [{"role": "system", "content": draw.choice(systems)}]
        messages.append({"role": "user", "content": "".join(draw.choices(sentences, k=draw.randint(1, 12)))})
        answer = {"role": "assistant", "content": "".join(draw.choices(sentences, k=2))}
        size = sum(len(message["content"]) for message in messages)
        usage = {"prompt_tokens": size // 4, "completion_tokens": len(answer["content"]) // 4}
        request = {"model": "m", "messages": messages, "temperature": 0.2, "max_tokens": 400, "stream": True}
        yield {"timestamp": at, "request": request, "response": {"choices": [{"message": answer}], "usage": usage}}
        messages.append(answer)
        if len(messages) < _LONGEST:
            open_chats.append(messages)


if __name__ == "__main__":
    for line in log(int(sys.argv[1])):
        print(json.dumps(line))
