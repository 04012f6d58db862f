"""A bake-off as plain text for a terminal of 100 columns."""

from __future__ import annotations

from unmoor.bakeoff.result import BakeoffResult, EngineReport, Machine, TrialReport, Versus
from unmoor.report.layout import heading, table, wrapped
from unmoor.report.run_words import SHOWN, compared_of, head_of, mark_of, state_of, traffic_of, value_and_range


def render(result: BakeoffResult) -> str:
    """The whole bake-off, verdict last, without colour."""
    lines = [
        f"{result.plan}: {result.model}; {result.slo}; measured here {result.made_on}",
        f"  run     {result.run}",
        *_machine(result.machine),
        *wrapped(traffic_of(result.traffic), "  traffic "),
    ]
    for engine in result.engines:
        lines += ["", *_engine(engine)]
    for versus in result.versus:
        lines += ["", *_versus(versus)]
    lines += ["", heading("How it was measured"), *(line for said in result.method for line in wrapped(said, "  - "))]
    lines += [line for caveat in result.caveats for line in wrapped(caveat.text, "  ! ")]
    lines += ["", heading("Verdict")]
    if not result.finished:
        lines += wrapped("Not finished: the same command measures what is missing.", "  ! ")
    return "\n".join([*lines, *wrapped(result.verdict, "  ")])


def _machine(machine: Machine) -> list[str]:
    memory = "" if machine.memory_bytes is None else f", {machine.memory_bytes / 2**30:.0f} GiB"
    load = "" if machine.load_1m is None else f", load {machine.load_1m:.1f} at the start"
    return wrapped(f"{machine.cpu}, {machine.cores} cores{memory}, {machine.system}{load}", "  machine ")


def _engine(engine: EngineReport) -> list[str]:
    weights = f", {engine.weights} weights" if engine.weights else ""
    lines = [heading(f"{engine.title} {engine.version}{weights}")]
    measured = [trial for trial in engine.trials if trial.figures]
    if measured:
        rows = [(f"settings (* {mark_of(engine)})", *(head_of(metric) for metric in SHOWN))]
        for trial in measured:
            cells = [value_and_range(trial.figure(metric)) for metric in SHOWN]
            rows += [(_starred(trial, engine), *(value for value, _ in cells)), ("", *(ends for _, ends in cells))]
        lines += table(rows)
    for trial in engine.trials:
        lines += ["", *_trial(trial)]
    return [*lines, "", *wrapped(engine.sentence, "  => ")]


def _starred(trial: TrialReport, engine: EngineReport) -> str:
    return f"{trial.name} *" if trial.name == engine.best else trial.name


def _trial(trial: TrialReport) -> list[str]:
    lines = wrapped(f"{trial.name}: {state_of(trial)}", "  ")
    lines += wrapped(trial.why, "    tried: ")
    if trial.against_defaults:
        lines += wrapped(
            "; ".join(compared_of(found) for found in trial.against_defaults), "    against the defaults: "
        )
    return lines + [line for caveat in trial.caveats for line in wrapped(caveat.text, "    ! ")]


def _versus(versus: Versus) -> list[str]:
    mark = "" if versus.comparable else "NOT COMPARABLE: "
    lines = [heading("Engine against engine"), *wrapped(f"{versus.after} against {versus.before}", "  ")]
    lines += wrapped(f"{mark}{versus.reason}", "    ")
    return lines + [line for found in versus.comparisons for line in wrapped(compared_of(found), "    ")]
