"""What is open: everything on the page that would bite whoever had to leave today."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from unmoor.choose.devices import vendor_title
from unmoor.choose.rank import release_order
from unmoor.core.decision import Verdict
from unmoor.core.plan import ExitTable
from unmoor.core.plural import plural
from unmoor.engines.surface.concepts import CHECKPOINT
from unmoor.leave.checks.registry import kind
from unmoor.leave.exit_plan.exit_plan import Expiry, HardwareKind, Move, Place, Risk, Side, Weights
from unmoor.leave.exit_plan.places import OUTSIDE, title_of
from unmoor.leave.exit_plan.weights import recorded_only


def of_the_record(table: ExitTable, places: Sequence[Place], today: date) -> Iterator[Risk]:
    """What the plan does not record, or records and is not there; what was not rehearsed."""
    lacking = [title_of(place.what) for place in places if place.seen == "not recorded" and place.what in OUTSIDE]
    if lacking:
        yield Risk(code="not_recorded", text=f"Where these live is not recorded: {', '.join(lacking)}.")
    for place in places:
        if place.seen == "missing":
            text = (
                f"The plan records {title_of(place.what)} at {place.where}, and on this machine there is no such thing."
            )
            yield Risk(code="missing", text=text)
    if table.leave_to is None:
        yield Risk(code="no_way_out_named", text="Which engine to leave to is not recorded.")
    past = [one for one in table.rehearsals if one.on <= today]
    if not past:
        yield Risk(code="not_rehearsed", text="No move was rehearsed, as far as is recorded: all of this is on paper.")
    elif table.leave_to is not None and all(_engine(one.to) != _engine(table.leave_to) for one in past):
        yield Risk(code="not_rehearsed", text=f"No move to {table.leave_to}, the way out, was rehearsed.")
    for one in table.rehearsals:
        if one.on > today:
            yield Risk(code="not_rehearsed", text=f"A rehearsal of {one.on.isoformat()} is recorded and yet to come.")
    if table.risk_owner is None:
        yield Risk(code="no_risk_owner", text="Who owns third-party risk is not recorded.")


def _engine(name: str) -> str:
    """The engine of ENGINE or ENGINE@VERSION."""
    return name.partition("@")[0]


def of_the_moves(moves: Sequence[Move], names: Sequence[str]) -> Iterator[Risk]:
    """What each move loses, and what of it could not be looked at."""
    for move, name in zip(moves, names, strict=True):
        if move.report is None:
            yield Risk(code="move_not_checked", text=f"A move to {name} was not checked: {move.why_not}.")
            continue
        lost = [finding for finding in move.report.findings if finding.outcome == "lost"]
        if lost:
            all_requests = move.report.requests
            concerned = f" ({move.report.lost_requests:,} of {all_requests:,} requests)" if all_requests else ""
            told = "; ".join(dict.fromkeys(f"{one.kind} {kind(one.kind).title}" for one in lost))
            text = f"A move to {name} loses {plural(len(lost), 'thing')}{concerned}: {told}."
            yield Risk(code="move_loses", text=text)
        if move.report.not_looked_at:
            notes = "; ".join(note.rstrip(".") for note in move.report.not_looked_at)
            yield Risk(code="move_not_looked_at", text=f"Of a move to {name} was not looked at: {notes}.")


def of_the_weights(weights: Weights) -> Iterator[Risk]:
    """Files that are broken, changed, of unknown content, or that run code."""
    changed = [file for file in weights.files if file.changed]
    for file in changed:
        text = f"{file.name} is not the file whose hash {file.recorded_in} records."
        yield Risk(code="weights_changed", text=text)
    if not weights.files:
        yield Risk(
            code="weights_not_looked_at", text="No files of weights were looked at: the format is the plan's word."
        )
    elif recorded_only(weights.files):
        yield Risk(
            code="hashes_not_computed", text="The hashes of the weights are recorded ones: nobody computed them here."
        )
    elif any(file.sha256 is None for file in weights.files):
        yield Risk(
            code="hashes_not_computed", text="The weights were not hashed: nothing says that they are the ones meant."
        )
    if not weights.scheme:
        yield Risk(code="format_unknown", text="The format of the weights is no name that is known here.")
    if weights.pickles:
        yield Risk(code="pickles", text=f"Files that run code when loaded: {', '.join(weights.pickles)}.")
    if weights.remote_code:
        yield Risk(code="remote_code", text=f"The model brings code of its own: {', '.join(weights.remote_code)}.")
    for problem in weights.problems:
        yield Risk(
            code="weights_problem", text=f"{problem.file}: {problem.what}{f' ({problem.seen})' * bool(problem.seen)}."
        )


def of_the_hardware(kinds: Sequence[HardwareKind], weights: Weights, names: Sequence[str]) -> Iterator[Risk]:
    """A format that one vendor's hardware alone takes natively, or that an engine does not on the plan's hardware."""
    words = f"the format of the weights ({CHECKPOINT.get(weights.scheme, weights.scheme)})"
    native = {kind.vendor for kind in kinds if any(one.loads == "native" for one in kind.engines)}
    if weights.scheme and len(native) == 1:
        text = f"Whichever engine of the plan: one vendor's hardware alone takes {words} natively ({whose(native)})."
        yield Risk(code="one_vendor_format", text=text)
    ours = next((kind for kind in kinds if kind.of_the_plan), None)
    for number, name in enumerate(names):
        mine = {kind.vendor for kind in kinds if kind.engines[number].loads == "native"}
        if len(mine) == 1 and len(native) > 1:
            text = f"With {name}, {words} runs natively on one vendor's hardware alone ({whose(mine)})."
            yield Risk(code="one_vendor_format", text=text)
        here = ours.engines[number].loads if ours else "unknown"
        if ours and weights.scheme and here != "native":
            text = f"{name} on {ours.title}, the plan's hardware, with {words}: {here}."
            yield Risk(code="format_on_hardware", text=text)


def whose(vendors: Iterable[str]) -> str:
    """Vendors as they are written."""
    return ", ".join(vendor_title(vendor) for vendor in sorted(vendors))


def of_the_decision(serves: Side, verdict: Verdict) -> Iterator[Risk]:
    """That another engine serves than the decision picks."""
    if (verdict.pick, verdict.pick_version) != (serves.engine, serves.version):
        picks = f"picks {verdict.pick} {verdict.pick_version or ''}".rstrip() if verdict.pick else "picks no engine"
        yield Risk(code="decision_differs", text=f"{serves.name} serves, and the decision {picks}. {verdict.sentence}")


def of_the_sides(sides: Sequence[Side], risk: str) -> Iterator[Risk]:
    """The risk that the engine which serves is known for, gates that bar a side or are open, a stand-in's surface."""
    yield Risk(code="of_the_engine", text=risk)
    for side in sides:
        for gate in side.gates:
            named = f"the plan's gate {gate.name.replace('_', ' ')}"
            if gate.passed is False:
                yield Risk(code="gate_fails", text=f"{side.name} fails {named}. {gate.reason}")
            else:
                yield Risk(code="gate_open", text=f"{side.name} leaves {named} open: {gate.question or gate.reason}.")
        if side.version and side.newest and release_order(side.version) < release_order(side.newest):
            newest = f"the newest release that is known of, {side.newest}"
            yield Risk(code="not_newest", text=f"{side.name} is not {newest}: it lacks what was mended since.")
        for caveat in side.caveats:
            yield Risk(code=caveat.code, text=caveat.text)
        if not side.surface:
            yield Risk(code="no_surface", text=f"No surface is known of {side.name}: its names were not compared.")


def of_the_dates(goes_stale: Sequence[Expiry]) -> Iterator[Risk]:
    """What is stale already."""
    for one in goes_stale:
        if one.stale:
            text = f"Stale after {one.good_until.isoformat()}: {one.what}. Look again: {one.recheck}."
            yield Risk(code="stale", text=text)
