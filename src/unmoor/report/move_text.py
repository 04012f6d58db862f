"""A check of a move as plain text: what is lost first, each with what users would see, what to do, and the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter

from unmoor.core.plural import plural
from unmoor.leave.finding import TABLE, Finding, Kind, MoveReport
from unmoor.report.layout import heading, table, wrapped
from unmoor.report.move_words import (
    TODAY,
    excerpt_lines,
    features_words,
    requests_words,
    sections,
    source_words,
    start_lines,
    title,
    verdict,
)

_SAME_SHOWN = 12
_BRIEF_LINES = 37


def render(report: MoveReport, kinds: dict[str, Kind]) -> str:
    """The whole report, 100 columns wide, without colour."""
    lines = [f"{title(report)}, for {report.traffic}" if report.traffic else title(report), ""]
    lines += wrapped(verdict(report), "  ")
    for name, found in sections(report):
        lines += ["", heading(f"{name}: {plural(len(found), 'finding')}")]
        for (kind, severity), group in groupby(found, key=attrgetter("kind", "severity")):
            lines += _group(report, list(group), f"{kind} {severity:<8}{kinds[kind].title}")
    lines += _same(report)
    lines += _start(report)
    lines += _notes("Not looked at", report.not_looked_at)
    lines += _notes("Doubts", [caveat.text for caveat in report.caveats])
    if report.findings:
        lines += ["", f"`unmoor explain {report.findings[0].kind}` tells more of a finding; --json has all lines."]
    return "\n".join(lines)


def render_brief(report: MoveReport, kinds: dict[str, Kind]) -> str:
    """The verdict, and what is lost or an error, without sources: some 40 lines at most."""
    lines = [title(report), "", *wrapped(verdict(report), "  "), ""]
    told = [one for _, found in sections(report) for one in found if one.outcome == "lost" or one.severity == "error"]
    for at, finding in enumerate(told):
        few = f": {plural(finding.requests, 'request')}" if finding.requests else ""
        outcome = "today" if finding.kind == TODAY else finding.outcome
        entry = [
            *wrapped(f"{finding.kind} {finding.severity}, {outcome}: {kinds[finding.kind].title}", "  "),
            *wrapped(f"{features_words(finding, most=2)}{few} → {finding.fix}", "    "),
        ]
        if len(lines) + len(entry) > _BRIEF_LINES:
            lines.append(f"  and {plural(len(told) - at, 'finding')} more that are lost or errors")
            break
        lines += entry
    rest = len(report.findings) - len(told)
    also = f"{plural(rest, 'finding')} beside these, sources" if rest else "Sources"
    return "\n".join([*lines, "", f"{also} and the suggested start: without --brief."])


def _group(report: MoveReport, findings: Sequence[Finding], head: str) -> Iterator[str]:
    """Findings of one kind: what to do is said once for several that follow and share it, and the others say so."""
    yield from wrapped(head, "  ")
    fix = ""
    for finding in findings:
        concerned = requests_words(finding)
        yield from wrapped(f"{features_words(finding)}{f': {concerned}' if concerned else ''}", "    ")
        yield from wrapped(finding.seen, "      ")
        yield from wrapped(finding.fix if finding.fix != fix else "as above", "      → ")
        fix = finding.fix
        for excerpt in excerpt_lines(report, finding):
            yield from wrapped(excerpt, "      ")
        for caveat in finding.caveats:
            yield from wrapped(caveat.text, "      ! ")
    for source in dict.fromkeys(source for finding in findings for source in source_words(finding)):
        yield from wrapped(source, "    source: ")
    for by in dict.fromkeys(finding.by for finding in findings if finding.by != TABLE):
        yield from wrapped(by, "    found by: ")


def _same(report: MoveReport) -> list[str]:
    same = [feature for feature in report.features if feature.outcome == "same"]
    if not same:
        return []
    rows = [(feature.name, f"{feature.requests:,}" if feature.requests else "none") for feature in same[:_SAME_SHOWN]]
    lines = [
        "",
        heading(f"The same on both sides: {plural(len(same), 'feature')}"),
        *table([("feature", "requests that have it"), *rows]),
    ]
    if len(same) > len(rows):
        lines.append(f"  and {len(same) - len(rows)} more")
    return lines


def _start(report: MoveReport) -> list[str]:
    """The suggested start of the target, an option a line, ready for a shell."""
    if not report.start_command:
        return []
    lines = ["", heading(f"A start of {report.target_engine}, as near as it goes"), *start_lines(report)]
    if report.start_config:
        lines += ["", f"  {report.start_command[-1]}:", *(f"    {line}" for line in report.start_config.splitlines())]
    for note in report.start_notes:
        lines += wrapped(note, "  ! ", at_hyphens=False)
    return lines


def _notes(name: str, notes: Sequence[str]) -> list[str]:
    return ["", heading(name), *(line for note in notes for line in wrapped(note, "  ! "))] if notes else []
