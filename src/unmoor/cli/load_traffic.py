"""What `unmoor load` sends: traffic described by options, or a log's, in the time that was asked for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from unmoor.cli.option_group import Decorator, given, option_group
from unmoor.cli.path_name import PATH_NAME
from unmoor.cli.positive_number import positive_number, zero_or_more
from unmoor.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unmoor.core.traffic import Request, Workload

_MOST_REQUESTS = 1_000_000
_MOST_TOKENS = 10_000_000
_REQUESTS = 100
_ENDLESS, _FEWEST_READY = 20_000, 200
_READY_TOKENS = 20_000_000
_LEAST_BURSTY, _MOST_BURSTY = 0.01, 100.0
_DEFAULTS: dict[str, float] = {"rate_rps": 1.0, "input_tokens": 200, "output_tokens": 32}


class TrafficOptions(NamedTuple):
    """What was asked for on the command line; None is a default."""

    traffic: Path | None
    format_name: str | None
    rate: float | None
    ramp_to: float | None
    burstiness: float | None
    requests: int | None
    input_tokens: int | None
    output_tokens: int | None
    shared_prefix_tokens: int | None
    prefix_groups: int | None


_COUNT = WholeNumber(1, _MOST_TOKENS)

traffic_options: Decorator = option_group(
    "traffic",
    TrafficOptions,
    [
        click.option(
            "--traffic", type=PATH_NAME, metavar="LOG", help="Replay this log, or a description (.toml), at its times."
        ),
        click.option("--format", "format_name", metavar="NAME", help="The log's format; its first line tells it."),
        click.option(
            "--rate",
            type=positive_number,
            metavar="RPS",
            help="Requests per second; a log's time is stretched. [1]",
        ),
        click.option(
            "--ramp-to", type=positive_number, metavar="RPS", help="From --rate evenly to this, over all of the load."
        ),
        click.option(
            "--burstiness",
            type=zero_or_more,
            metavar="CV",
            help="Of described gaps: 1 is Poisson, 0 constant. [1]",
        ),
        click.option(
            "--requests",
            type=WholeNumber(1, _MOST_REQUESTS),
            metavar="N",
            help="So many requests; of a log its first N. [100; of a log all]",
        ),
        click.option("--input-tokens", type=_COUNT, metavar="N", help="Mean prompt without --traffic. [200]"),
        click.option("--output-tokens", type=_COUNT, metavar="N", help="Mean answer without --traffic. [32]"),
        click.option(
            "--shared-prefix-tokens", type=_COUNT, metavar="N", help="So much of each prompt others begin with too. [0]"
        ),
        click.option("--prefix-groups", type=_COUNT, metavar="N", help="So many different shared prefixes. [1]"),
    ],
)


def workload_to_send(options: TrafficOptions, *, seed: int | None, duration_s: float | None, endless: bool) -> Workload:
    """The requests, each at its time. Raises UsageError for options that do not go together.

    Where `--requests` does not say how many: as many as are due within `duration_s`, or, `endless`, more than are
    likely to be needed.
    """
    from msgspec.structs import replace

    _check(options)
    if options.traffic is None:
        return _described(options, seed=seed, duration_s=duration_s, endless=endless)
    workload = _logged(options.traffic, options.format_name)
    chosen = workload.requests[: options.requests]
    if options.rate is not None:
        clock = _even_clock(chosen)
        chosen = _retimed(chosen, _ramp(clock, options.rate, options.ramp_to or options.rate, over_s=duration_s))
    return replace(workload, requests=chosen)


def _check(options: TrafficOptions) -> None:
    from unmoor.core.errors import UsageError

    bursty = options.burstiness
    if bursty is not None and bursty != 0 and not _LEAST_BURSTY <= bursty <= _MOST_BURSTY:
        raise UsageError(
            "no such variation of gaps",
            where="--burstiness",
            seen=f"{bursty:g}",
            expected=f"0, or a number from {_LEAST_BURSTY:g} to {_MOST_BURSTY:g}",
            hint="1 is Poisson, 0 the same gap each time",
        )
    of_logs = {"--traffic", "--format", "--rate", "--ramp-to", "--requests"}
    described = [name for name in given(options) if name not in of_logs]
    if options.traffic is not None and described:
        raise UsageError(
            "an option of traffic that is described here",
            where=described[0],
            seen=f"{described[0]} beside --traffic",
            expected="one of them",
            hint="a log has its own lengths and gaps; --rate stretches its time",
        )
    if options.ramp_to is not None and options.rate is None:
        raise UsageError(
            "a ramp from nowhere",
            where="--ramp-to",
            seen="--ramp-to without --rate",
            expected="both",
            hint="--rate 1 --ramp-to 8 begins with one request a second and ends with eight",
        )
    shared, length = options.shared_prefix_tokens, options.input_tokens or _DEFAULTS["input_tokens"]
    if shared is not None and shared >= length:
        raise UsageError(
            "a shared prefix that leaves no room",
            where="--shared-prefix-tokens",
            seen=f"{shared:,} of a mean prompt of {length:,.0f}",
            expected=f"fewer than {length:,.0f}",
            hint="--input-tokens is the whole prompt, what is shared included",
        )


def _described(options: TrafficOptions, *, seed: int | None, duration_s: float | None, endless: bool) -> Workload:
    import msgspec
    from msgspec.structs import replace

    from unmoor.core.plan import SyntheticTraffic
    from unmoor.traffic.synthesis import synthesise

    rate_rps = options.rate or _DEFAULTS["rate_rps"]
    told = {
        "requests": options.requests
        or (_ready(options) if endless else _count(rate_rps, options.ramp_to or rate_rps, duration_s)),
        "rate_rps": options.rate,
        "burstiness": options.burstiness,
        "input_tokens": options.input_tokens,
        "output_tokens": options.output_tokens,
        "shared_prefix_tokens": options.shared_prefix_tokens,
        "groups": options.prefix_groups,
        "seed": seed,
    }
    chosen = _DEFAULTS | {key: value for key, value in told.items() if value is not None}
    workload = synthesise(msgspec.convert(chosen, SyntheticTraffic))
    while _too_short(workload, options, duration_s, endless=endless):  # bursts, and then long silence
        chosen["requests"] = min(_MOST_REQUESTS, 2 * len(workload.requests))
        workload = synthesise(msgspec.convert(chosen, SyntheticTraffic))
    if options.ramp_to is None:
        return workload
    clock = [request.arrival_s * rate_rps for request in workload.requests]
    times_s = _ramp(clock, rate_rps, options.ramp_to, over_s=duration_s)
    return replace(workload, requests=_retimed(workload.requests, times_s))


def _too_short(workload: Workload, options: TrafficOptions, duration_s: float | None, *, endless: bool) -> bool:
    if options.requests is not None or duration_s is None or endless or len(workload.requests) >= _MOST_REQUESTS:
        return False
    rate_rps = options.rate or _DEFAULTS["rate_rps"]
    expected = (rate_rps + (options.ramp_to or rate_rps)) / 2 * duration_s
    return workload.requests[-1].arrival_s * rate_rps < expected


def _ready(options: TrafficOptions) -> int:
    """So many requests stand ready where it is not they that end the load: their prompts are made before the first."""
    length = options.input_tokens or _DEFAULTS["input_tokens"]
    return min(_ENDLESS, max(_FEWEST_READY, int(_READY_TOKENS / length)))


def _count(from_rps: float, to_rps: float, duration_s: float | None) -> int:
    if duration_s is None:
        return _REQUESTS
    expected = (from_rps + to_rps) / 2 * duration_s
    return min(_MOST_REQUESTS, math.ceil(expected + 6 * math.sqrt(expected)) + 6)


def _logged(path: Path, format_name: str | None) -> Workload:
    from unmoor.cli.plan_files import open_traffic, read_text
    from unmoor.core.errors import PlanError
    from unmoor.core.plan_text import read_description
    from unmoor.traffic.conversion import workload_of
    from unmoor.traffic.synthesis import synthesise

    if path.suffix == ".toml" and format_name is None:
        text = read_text(path, error=PlanError, expected="a description in TOML", hint="or name a log")
        return synthesise(read_description(text, where=str(path)))
    return workload_of(open_traffic(path, format_name=format_name))


def _even_clock(requests: Sequence[Request]) -> list[float]:
    """A log's own times as a clock that counts expected requests: it runs at their mean rate."""
    from unmoor.core.errors import UsageError

    start_s = requests[0].arrival_s if requests else 0.0
    span_s = requests[-1].arrival_s - start_s if requests else 0.0
    if not span_s:
        raise UsageError(
            "no time to stretch",
            where="--rate",
            seen="requests that all came at one moment" if len(requests) > 1 else "one request",
            expected="a log with requests at several times",
            hint="leave --rate out, or describe the traffic with --requests, --input-tokens and --output-tokens",
        )
    scale = (len(requests) - 1) / span_s
    return [(request.arrival_s - start_s) * scale for request in requests]


def _ramp(clock: Sequence[float], from_rps: float, to_rps: float, *, over_s: float | None) -> list[float]:
    """Times in seconds for a clock that counts expected requests, at a rate that goes evenly from one to the other.

    It does so over T seconds, `over_s` or else the whole clock: then N = clock[-1] and T = 2 N / (from + to). Until t
    the expected requests are from t + (to - from) t^2 / 2 T.
    """
    total_s = over_s or 2 * clock[-1] / (from_rps + to_rps)
    slope = (to_rps - from_rps) / total_s if total_s else 0.0
    # The root in a form that loses no digits where the slope is near 0.
    return [2 * u / (from_rps + math.sqrt(max(0.0, from_rps**2 + 2 * slope * u))) for u in clock]


def _retimed(requests: Sequence[Request], times_s: Sequence[float]) -> tuple[Request, ...]:
    from msgspec.structs import replace

    return tuple(replace(request, arrival_s=round(at_s, 6)) for request, at_s in zip(requests, times_s, strict=True))
