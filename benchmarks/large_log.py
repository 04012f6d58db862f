"""Writes an endless-looking gateway's log to standard output, for `unmoor profile -` to read: what a large log costs.

    python benchmarks/large_log.py 510000 | /usr/bin/time -v unmoor profile -
    python benchmarks/large_log.py 2000000 short | /usr/bin/time -v unmoor profile -
    python benchmarks/large_log.py 2000000 named | /usr/bin/time -v unmoor profile -

By default chats of up to seven turns behind one of eight system prompts of about 3,000 tokens, of invented words, three
arrivals a second; 20 KB a request, so that 510,000 are 10 GB. `short` and `named` are what costs most memory: questions
of three words behind one of 50 system prompts of 160 bytes, 380 bytes a request, no two prompts equal; `named` gives
three requests in a row a session of their own, and each a user of its own. The same requests on every run.
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


def short_log(requests: int, *, named: bool) -> Iterator[dict[str, Any]]:
    """The lines of a log of short requests."""
    draw = random.Random(1)  # noqa: S311 - an invented log, not a secret
    words = [f"word{number}" for number in range(2000)]
    systems = ["You help with " + " ".join(draw.choices(words, k=16)) for _ in range(50)]
    at = 1.79e9
    for number in range(requests):
        at += draw.expovariate(300)
        question = " ".join(draw.choices(words, k=3))
        messages = [{"role": "system", "content": systems[int(draw.random() ** 2 * 50)]}]
        messages.append({"role": "user", "content": question})
        request: dict[str, Any] = {"model": "m", "messages": messages}
        names = {}
        if named:
            request["user"] = f"u{draw.getrandbits(40):010x}"
            names["session_id"] = f"sess-{number // 3:012d}-{number // 3 * 2654435761 % 2**32:08x}"
        usage = {"prompt_tokens": 30 + len(question) // 4, "completion_tokens": draw.randint(1, 40)}
        yield {"timestamp": round(at, 3), **names, "request": request, "response": {"usage": usage}}


if __name__ == "__main__":
    count, kind = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""  # noqa: PLR2004 - the kind is optional
    for line in short_log(count, named=kind == "named") if kind else log(count):
        print(json.dumps(line))
