"""From raw text to a whole log, without a tokenizer, beside the physical floor: the same bytes read and hashed once.

Makes a log of OpenAI-format requests, reads it as `unmoor profile` does, and sets the CPU against reading the same
bytes once in chunks of 256 KiB and hashing them once: with the piece hash of `unmoor.traffic.pieces` alone (pieces of
64 bytes, each word mixed as splitmix64 does, summed under a key), and with the SHA-256 that names the log as well,
which reading it does too. One process, one core, the best of five. Run: python benchmarks/raw_text.py [MB]
"""

from __future__ import annotations

import hashlib
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from unmoor.cli.plan_files import open_traffic
from unmoor.traffic.pieces import BytesCutter
from unmoor.traffic.words import WORDS

_CHUNK = 256 * 1024  # the fastest of 16 KiB to 1 MiB
_TIMES = 5


def made(path: Path, size: int) -> None:
    """A log of about `size` bytes: five system prompts of 3,000 words, and users' text of 100 to 1,500 words."""
    rng = random.Random(1)  # noqa: S311 - no secret
    shared = [" ".join(rng.choices(WORDS, k=3000)) for _ in range(5)]
    with path.open("w") as file:
        number = 0
        while file.tell() < size:
            text = " ".join(rng.choices(WORDS, k=rng.randint(100, 1500)))
            said = [{"role": "system", "content": rng.choice(shared)}, {"role": "user", "content": text}]
            row = {"timestamp": number * 0.5, "request": {"model": "m", "messages": said}}
            file.write(
                json.dumps(row | {"response": {"usage": {"prompt_tokens": 4000, "completion_tokens": 100}}}) + "\n"
            )
            number += 1


def floor_s(path: Path, *, named: bool) -> float:
    """CPU seconds to read and hash the bytes once."""
    cutter, digest, start = BytesCutter(b"key"), hashlib.sha256(), time.process_time()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            cutter.cut_bytes([chunk])
            if named:
                digest.update(chunk)
    return time.process_time() - start


def ours_s(path: Path) -> float:
    """CPU seconds to read the log into columns and the tree of its prompts."""
    start = time.process_time()
    open_traffic(path, cutter=BytesCutter(b"key"))
    return time.process_time() - start


def best(measure: Callable[[], float]) -> float:
    """The least of five."""
    return min(measure() for _ in range(_TIMES))


def main() -> None:
    """Prints the table."""
    size = int(sys.argv[1]) * 10**6 if len(sys.argv) > 1 else 80 * 10**6
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.jsonl"
        made(path, size)
        mb = path.stat().st_size / 1e6
        alone = best(lambda: floor_s(path, named=False))
        named = best(lambda: floor_s(path, named=True))
        ours = best(lambda: ours_s(path))
    print(f"{mb:.0f} MB of requests as JSON lines")
    for title, cpu_s in (
        ("read and piece-hashed once", alone),
        ("read, piece-hashed once and named by SHA-256", named),
        ("the log in columns, and the tree of its prompts", ours),
    ):
        print(f"{title:<48} {cpu_s:6.3f} s  {mb / cpu_s:6.0f} MB/s  {ours / cpu_s:.2f} times")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
