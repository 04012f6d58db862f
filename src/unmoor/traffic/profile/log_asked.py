"""What a log's requests belong to and ask for: sessions, structured output, tools, adapters, tenants, models."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.log import Names, Real, Traffic
from unmoor.traffic.profile.log_shape import counts_by_code, spread_of
from unmoor.traffic.profile.report import Count, Named, Sessions, Structured

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
    named = np.flatnonzero(code >= 0)
    if not len(named):
        return None
    turns = counts_by_code(code, len(traffic.session.names))
    turns = turns[turns > 0]
    gaps_s, thoughts_s = _between_turns(traffic, named) if traffic.timed else (np.empty(0), np.empty(0))
    spread = spread_of(turns)
    if spread is None:  # there is a named row, so there is a count
        return None
    return Sessions(
        count=len(turns),
        requests_share=len(named) / len(traffic),
        turns=spread,
        between_turns_s=spread_of(gaps_s),
        think_s=spread_of(thoughts_s),
    )


def _between_turns(traffic: Traffic, named: NDArray[np.intp]) -> tuple[Real, Real]:
    """Seconds from one arrival to the session's next, and from the end of the one to the next, where known."""
    order = named[np.argsort(traffic.session.code[named], kind="stable")]
    same = traffic.session.code[order[1:]] == traffic.session.code[order[:-1]]
    before, after = order[:-1][same], order[1:][same]
    gaps_s = traffic.arrival_s[after] - traffic.arrival_s[before]
    thoughts_s = gaps_s - traffic.took_s[before]
    # A turn that begins before the last one's answer ended leaves no time to think: it is another branch, or a retry.
    return gaps_s, np.maximum(thoughts_s[~np.isnan(thoughts_s)], 0.0)


def structured_of(traffic: Traffic) -> Structured | None:
    """Requests for structured output; None where the source does not say what was asked for."""
    counts = counts_by_code(traffic.schema.code, len(traffic.schema.names))
    total = int(counts.sum())
    if not total and not bodies_known(traffic):
        return None
    kinds: dict[str, int] = {}
    for name, count in zip(traffic.schema.names, counts.tolist(), strict=True):
        kind = _kind_of(name)
        kinds[kind] = kinds.get(kind, 0) + count
    order = np.argsort(-counts, kind="stable")[:SHOWN]
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
    counts = counts_by_code(column.code, len(column.names))
    total = int(counts.sum())
    if not total:
        return None
    tokens = counts_by_code(column.code, len(column.names), np.maximum(traffic.input_tokens, 0))
    order = np.lexsort((-counts, -tokens))[:SHOWN]
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
