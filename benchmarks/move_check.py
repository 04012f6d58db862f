"""A move check of 100,000 requests with 300 distinct schemas, beside the floor: the same log decoded as JSON once.

Makes a gateway's log (seeded), and checks a move of it as a user does, in a process of its own: its CPU time with that
of the grammar libraries that it starts, and its peak memory. Then once more here, to say what the parts cost and how
often a library was asked to compile something. There is no other program that does this, so there is no peer.
Run: python benchmarks/move_check.py [REQUESTS] [SOURCE] [TARGET]; the libraries are asked where
`unmoor engines install schema-compilers` has put them, else the table answers.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from unmoor.cli.plan_files import open_traffic
from unmoor.engines.surface.load import surface
from unmoor.launch.schema_compilers import Compilers, ask_compilers
from unmoor.leave.check import check_move
from unmoor.leave.checks.registry import kinds
from unmoor.leave.gather import Brought, case_of
from unmoor.leave.reading.read import read_uses
from unmoor.leave.schemas import ask
from unmoor.report.move_text import render
from unmoor.traffic.words import WORDS

SCHEMAS = 300
_KEYWORDS: Sequence[Mapping[str, Any]] = (
    {"type": "string"},
    {"type": "string", "pattern": "^[a-z]+$"},
    {"type": "string", "minLength": 2, "maxLength": 40},
    {"type": "string", "format": "date"},
    {"type": "integer", "minimum": 0, "maximum": 100},
    {"type": "number", "minimum": 0},
    {"type": "boolean"},
    {"enum": ["low", "middle", "high"]},
    {"type": "array", "items": {"type": "string"}, "maxItems": 5},
    {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
    {"type": "integer", "multipleOf": 5},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
)
_SETTINGS: Sequence[Mapping[str, Any]] = (
    {"temperature": 0.2, "top_p": 0.9},
    {"temperature": 0.7, "top_k": -1, "seed": 7},
    {"stop": ["\n\n"], "frequency_penalty": 0.2},
    {"stream": True, "stream_options": {"include_usage": True}},
    {"n": 2, "logprobs": True, "top_logprobs": 5},
    {"priority": 3, "guided_regex": "[0-9]+"},
)


def _schema(rng: random.Random, depth: int = 2) -> dict[str, Any]:
    """An object of three to eight properties, some of them objects again."""
    fields: dict[str, Any] = {}
    for name in rng.sample(WORDS, rng.randint(3, 8)):
        fields[name] = _schema(rng, depth - 1) if depth and not rng.randrange(4) else dict(rng.choice(_KEYWORDS))
    return {"type": "object", "properties": fields, "required": sorted(fields), "additionalProperties": False}


def write_log(out: Path, requests: int, seed: int = 20261201) -> None:
    """A log of chats of about 150 words, nine in ten with one of the schemas, each with its answer."""
    rng = random.Random(seed)  # noqa: S311 - an invented log
    schemas = [_schema(rng) for _ in range(SCHEMAS)]
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(40, 260))) for _ in range(2000)]
    with out.open("w") as lines:
        for number in range(requests):
            messages = [{"role": "system", "content": texts[0]}, {"role": "user", "content": rng.choice(texts)}]
            body = {"model": "m", "messages": messages, "max_tokens": rng.randint(16, 900), **rng.choice(_SETTINGS)}
            if rng.randrange(10):
                schema = schemas[number] if number < SCHEMAS else rng.choice(schemas)
                named = {"name": "record", "strict": True, "schema": schema}
                body["response_format"] = {"type": "json_schema", "json_schema": named}
            message = {"role": "assistant", "content": rng.choice(texts)}
            usage = {"prompt_tokens": rng.randint(50, 900), "completion_tokens": rng.randint(5, 300)}
            answer = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
            lines.write(json.dumps({"timestamp": 1796029200 + number / 20, "request": body, "response": answer}) + "\n")


def _cpu_s() -> float:
    """CPU of this process and of those that it has waited for, in seconds."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def _in_its_own_process(argv: Sequence[str]) -> tuple[float, float, str]:
    """CPU in s, peak memory in MiB and standard output of a program, by the process that starts it and nothing else."""
    code = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], capture_output=True, text=True); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024); print(done.stdout, end='')"
    )
    done = subprocess.run(  # noqa: S603 - its own arguments
        [sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True
    )
    first, _, rest = done.stdout.partition("\n")
    cpu_s, peak_mib = map(float, first.split())
    return cpu_s, peak_mib, rest


_FLOOR = """
import msgspec, sys
decode = msgspec.json.Decoder(dict).decode
print(sum(len(decode(line)) > 0 for line in open(sys.argv[1], "rb")))
"""


class _Counted:
    """Passes questions on to the libraries, and counts them."""

    def __init__(self, asked: Callable[[Compilers, Sequence[dict[str, Any]]], dict[str, dict[str, Any]]]) -> None:
        self._ask = asked
        self.questions: Counter[tuple[str, str, str]] = Counter()

    def __call__(self, where: Compilers, lines: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        self.questions.update((line["library"], line["kind"], line["content"]) for line in lines)
        return self._ask(where, lines)


def _parts(log: Path, source: str, target: str) -> Iterator[tuple[str, float]]:
    """What each part of a check costs, in s of CPU, the libraries' with it."""
    at = _cpu_s()
    uses, _ = read_uses(lambda cutter, watch: open_traffic(log, format_name=None, cutter=cutter, watch=watch))
    yield "reading the log", _cpu_s() - at
    at = _cpu_s()
    case = case_of(surface(source), surface(target), uses, Brought(), say=lambda line: print(f"  {line}"))
    yield "asking about its constraints", _cpu_s() - at
    at = _cpu_s()
    report = check_move(case)
    yield "all checks", _cpu_s() - at
    at = _cpu_s()
    render(report, kinds())
    yield "the report", _cpu_s() - at
    print(f"  {len(uses.constraints)} distinct constraints, {len(report.findings)} findings")


def main(requests: int, source: str, target: str) -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "requests.jsonl"
        write_log(log, requests)
        print(f"{requests:,} requests, {log.stat().st_size / 1e6:.0f} MB, {source} to {target}")
        floor_s, floor_mib, _ = _in_its_own_process([sys.executable, "-c", _FLOOR, str(log)])
        print(f"decoded as JSON once      {floor_s:6.2f} s CPU  {floor_mib:6.0f} MiB peak")
        argv = [sys.executable, "-m", "unmoor.cli", "move", "check", "--from", source, "--to", target, "--json"]
        began = time.perf_counter()
        cpu_s, peak_mib, told = _in_its_own_process([*argv, "--traffic", str(log)])
        took_s = time.perf_counter() - began
        report = json.loads(told)
        print(f"unmoor move check         {cpu_s:6.2f} s CPU  {peak_mib:6.0f} MiB peak  {took_s:.1f} s on the clock")
        print(f"  {cpu_s / floor_s:.1f} times the floor, {cpu_s / requests * 1e6:.0f} us a request")
        print(f"  {len(report['features'])} features; lost in {report['lost_requests']:,} requests")
        counted = _Counted(ask_compilers)
        vars(ask)["ask_compilers"] = counted  # what asks looks its name up there
        for part, part_s in _parts(log, source, target):
            print(f"  {part:<30}{part_s:6.2f} s CPU")
        most = max(counted.questions.values(), default=0)
        by_library = Counter(library for library, _, _ in counted.questions)
        print(f"  compiled: {dict(by_library) or 'nothing, the table answered'}; the same one at most {most} times")


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else 100_000,
        sys.argv[2] if len(sys.argv) > 2 else "vllm",  # noqa: PLR2004 - the second argument
        sys.argv[3] if len(sys.argv) > 3 else "sglang",  # noqa: PLR2004 - the third
    )
