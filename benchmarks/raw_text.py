"""From raw text to a whole log, without a tokenizer, beside the physical floor: the same bytes read and hashed once.

Makes logs of OpenAI-format chats, reads them as `unmoor profile` does, and sets the CPU against reading the same bytes
once, in chunks of 256 KiB into one buffer, and hashing them once: with the hash of `unmoor.traffic.text.pieces` alone
(pieces of 64 bytes, each word mixed as splitmix64 does, summed under a key), with SHA-256 alone, and with both, which
is what reading a log computes. One process, one core; the ways take turns, five times. With a model's folder, it also
reads a tenth of the first log by that tokenizer, and says what bytes get wrong.
Run: python benchmarks/raw_text.py [MB] [FOLDER]
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from unmoor.cli.log_cutter import cutter_for
from unmoor.cli.plan_files import open_traffic
from unmoor.traffic.reuse.curve import ideal
from unmoor.traffic.text.pieces import BytesCutter
from unmoor.traffic.words import WORDS

_CHUNK = 256 * 1024  # the fastest of 16 KiB to 4 MiB
_TIMES = 5
_MOST_TURNS = 6
_AGENTS = 20
_AGENT_MESSAGES = 60
_KEY = b"key"

Messages = list[dict[str, str]]


def _words(rng: random.Random, fewest: int, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(fewest, most)))


def _chats(rng: random.Random) -> Iterator[Messages]:
    """Five system prompts of 2,000 words; chats that grow by up to 700 words a turn, each a request for every turn."""
    shared = [_words(rng, 2000, 2000) for _ in range(5)]
    while True:
        said = [{"role": "system", "content": rng.choice(shared)}]
        for _ in range(rng.randint(1, _MOST_TURNS)):
            said.append({"role": "user", "content": _words(rng, 20, 500)})
            yield said
            said.append({"role": "assistant", "content": _words(rng, 50, 200)})


def _single_turns(rng: random.Random) -> Iterator[Messages]:
    """One system prompt of 2,000 words, and a question of up to 500."""
    shared = _words(rng, 2000, 2000)
    while True:
        yield [{"role": "system", "content": shared}, {"role": "user", "content": _words(rng, 20, 500)}]


def _distinct(rng: random.Random) -> Iterator[Messages]:
    """Chats as long as the first, of which no two begin alike."""
    while True:
        turns = rng.randint(1, _MOST_TURNS)
        said = [{"role": "system", "content": _words(rng, 2000, 2000)}]
        for turn in range(turns):
            said.append({"role": "user", "content": _words(rng, 20, 500)})
            if turn < turns - 1:
                said.append({"role": "assistant", "content": _words(rng, 50, 200)})
        yield said


def _agents(rng: random.Random) -> Iterator[Messages]:
    """Twenty agents at a time with one system prompt, of up to thirty turns; tools answer up to 1,000 words."""
    shared, live = _words(rng, 2000, 2000), list[Messages]()
    while True:
        while len(live) < _AGENTS:
            live.append([{"role": "system", "content": shared}, {"role": "user", "content": _words(rng, 20, 500)}])
        said = rng.choice(live)
        yield said
        said.append({"role": "assistant", "content": _words(rng, 20, 200)})
        said.append({"role": "user", "content": _words(rng, 100, 1000)})
        if len(said) > _AGENT_MESSAGES:
            live.remove(said)


LOGS: dict[str, Callable[[random.Random], Iterator[Messages]]] = {
    "chats of several turns, five system prompts": _chats,
    "chats of one turn, one system prompt": _single_turns,
    "chats of which no two begin alike": _distinct,
    "agents of up to thirty turns, one system prompt": _agents,
}


def made(path: Path, size: int, chats: Iterator[Messages]) -> int:
    """Writes a log of about `size` bytes; how many requests it has."""
    with path.open("w") as file:
        for number, said in enumerate(chats):
            row = {"timestamp": number * 0.5, "request": {"model": "m", "messages": said}}
            file.write(json.dumps(row | {"response": {"usage": {"completion_tokens": 100}}}) + "\n")
            if file.tell() >= size:
                break
    return number + 1


def floor_s(path: Path, *, pieces: bool, sha256: bool) -> float:
    """CPU seconds to read and hash the bytes once."""
    cutter, digest, buffer = BytesCutter(_KEY), hashlib.sha256(), memoryview(bytearray(_CHUNK))
    start = time.process_time()
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            if pieces:
                cutter.cut_bytes([buffer[:count]])
            if sha256:
                digest.update(buffer[:count])
    return time.process_time() - start


def ours_s(path: Path) -> float:
    """CPU seconds to read the log into columns and the tree of its prompts."""
    start = time.process_time()
    open_traffic(path, cutter=BytesCutter(_KEY))
    return time.process_time() - start


WAYS: dict[str, Callable[[Path], float]] = {
    "read and piece-hashed once": lambda path: floor_s(path, pieces=True, sha256=False),
    "read and hashed by SHA-256 once": lambda path: floor_s(path, pieces=False, sha256=True),
    "read and hashed once by each": lambda path: floor_s(path, pieces=True, sha256=True),
    "the log in columns, and the tree of its prompts": ours_s,
}


def print_speed(path: Path, requests: int, what: str) -> None:
    """What each way costs, and how many times that the whole path is: the median of the rounds, and their range."""
    mb = path.stat().st_size / 1e6
    rounds = [{name: way(path) for name, way in WAYS.items()} for _ in range(_TIMES)]
    print(f"{what}: {mb:.0f} MB, {mb * 1e3 / requests:.1f} KB a request")
    for name in WAYS:
        cpu_s = statistics.median(one[name] for one in rounds)
        times = sorted(list(one.values())[-1] / one[name] for one in rounds)
        told = f"{statistics.median(times):.2f} times ({times[0]:.2f} to {times[-1]:.2f})"
        print(f"{name:<48} {cpu_s:6.3f} {mb / cpu_s:6.0f}  {told}")
    print(f"peak memory so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def print_error_of_bytes(path: Path, folder: Path) -> None:
    """One log by bytes and by tokens."""
    print(f"{path.stat().st_size / 1e6:.0f} MB of such chats, by bytes and by tokens")
    for by, tokenizer in (("bytes", None), ("tokens", folder)):
        cutter, start = cutter_for(tokenizer), time.process_time()
        traffic = open_traffic(path, cutter=cutter)
        cpu_s = time.process_time() - start
        share = ideal(traffic).tokens or 0.0
        print(
            f"by {by:<7} {len(traffic):,} requests {int(traffic.input_tokens.sum()):,} tokens  "
            f"{share:8.4%} shared  CPU {cpu_s:.2f} s"
        )


def main() -> None:
    """Prints the tables."""
    size = int(sys.argv[1]) * 10**6 if len(sys.argv) > 1 else 200 * 10**6
    print(f"CPU in s, MB/s, and ours over it: median (least to most) of {_TIMES}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        for what, chats in LOGS.items():
            print_speed(path, made(path, size, chats(random.Random(1))), what)  # noqa: S311 - no secret
        if len(sys.argv) > 2:  # noqa: PLR2004 - the second argument
            made(path, size // 10, _chats(random.Random(1)))  # noqa: S311 - no secret
            print_error_of_bytes(path, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
