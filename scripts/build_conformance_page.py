"""Writes docs/conformance.md from results of `unmoor conformance CLIENT --json`: one file a client, named CLIENT.json.

    python scripts/build_conformance_page.py [RESULTS_FOLDER]

The results behind the page are kept in benchmarks/conformance, which is read unless another is named. What each client
was, and how it was called, stands in clients.toml there: `[CLIENT]` with `name`, `version`,
`date`, `called` (the command as a reader would type it) and, where there is something to say, `notes` (a list).
`whatever_case` names figures that were wrong in some runs whatever was played: they belong in the notes, and are held
against no case.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from unmoor.fake.conformance.cases import CASES
from unmoor.fake.conformance.judge import CaseResult, Check, Standing, overall
from unmoor.report.conformance_text import difference

ROOT = Path(__file__).parent.parent
PAGE, RESULTS = ROOT / "docs" / "conformance.md", ROOT / "benchmarks" / "conformance"
HEAD = """\
# Benchmark clients, held to what was true

What each client reports when the server knows the truth. [The cases, what is judged and within
what](reference/conformance.md) are published; each client was installed from the Python package index and called by
its own command line as written below, and its own result file was read. `unmoor conformance CLIENT` repeats a column.
`scripts/build_conformance_page.py` makes this page from the results in `benchmarks/conformance`, which come from a
machine with 2 cores (Linux x86-64, Python 3.11; inference-perf on 3.12) that had other work too.

An expectation is our reading of what a user of the figure takes it to mean. Another definition can be argued, in
`own-queue`, `one-token` and `no-tokens` above all; what was said below shows which one a client has. A makers'
correction, of how their client is called or of what it said, is a change to
`src/unmoor/fake/conformance/clients.toml` and to this page.
"""
_SHORT = {
    "requests": "requests",
    "failed": "failed",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
    "e2e_s": "end to end",
    "output_tokens": "tokens",
}


class _Result(msgspec.Struct):
    client: str
    counts: dict[str, int]
    cases: list[CaseResult]


def page(results: dict[str, _Result], told: dict[str, dict[str, Any]]) -> str:
    """The page as Markdown, one column and one section for each client."""
    by_case = {name: {case.case: case for case in result.cases} for name, result in results.items()}
    head = ["case", *(f"{told[name]['name']} {told[name]['version']}" for name in results)]
    rows = [head, ["---"] * len(head)]
    rows += [[f"`{case.code}`", *(_cell(by_case[name].get(case.code)) for name in results)] for case in CASES]
    rows.append(["**right / wrong / no result**", *(_tally(result) for result in results.values())])
    sections = [section for name, result in results.items() for section in _section(told[name], result)]
    legend = "A cell names the figures that were wrong; what was said, and what was true, stands below. –: not played."
    return "\n".join([HEAD, legend, "", *(f"| {' | '.join(row)} |" for row in rows), "", *sections]).rstrip() + "\n"


def _without(result: _Result, figures: list[str]) -> _Result:
    """The result without these figures, each case judged by the others."""
    cases = []
    for case in result.cases:
        checks = tuple(check for check in case.checks if check.figure not in figures)
        standing = case.standing if not checks else overall(checks)
        cases.append(msgspec.structs.replace(case, checks=checks, standing=standing))
    counts = {standing.value: sum(case.standing is standing for case in cases) for standing in Standing}
    return _Result(client=result.client, counts=counts, cases=cases)


def _cell(case: CaseResult | None) -> str:
    if case is None or case.standing in {Standing.NOT_PLAYED, Standing.NOT_SAID}:
        return "–"
    if case.standing is Standing.DID_NOT_RUN:
        return "no result"
    wrong = [check for check in case.checks if check.standing is Standing.WRONG]
    return ", ".join(_SHORT[check.figure] for check in wrong) or "right"


def _tally(result: _Result) -> str:
    return " / ".join(str(result.counts[standing]) for standing in ("right", "wrong", "did_not_run"))


def _section(told: dict[str, Any], result: _Result) -> list[str]:
    lines = [f"## {told['name']} {told['version']}, {told['date']}", "", "```text", told["called"].strip(), "```", ""]
    lines += [line for note in told.get("notes", ()) for line in (note, "")]
    seen: dict[str, list[str]] = {}
    for case in result.cases:
        said = _said(case)
        if said:
            seen.setdefault(said, []).append(f"`{case.case}`")
    lines += [f"- {', '.join(codes)}: {said}." for said, codes in seen.items()]
    return [*lines, ""] if seen else lines


def _said(case: CaseResult) -> str:
    if case.why:
        return f"{case.standing.value.replace('_', ' ')}: {case.why}"
    wrong = [difference(check) for check in case.checks if check.standing is Standing.WRONG]
    notes = [_note(check) for check in case.checks if check.note and check.standing is Standing.RIGHT]
    return "; ".join([*wrong, *notes])


def _note(check: Check) -> str:
    return f"{_SHORT[check.figure]} {check.note}, which is right"


def page_of(folder: Path) -> str:
    """The page of the results in a folder."""
    told = tomllib.loads((folder / "clients.toml").read_text())
    results = {name: msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=_Result) for name in told}
    judged = {name: _without(result, told[name].get("whatever_case", [])) for name, result in results.items()}
    return page(judged, told)


if __name__ == "__main__":
    PAGE.write_text(page_of(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS))
    print(f"wrote {PAGE}")
