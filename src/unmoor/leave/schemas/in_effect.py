"""Which constraints the source acts on today: one under a field that it ignores constrains nothing."""

from __future__ import annotations

from collections.abc import Collection

from unmoor.engines.surface.surface import Surface
from unmoor.leave.uses import Place, Rows, Uses


def in_effect(uses: Uses, source: Surface, keys: Collection[str]) -> dict[str, Rows]:
    """Each of `keys` that constrains answers today, with the requests in which it does.

    A constraint that no request brings (from a folder of schemas) has no rows and is kept; so is one whose endpoint's
    fields are not known of the source.
    """
    seen: dict[str, list[Rows]] = {}
    for at, rows in uses.constraints_at.items():
        seen.setdefault(at.key, [])
        if is_read(source, at.place, at.path):
            seen[at.key].append(rows)
    found = {key: Rows.union(seen[key]) if key in seen else uses.by_constraint.get(key, Rows()) for key in keys}
    return {key: rows for key, rows in found.items() if len(rows) or key not in seen}


def is_read(source: Surface, place: Place, path: str) -> bool:
    """Whether the source looks at this field of a request; True where its fields are not known."""
    if place == "answer" or place not in source.fields:
        return True
    root = path.partition(".")[0]
    spelled = (
        name.partition(".")[0]
        for one in source.spellings.values()
        if not one.absent and place in one.endpoints
        for name in (one.path, *one.also)
    )
    return root in source.fields[place] or root in spelled
