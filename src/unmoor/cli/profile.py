"""`unmoor profile`: what a log holds, how much of its prompts came before, what that is worth, and what ruins it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unmoor.cli.path_name import PATH_NAME
from unmoor.cli.positive_number import positive_number
from unmoor.cli.token_count import token_count
from unmoor.cli.whole_number import WholeNumber

if TYPE_CHECKING:
    from unmoor.choose.prediction.kernel_tables import TableFinder
    from unmoor.core.plan import Plan
    from unmoor.traffic.breakers import Watch
    from unmoor.traffic.breakers.mended import Mended
    from unmoor.traffic.log import Traffic
    from unmoor.traffic.profile.profile_log import Findings
    from unmoor.traffic.profile.report import CurvePoint, TrafficReport
    from unmoor.traffic.readers import Cutter

BYTES_PER_TOKEN = 4.0
"""Where the log tells no ratio, as for its own conversion."""
MS_PER_S = 1000.0
_OTHER_FILE = "name another file, or remove this one"


@click.command("profile")
@click.argument("log", type=PATH_NAME)
@click.option("--format", "format_name", metavar="NAME", help="The log's format; its first line tells it unless given.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/reference/traffic.md).")
@click.option(
    "--kv-tokens", type=token_count, metavar="N", multiple=True, help="KV capacity of a replica, 1.3M say; repeatable."
)
@click.option("--block-tokens", type=token_count, metavar="N", help="Cache in blocks of N tokens [the log's own].")
@click.option("--tokenizer", type=PATH_NAME, metavar="PATH", help="Count by this tokenizer.json, or a model's folder.")
@click.option("--plan", type=PATH_NAME, metavar="PLAN", help="Say what it means for this plan's engines and hardware.")
@click.option(
    "--replicas", type=WholeNumber(1, 1024), metavar="N", multiple=True, help="Repeatable; 2, 4 and 8 unless given."
)
@click.option("--prefill-tps", type=positive_number, metavar="TPS", help="A replica computes so many tokens/s [8000].")
@click.option("--tpot-ms", type=positive_number, metavar="MS", help="An answer's token takes so long [25].")
@click.option("--page", type=PATH_NAME, metavar="OUT.html", help="Write a page with plots as well.")
@click.option("--fingerprint", type=PATH_NAME, metavar="OUT", help="Write what can be shared: no prompt, keyed names.")
@click.option("--key-file", type=PATH_NAME, metavar="FILE", help="The fingerprint's key; made if there is none.")
@click.option("--show-text", is_flag=True, help="Quote a few words where prompts that could share first differ.")
@click.option("--most-broken", type=WholeNumber(0), metavar="N", help="Skip so many broken lines [10, or 1 %].")
def command(
    *,
    log: Path,
    format_name: str | None,
    as_json: bool,
    kv_tokens: tuple[int, ...],
    block_tokens: int | None,
    tokenizer: Path | None,
    plan: Path | None,
    replicas: tuple[int, ...],
    prefill_tps: float | None,
    tpot_ms: float | None,
    page: Path | None,
    fingerprint: Path | None,
    key_file: Path | None,
    show_text: bool,
    most_broken: int | None,
) -> None:
    """Describe the traffic in LOG, a file, a folder or - for standard input: its shape, and how its prompts overlap.

    No prompt is ever shown without --show-text. What is written to --fingerprint can be profiled in LOG's place.
    """
    from unmoor.choose.reuse_meaning import engine_blocks, plan_fleets, with_meaning
    from unmoor.cli.log_cutter import cutter_for
    from unmoor.cli.plan_files import open_plan, open_traffic
    from unmoor.traffic.breakers import Watch
    from unmoor.traffic.profile.profile_log import dense_curves, profile_log
    from unmoor.traffic.profile.question import Question

    _refuse_key_alone(key_file, fingerprint)
    _check_outputs(page=page, fingerprint=fingerprint, key_file=key_file)
    told = open_plan(plan)[0] if plan else None
    engines = engine_blocks([candidate.engine for candidate in told.candidates] if told else ())
    watch, cutter = Watch(), cutter_for(tokenizer)
    traffic = open_traffic(log, format_name=format_name, cutter=cutter, most_broken=most_broken, watch=watch)
    tables = _tables(told)
    question = Question(
        kv_tokens=kv_tokens,
        fleets=plan_fleets(told, tables) if told else (),
        block_tokens=block_tokens,
        replicas=replicas,
        engines=engines,
        prefill_tps=prefill_tps,
        tpot_s=None if tpot_ms is None else tpot_ms / MS_PER_S,
    )
    finder = _Finder(watch, cutter, traffic, show_text=show_text)
    report = profile_log(traffic, question, finder)
    report = with_meaning(report, traffic, told, tables=tables, mended=finder.mended)
    if fingerprint is not None:
        _write_fingerprint(fingerprint, traffic, report, key_file=key_file, block_tokens=block_tokens)
    if page is not None:
        _write_page(page, report, dense_curves(traffic, question, report), private=show_text)
    _show(report, as_json=as_json)


def _refuse_key_alone(key_file: Path | None, fingerprint: Path | None) -> None:
    from unmoor.core.errors import UsageError

    if key_file is not None and fingerprint is None:
        raise UsageError(
            "nothing to hash with the key",
            where="--key-file",
            seen="--key-file without --fingerprint",
            expected="--fingerprint OUT beside --key-file",
            hint="leave --key-file out",
        )


def _check_outputs(*, page: Path | None, fingerprint: Path | None, key_file: Path | None) -> None:
    """Refuses what could not be written after the log was read, which may take minutes. Raises UsageError."""
    from unmoor.cli.key_file import key_from
    from unmoor.cli.out_file import check_places, not_overwritten
    from unmoor.cli.page_file import refuse_strange

    places = {"--fingerprint": fingerprint, "--key-file": key_file, "--page": page}
    check_places(places, folders_made=frozenset({"--page"}))
    if page is not None:
        refuse_strange(page, option="--page")
    kept = key_file is not None and key_file.exists()
    if kept:
        key_from(key_file)
    elif fingerprint is not None and fingerprint.exists():  # under a fresh key it cannot come out the same
        raise not_overwritten(fingerprint, where=str(fingerprint), hint=_OTHER_FILE)


class _Finder:
    """What looks for what ruins sharing in the text that `watch` kept, and says how far it looked."""

    def __init__(self, watch: Watch, cutter: Cutter, traffic: Traffic, *, show_text: bool) -> None:
        self._watch, self._cutter, self._traffic, self._show_text = watch, cutter, traffic, show_text
        self.mended: Mended | None = None

    def __call__(self, kv_tokens: int | None) -> Findings:
        """What was found, with what mending it gains at a capacity; `mended` then holds the prompts without it."""
        from unmoor.traffic.profile.profile_log import Findings

        grain = self._traffic.grain
        looked = self._watch.look(
            self._cutter,
            kv_tokens=kv_tokens,
            bytes_per_token=(grain.bytes_per_token if grain else None) or BYTES_PER_TOKEN,
            show_text=self._show_text,
        )
        self.mended = looked.mended
        return Findings(breakers=looked.breakers, caveats=tuple(self._watch.notes(self._cutter)))


def _tables(plan: Plan | None) -> TableFinder:
    """Where a plan's KV capacities are found; without a plan none is asked for."""
    from unmoor.choose.prediction.kernel_tables import find_table

    if plan is None:
        return find_table
    from unmoor.cli.kernel_times import table_finder

    return table_finder()


def _write_fingerprint(
    out: Path, traffic: Traffic, report: TrafficReport, *, key_file: Path | None, block_tokens: int | None
) -> None:
    from unmoor.cli.key_file import key_from
    from unmoor.cli.out_file import PRIVATE, write_out
    from unmoor.traffic.fingerprint import write

    looked_for = report.breakers if report.breakers_looked_for else None
    chunks = write(traffic, key=key_from(key_file), block_tokens=block_tokens, breakers=looked_for)
    written = write_out(out, chunks, force=False, mode=PRIVATE, hint=_OTHER_FILE)
    click.echo(f"fingerprint: {out}{'' if written else ', unchanged'}", err=True)


def _write_page(out: Path, report: TrafficReport, curves: Mapping[str, Sequence[CurvePoint]], *, private: bool) -> None:
    from unmoor.cli.page_file import write_page
    from unmoor.report.profile_page import render

    say = functools.partial(click.echo, err=True)
    write_page(render(report, curves), out, say, option="--page", private=private)


def _show(report: TrafficReport, *, as_json: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(report))
        return
    from unmoor.report.profile_text import render

    click.echo(render(report))
