"""Traffic from a description, the same byte for byte on every machine, and its file format.

Draws are counter-based: the n-th draw of a named stream is a SHA-256 of seed, stream and n. numpy promises no stable
stream between its versions, and Python promises one for `random()` alone, not for what is built on it; a hash cannot
change. Streams are apart, so that changing, say, the spread of lengths moves no arrival. Arrivals are kept to whole
microseconds, so that a mathematics library's last digit does not show.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from itertools import accumulate, count
from typing import Any

import msgspec

from unmoor.core.plan import SyntheticTraffic
from unmoor.core.traffic import Request, Segment, Workload
from unmoor.traffic.readers.unmoor_jsonl import VERSION, Header

Draw = Callable[[], float]
"""The next number of a stream, uniform in (0, 1)."""


def synthesise(description: SyntheticTraffic) -> Workload:
    """The workload that `description` stands for; the first request arrives at 0.

    A prompt is one of `groups` shared prefixes, each as likely, then a part of its own. Lengths are uniform over the
    whole numbers within +-`spread` of their mean, narrowed on both sides alike where the shared prefix (or one token)
    would not fit, so that means hold. Gaps are gamma with mean 1/rate and coefficient of variation `burstiness`.
    """
    seed = description.seed
    gap, group = stream(seed, "gap"), stream(seed, "group")
    prompt, answer = stream(seed, "input"), stream(seed, "output")
    shared = description.shared_prefix_tokens
    input_half = _half_width(description.input_tokens, description.spread, least=shared + 1)
    output_half = _half_width(description.output_tokens, description.spread, least=1)
    gaps = (gamma(gap, description.burstiness) / description.rate_rps for _ in range(description.requests - 1))
    requests = tuple(
        _request(
            index,
            arrival_s=round(arrival_s, 6),
            group=int(group() * description.groups),
            shared=shared,
            lengths=(
                _whole(prompt, description.input_tokens, input_half),
                _whole(answer, description.output_tokens, output_half),
            ),
        )
        for index, arrival_s in enumerate(accumulate(gaps, initial=0.0))
    )
    return Workload(
        requests=requests,
        source="synthetic",
        format="synthetic",
        fingerprint=hashlib.sha256(msgspec.json.encode(description)).hexdigest(),
        overlap_block_tokens=1,
    )


def to_jsonl(workload: Workload, *, made_by: Mapping[str, Any] | None = None) -> bytes:
    """The workload in our own format: a header, then one request a line, ended by LF."""
    header = Header(
        unmoor_traffic=VERSION,
        overlap_block_tokens=workload.overlap_block_tokens,
        made_by=dict(made_by) if made_by is not None else None,
    )
    encoder = msgspec.json.Encoder()
    return b"".join(encoder.encode(line) + b"\n" for line in (header, *workload.requests))


def stream(seed: int, name: str) -> Draw:
    """A stream of uniform numbers in (0, 1), of its own for every seed and name."""
    counter = count()

    def draw() -> float:
        digest = hashlib.sha256(f"{seed}/{name}/{next(counter)}".encode()).digest()
        return ((int.from_bytes(digest[:8], "big") >> 11) + 0.5) / 2**53

    return draw


def gamma(draw: Draw, variation: float) -> float:
    """A gamma-distributed number with mean 1 and coefficient of variation `variation`.

    0 is 1 each time, 1 is the exponential distribution, by its inverse. Else Marsaglia and Tsang's method (A simple
    method for generating gamma variables, ACM TOMS 26, 2000), with their boost for shapes under 1.
    """
    if variation == 0:
        return 1.0
    if variation == 1:
        return -math.log(draw())
    shape = 1 / variation**2
    boost = 1.0
    if shape < 1:
        boost = draw() ** (1 / shape)
    d = (shape if shape >= 1 else shape + 1) - 1 / 3
    while True:
        normal = math.sqrt(-2 * math.log(draw())) * math.cos(2 * math.pi * draw())
        cube = (1 + normal / math.sqrt(9 * d)) ** 3
        if cube > 0 and math.log(draw()) < normal**2 / 2 + d - d * cube + d * math.log(cube):
            return boost * d * cube / shape


def _half_width(mean: int, spread: float, *, least: int) -> int:
    return max(0, min(math.floor(mean * spread), mean - least))


def _whole(draw: Draw, mean: int, half: int) -> int:
    return mean - half + int(draw() * (2 * half + 1))


def _request(index: int, *, arrival_s: float, group: int, shared: int, lengths: tuple[int, int]) -> Request:
    input_tokens, output_tokens = lengths
    parts = (Segment(f"shared-{group}", shared), Segment(f"own-{index}", input_tokens - shared))
    return Request(
        arrival_s=arrival_s,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        segments=tuple(part for part in parts if part.tokens > 0),
    )
