"""What a log's requests belong to and ask for: sessions, structured output, tools, adapters, tenants, models."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import numpy as np

from unmoor.traffic.equal_rows import NONE_BEFORE, last_before
from unmoor.traffic.foremost import foremost
from unmoor.traffic.log import Names, Real, Traffic
from unmoor.traffic.profile.log_shape import counts_by_code, spread_of
from unmoor.traffic.profile.report import Count, Named, Sessions, Structured
from unmoor.traffic.scratch import Growing

_HEX = re.compile(r"[0-9a-f]{0,64}")

SHOWN = 10
"""How many names are listed; how many there are is said beside it."""


def bodies_known(traffic: Traffic) -> bool:
    """Whether the source had the requests' own bodies, so that what none of them asks for was not asked for.

    A body names its model, if nothing else.
    """
    features = traffic.features
    return bool(features.sampling or features.tools or features.models or features.with_tools)


def sessions_of(traffic: Traffic) -> Sessions | None:
    """Sessions and their turns; None where no request has one."""
    code = traffic.session.code
    turns = counts_by_code(code, len(traffic.session.names), scratch=traffic.scratch)
    named = int(turns.sum())
    if not named:
        return None
    turns = traffic.scratch.kept(turns, turns > 0)
    gaps_s, thoughts_s = _between_turns(traffic) if traffic.timed else (np.empty(0), np.empty(0))
    spread = spread_of(turns)
    if spread is None:  # there is a named row, so there is a count
        return None
    return Sessions(
        count=len(turns),
        requests_share=named / len(traffic),
        turns=spread,
        between_turns_s=spread_of(gaps_s),
        think_s=spread_of(thoughts_s),
    )


def _between_turns(traffic: Traffic) -> tuple[Real, Real]:
    """Seconds from one arrival to the session's next, and from the end of the one to the next, where known."""
    code, scratch = traffic.session.code, traffic.scratch
    before = last_before(code, len(traffic.session.names) + 1, scratch)  # no session counts as the last one
    gaps_s, thoughts_s = Growing(np.float64, scratch), Growing(np.float64, scratch)
    for some in scratch.stretches(len(code)):
        later = some.start + np.flatnonzero((code[some] >= 0) & (before[some] != NONE_BEFORE))
        later = later[np.argsort(code[later], kind="stable")]
        earlier = before[later]
        gap_s = traffic.arrival_s[later] - traffic.arrival_s[earlier]
        thought_s = gap_s - traffic.took_s[earlier]
        gaps_s.extend(gap_s)
        # A turn that begins before the last one's answer ended leaves no time to think: another branch, or a retry.
        thoughts_s.extend(np.maximum(thought_s[~np.isnan(thought_s)], 0.0))
    return gaps_s.rows, thoughts_s.rows


def structured_of(traffic: Traffic) -> Structured | None:
    """Requests for structured output; None where the source does not say what was asked for."""
    counts = counts_by_code(traffic.schema.code, len(traffic.schema.names), scratch=traffic.scratch)
    total = int(counts.sum())
    if not total and not bodies_known(traffic):
        return None
    kinds: dict[str, int] = {}
    for name, count in zip(traffic.schema.names, counts.tolist(), strict=True):
        kind = _kind_of(name)
        kinds[kind] = kinds.get(kind, 0) + count
    order = foremost(len(counts), SHOWN, lambda rows: (-counts[rows],), traffic.scratch).tolist()
    return Structured(
        share=total / len(traffic),
        kinds=dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0]))),
        schemas=int((counts > 0).sum()),
        top=tuple(Count(name=_shown(traffic.schema.names[i]), requests=int(counts[i])) for i in order if counts[i]),
    )


def _kind_of(schema: str) -> str:
    """The kind before the hash; a schema that somebody named is only a schema."""
    kind, colon, _ = schema.partition(":")
    return kind if colon and kind.isidentifier() else "schema"


def _shown(schema: str) -> str:
    """A kind and a hash as they are; of somebody's own name a hash."""
    kind, _, digest = schema.partition(":")
    if _kind_of(schema) == kind and _HEX.fullmatch(digest):
        return schema
    return f"schema:{hashlib.blake2b(schema.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}"


def named_of(traffic: Traffic, column: Names) -> Named | None:
    """The names in a column, those with the most prompt tokens first; None where no request has one."""
    scratch, names = traffic.scratch, len(column.names)
    counts = counts_by_code(column.code, names, scratch=scratch)
    total = int(counts.sum())
    if not total:
        return None
    tokens = counts_by_code(column.code, names, traffic.input_tokens, scratch)
    order = foremost(names, SHOWN, lambda rows: (-tokens[rows], -counts[rows]), scratch).tolist()
    return Named(
        distinct=int((counts > 0).sum()),
        share=total / len(traffic),
        top=tuple(
            Count(name=column.names[i], requests=int(counts[i]), input_tokens=int(tokens[i]))
            for i in order
            if counts[i]
        ),
    )


def tools_of(traffic: Traffic) -> Named | None:
    """The tools that requests offer, those in most requests first; None where the source does not say."""
    if not traffic.features.tools and not bodies_known(traffic):
        return None
    return _counted(traffic.features.tools, traffic.features.with_tools / len(traffic))


def models_of(traffic: Traffic) -> Named | None:
    """The models asked for; None where the source does not say."""
    models = traffic.features.models
    return _counted(models, min(1.0, sum(models.values()) / len(traffic))) if models else None


def sampling_of(traffic: Traffic) -> dict[str, dict[str, int]] | None:
    """Counts of requests by parameter and value; None where the source does not say."""
    return dict(traffic.features.sampling) if bodies_known(traffic) else None


def _counted(counts: Mapping[str, int], share: float) -> Named:
    top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
    return Named(distinct=len(counts), share=share, top=tuple(Count(name=name, requests=count) for name, count in top))
