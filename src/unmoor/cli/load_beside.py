"""What `unmoor load` finds out beside the load itself: of the server, by its metrics, and of its own client."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple

import click

from unmoor.cli.option_group import Decorator, option_group

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from unmoor.core.record import Record
    from unmoor.core.slo import Slo
    from unmoor.core.traffic import Workload
    from unmoor.measure.client.load import PlannedRequest
    from unmoor.measure.headroom.headroom import Headroom
    from unmoor.measure.server.server_watch import ServerWatch


class BesideOptions(NamedTuple):
    """What was asked for on the command line."""

    reset_cache: bool
    no_server_metrics: bool
    headroom: bool


beside_options: Decorator = option_group(
    "beside",
    BesideOptions,
    [
        click.option("--reset-cache", is_flag=True, help="Have the server empty its prefix cache first, where it can."),
        click.option("--no-server-metrics", is_flag=True, help="Leave the server's own metrics alone."),
        click.option("--headroom", is_flag=True, help="Find out afterwards how much more this client could have sent."),
    ],
)


def watch(options: BesideOptions, url: str) -> AbstractContextManager[ServerWatch | None]:
    """What reads the server's metrics meanwhile, if anything does."""
    from unmoor.measure.server.server_watch import ServerWatch

    return nullcontext() if options.no_server_metrics else ServerWatch(url)


def shared_by_what_was_sent(workload: Workload, records: Sequence[Record], *, overhead_tokens: int) -> float:
    """The share of prompt tokens that a cache can know from those requests alone that were sent."""
    from msgspec.structs import replace

    from unmoor.measure.prompts import shared_at_most

    sent = sorted(record.index for record in records)
    requests = tuple(workload.requests[index] for index in sent)
    return shared_at_most(replace(workload, requests=requests), overhead_tokens=overhead_tokens)


def headroom_of(
    options: BesideOptions, planned: Sequence[PlannedRequest], records: Sequence[Record], slo: Slo | None
) -> Headroom | None:
    """How much more this machine's client could have carried, at the load's own shape; None where nobody asked."""
    from unmoor.measure.headroom.headroom import headroom, shape_of

    if not options.headroom:
        return None
    prompt_bytes = round(sum(len(one.prompt) for one in planned) / max(1, len(planned)))
    shape = shape_of(records, prompt_bytes=prompt_bytes)
    if shape is None:
        click.echo("too little came to say how much more this client could have sent", err=True)
        return None
    click.echo("trying how much more this client could have sent", err=True)
    return headroom(shape, slo=slo, tell=lambda line: click.echo(f"  {line}", err=True))
