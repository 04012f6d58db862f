"""What a check says: one thing that would change or break on the other engine, whom it concerns, and what to do."""

from __future__ import annotations

from typing import Literal

import msgspec

from unmoor.core.evidence import Caveat
from unmoor.engines.surface.surface import Source

Outcome = Literal["same", "translated", "lost"]
"""same: nothing changes. translated: it works after the rule is applied. lost: it does not, whatever is done."""

FeatureOutcome = Literal["same", "translated", "lost", "unknown"]
"""unknown: nobody knows what the target makes of it; `MoveReport.not_looked_at` says why."""

Severity = Literal["error", "warning", "note"]
"""error: requests fail or constraints vanish. warning: answers or operation change. note: good to know."""

TABLE = "table"
"""How a finding was found where nothing was run for it: by comparing surfaces."""

MOST_LINES = 1000
"""So many lines are named in one finding; `requests` counts all."""

SHOWN_REQUESTS = 3
"""So many requests of each finding are shown to who asks for text."""

SHOWN_FEATURES = 4
"""So many features of a finding are named, where a report does not name all."""


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """Where somebody was bitten by this: a thread in public, and the day it was looked at.

    `name` is "owner/repo#number", or "owner/repo PR#number" of a pull request.
    """

    name: str
    seen: str


def threads(*names: str, seen: str = "2026-11-30") -> tuple[Thread, ...]:
    """Threads that were looked at on one day, by their names."""
    return tuple(Thread(name=name, seen=seen) for name in names)


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of finding: what `unmoor explain ID` tells.

    `id` is stable ("UM102"); `name` is its word in kebab case. `bites` says in two or three sentences what happens and
    why; `look` how it is found; `mend` what can be done about it.
    """

    id: str
    name: str
    title: str
    bites: str
    look: str
    mend: str
    threads: tuple[Thread, ...] = ()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a file of the user's, named as the user named it or the folder it is in."""

    file: str
    line: int = 1


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing found.

    `features` are those of the traffic that it is about (`Use.feature`), or "model", "model name", "adapter NAME",
    "flag NAME", "metric NAME", "route NAME". `lines` are the first of the log's lines concerned, `requests` the number
    of all; 0 where no recorded request is concerned. `seen` says what they would see, `fix` what to do: the rule, where
    it is translated. `by` tells how it was found: by the surfaces' table, or by running something, with its version.
    `file` is the file that it is about, by its name in the model's or adapter's folder; empty where it is about none.
    `places` are lines of the user's own files, for one about no request.
    `needs` is what the target has to be started with for it, as its surface writes it ("--enable-cache-report").
    """

    kind: str
    outcome: Outcome
    severity: Severity
    features: tuple[str, ...]
    seen: str
    fix: str
    sources: tuple[Source, ...] = ()
    requests: int = 0
    lines: tuple[int, ...] = ()
    by: str = TABLE
    file: str = ""
    caveats: tuple[Caveat, ...] = ()
    places: tuple[Place, ...] = ()
    needs: tuple[str, ...] = ()


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What a request has under one feature that a finding is about: a stop string, a schema, a setting."""

    feature: str
    text: str


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """What the request on a line of the log has of what findings are about; only for who asks for text.

    `pieces` are the values under the features of findings that name this line. `asked` is how its last message begins,
    `answered` how its answer begins and ends; None where the log does not hold it as text. Each is one line of at most
    `excerpts.MOST_CHARACTERS`.
    """

    line: int
    asked: str | None = None
    answered: str | None = None
    pieces: tuple[Piece, ...] = ()


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """One feature that the traffic uses, with the worst that was found of it."""

    name: str
    requests: int
    outcome: FeatureOutcome
    kinds: tuple[str, ...] = ()


class MoveReport(msgspec.Struct, frozen=True, kw_only=True):
    """All that a check of a move found.

    `lost_requests` are distinct requests that lose something. `not_looked_at` says what could not be checked, and why.
    `start_command` starts the target as the source is started, as far as it can be said; empty where nobody told how.
    `start_config` is the text of the configuration file that it names, `start_notes` what is left to do by hand.
    `excerpts` are of the first lines of each finding, by line; empty unless they were asked for.
    """

    source_engine: str
    source_version: str
    target_engine: str
    target_version: str
    traffic: str
    format: str
    requests: int
    bodies: int
    features: tuple[Feature, ...]
    findings: tuple[Finding, ...]
    lost_requests: int
    translated_requests: int
    not_looked_at: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    start_command: tuple[str, ...] = ()
    start_config: str = ""
    start_notes: tuple[str, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()

    @property
    def loses(self) -> bool:
        """Whether anything is lost: of the traffic, the model or an adapter."""
        return any(finding.outcome == "lost" for finding in self.findings)
