"""`unmoor profile`: what a log or trace holds, and how much of its prompts came before."""

from __future__ import annotations

from pathlib import Path

import click

from unmoor.core.traffic import TokenCounts, TrafficProfile


@click.command("profile")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--format", "format_name", metavar="NAME", help="The log's format; its first line tells it unless given.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/traffic.md).")
def command(log: Path, format_name: str | None, *, as_json: bool) -> None:
    """Describe the traffic in LOG: lengths, arrivals, prefix overlap. No prompt is ever shown."""
    import msgspec

    from unmoor.cli.plan_files import open_traffic
    from unmoor.traffic.conversion import workload_of
    from unmoor.traffic.shape import profile

    seen = profile(workload_of(open_traffic(log, format_name=format_name)))
    click.echo(msgspec.json.encode(seen) if as_json else described(seen))


def described(seen: TrafficProfile) -> str:
    """The profile in a few lines for a terminal."""
    lines = [
        f"{seen.source} ({seen.format}, sha256 {seen.fingerprint[:12]})",
        f"  requests        {seen.requests:,}{_arrivals(seen)}",
        f"  prompt tokens   {_lengths(seen.input_tokens)}",
        f"  answer tokens   {_lengths(seen.output_tokens)}",
        f"  prefix overlap  {_overlap(seen)}",
    ]
    return "\n".join([*lines, *(f"  caveat          {caveat.text}" for caveat in seen.caveats)])


def _arrivals(seen: TrafficProfile) -> str:
    rate = "" if seen.offered_rps is None else f", {seen.offered_rps:.3g} requests/s"
    gaps = "" if seen.burstiness is None else f", burstiness {seen.burstiness:.2f} (1 is Poisson)"
    return f" over {seen.duration_s:,.1f} s{rate}{gaps}"


def _lengths(counts: TokenCounts) -> str:
    return f"mean {counts.mean:,.0f}, p50 {counts.p50:,.0f}, p95 {counts.p95:,.0f}; {counts.total:,} in all"


def _overlap(seen: TrafficProfile) -> str:
    if seen.prefix_overlap is None:
        return "unknown"
    return f"{seen.prefix_overlap:.1%} of prompt tokens, with an unlimited cache"
