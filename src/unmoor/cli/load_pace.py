"""How `unmoor load` goes: what a request waits for, when the load ends, which part counts, and by which SLO."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from unmoor.cli.option_group import Decorator, option_group
from unmoor.cli.positive_number import positive_number, zero_or_more
from unmoor.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from unmoor.core.slo import Slo
    from unmoor.measure.client.load import Pacing

_MOST_USERS = 20_000


class PaceOptions(NamedTuple):
    """What was asked for on the command line; None is a default."""

    concurrency: int | None
    turns_wait: bool
    think: float
    duration: float | None
    until_ttft_p95: float | None
    warm_up: float
    cool_down: float
    timeout: float


class SloOptions(NamedTuple):
    """The bounds of the SLO, in milliseconds; None where there is none."""

    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None


pace_options: Decorator = option_group(
    "pace",
    PaceOptions,
    [
        click.option(
            "--concurrency",
            type=WholeNumber(1, _MOST_USERS),
            metavar="N",
            help="N users, each waiting for an answer before it asks again, instead of a rate.",
        ),
        click.option("--turns-wait", is_flag=True, help="A session's turn waits for the answer to the one before."),
        click.option(
            "--think", type=zero_or_more, default=0.0, metavar="S", help="Between an answer and what waited for it. [0]"
        ),
        click.option("--duration", type=positive_number, metavar="S", help="Nothing more is sent after S seconds."),
        click.option(
            "--until-ttft-p95",
            type=positive_number,
            metavar="PERCENT",
            help="Stop once the interval of p95 TTFT is so narrow, of the p95.",
        ),
        click.option(
            "--warm-up", type=zero_or_more, default=0.0, metavar="S", help="Leave the first S seconds out of figures."
        ),
        click.option(
            "--cool-down", type=zero_or_more, default=0.0, metavar="S", help="Leave the last S seconds out of figures."
        ),
        click.option(
            "--timeout",
            type=positive_number,
            default=600.0,
            show_default=True,
            metavar="S",
            help="Given up after S seconds.",
        ),
    ],
)

slo_options: Decorator = option_group(
    "bounds",
    SloOptions,
    [
        click.option(
            "--ttft-ms",
            type=positive_number,
            metavar="MS",
            help="SLO: time to first token, from when a request was due.",
        ),
        click.option(
            "--tpot-ms", type=positive_number, metavar="MS", help="SLO: time per output token after the first."
        ),
        click.option(
            "--e2e-ms",
            type=positive_number,
            metavar="MS",
            help="SLO: time to the last token, from when a request was due.",
        ),
    ],
)


def pacing_of(options: PaceOptions, *, rate_given: bool) -> Pacing:
    """The pacing. Raises UsageError for options that do not go together."""
    from unmoor.core.errors import UsageError
    from unmoor.measure.client.load import Pacing

    if options.concurrency is not None and rate_given:
        raise UsageError(
            "a rate and users who wait",
            where="--concurrency",
            seen="--concurrency beside --rate",
            expected="one of them",
            hint="users who wait for answers ask as often as the engine answers; --think makes them slower",
        )
    if options.think and not (options.concurrency or options.turns_wait):
        raise UsageError(
            "nobody who thinks",
            where="--think",
            seen="--think alone",
            expected="--concurrency or --turns-wait beside it",
            hint="without them requests are sent at their own times, and wait for no answer",
        )
    return Pacing(
        concurrency=options.concurrency,
        wait_for_turns=options.turns_wait,
        think_s=options.think,
        until_s=options.duration,
    )


def slo_of(options: SloOptions) -> Slo | None:
    """The SLO; None where nothing is bounded."""
    from unmoor.core.slo import Slo

    if all(bound is None for bound in options):
        return None
    ttft_s, tpot_s, e2e_s = (None if bound is None else bound / 1000 for bound in options)
    return Slo(ttft_s=ttft_s, tpot_s=tpot_s, e2e_s=e2e_s)
