"""A name as a folder's name, for whatever is written beside other files."""

from __future__ import annotations

import re

_LONGEST = 60


def folder_name(name: str) -> str:
    """`name` in small letters, digits and hyphens, at most 60: it names one folder and leads to no other place."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST].strip("-") or "run"
