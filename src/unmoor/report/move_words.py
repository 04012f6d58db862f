"""How a check of a move reads: the sentences that text, page and SARIF share."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence

from unmoor.core.plural import plural
from unmoor.leave.finding import SHOWN_FEATURES, SHOWN_REQUESTS, Finding, MoveReport, Outcome

SHOWN_LINES = 5
_VARIABLE = re.compile(r"\$(?:\w+|\{\w+\})")

OUTCOME_TITLES: dict[Outcome, str] = {
    "lost": "Lost",
    "translated": "Works after a rule is applied",
    "same": "The same, and good to know",
}
TODAY = "UM156"
"""The kind that tells of constraints which do nothing today: it comes first, whatever the move does to them."""
_TODAY_TITLE = "Unconstrained today"


def section(finding: Finding) -> str:
    """The heading under which a finding is told."""
    return _TODAY_TITLE if finding.kind == TODAY else OUTCOME_TITLES[finding.outcome]


def sections(report: MoveReport) -> list[tuple[str, list[Finding]]]:
    """The findings under their headings, in the order in which they are told."""
    headings = (_TODAY_TITLE, *OUTCOME_TITLES.values())
    found = [(heading, [one for one in report.findings if section(one) == heading]) for heading in headings]
    return [(heading, findings) for heading, findings in found if findings]


def title(report: MoveReport) -> str:
    """From which engine to which, with versions."""
    return f"{report.source_engine} {report.source_version} to {report.target_engine} {report.target_version}"


def verdict(report: MoveReport) -> str:
    """The whole report in a sentence; of a log without bodies it says no more than that."""
    if report.requests and not report.features:
        return (
            f"The log says nothing of what its {plural(report.requests, 'request')} ask for: nothing could be classed."
        )
    counts = Counter(feature.outcome for feature in report.features)
    lost = f"{plural(counts['lost'], 'feature')} lost"
    if report.lost_requests:
        lost += f" ({report.lost_requests:,} of {report.requests:,} requests)"
    translated = f"{counts['translated']} to translate"
    if report.translated_requests:
        translated += (
            f" ({report.translated_requests:,} {'request' if report.translated_requests == 1 else 'requests'})"
        )
    if report.loses and not counts["lost"]:
        lost = "nothing lost of the traffic itself, but something around it"
    unknown = f"; {counts['unknown']} not known" if counts["unknown"] else ""
    return f"{lost}; {translated}; {counts['same']} the same{unknown}: {plural(len(report.findings), 'finding')}."


def requests_words(finding: Finding, *, unit: str = "line") -> str:
    """How many requests, and the first of their lines; empty where none is concerned."""
    if not finding.requests:
        return ""
    few = [str(line) for line in finding.lines[:SHOWN_LINES]]
    more = ", …" if finding.requests > len(few) else ""
    lines = f"{unit} {few[0]}" if finding.requests == 1 else f"{unit}s {', '.join(few)}{more}"
    return f"{finding.requests:,} {'request' if finding.requests == 1 else 'requests'} ({lines})"


def excerpt_lines(report: MoveReport, finding: Finding) -> list[str]:
    """What the first requests of a finding hold of it, how they begin, and their answers; empty unless asked for."""
    concerned = set(finding.lines[:SHOWN_REQUESTS])
    shown = []
    for one in report.excerpts:
        told = [f"{piece.feature} “{piece.text}”" for piece in one.pieces if piece.feature in finding.features]
        told += [f"asked “{one.asked}”"] if one.asked else []
        told += [f"answered “{one.answered}”"] if one.answered else []
        if one.line in concerned and told:
            shown.append(f"line {one.line}: {', '.join(told)}")
    return shown


def features_words(finding: Finding, *, most: int = SHOWN_FEATURES) -> str:
    """What it is about, the first few of many."""
    named = finding.features[:most]
    more = len(finding.features) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def source_words(finding: Finding) -> Sequence[str]:
    """Each source with how it was seen, its version and its date."""
    return list(dict.fromkeys(source.cited() for source in finding.sources))


def start_lines(report: MoveReport) -> Sequence[str]:
    """The suggested start as a shell takes it: an option with its values on each line."""
    groups: list[list[str]] = []
    for word in report.start_command:
        if not groups or (word.startswith("-") and not word[1:2].isdigit()):
            groups.append([])
        groups[-1].append(f'"{word}"' if _VARIABLE.fullmatch(word) else shlex.quote(word))
    lines = [" ".join(group) for group in groups]
    shown = ["  " + ("    " if at else "") + line for at, line in enumerate(lines)]
    return [*(f"{line} \\" for line in shown[:-1]), *shown[-1:]]
