"""Values that are nobody's business: they are left out where they are read, so that nothing can show them."""

from __future__ import annotations

import re

SECRET = "<secret>"  # noqa: S105 - it stands in place of one

_LAST = frozenset(("key", "keys", "token", "secret", "password", "passwd", "credentials"))
_LOOKS = re.compile(
    r"(?<![A-Za-z0-9])(?:sk|hf|ghp|gho|glpat|nvapi|xox[bp])[-_][A-Za-z0-9_-]{8,}|(?<=://)[^/@\s]+:[^/@\s]+(?=@)"
)


def is_secret(name: str) -> bool:
    """Whether an option or a variable of this name holds a key, a token or a password, and not a path to one."""
    words = re.split(r"[-_.]+", name.strip("-").casefold())
    return words[-1] in _LAST or {"access", "key"} <= set(words)


def hidden(name: str, value: str) -> str:
    """`value`, or what stands for it: SECRET where the name says so, and in place of what looks like a secret."""
    if value and is_secret(name):
        return SECRET
    return _LOOKS.sub(SECRET, value)
