"""Values that are nobody's business: they are left out where they are read, so that nothing can show them."""

from __future__ import annotations

import re

SECRET = "(secret)"  # noqa: S105 - it stands in place of one

_LAST = frozenset(("key", "keys", "token", "secret", "password", "passwd", "credentials"))

_NAMED = "token|key|secret|passw|passphrase|pwd|signature|credential|auth|jwt|session|cookie"
"""What in the name of a parameter says that its value is a secret."""

_PREFIXES = (
    r"(?:sk|rk|hf|gsk|r8|npm|pypi|dapi|gh[opsur]|github_pat|glpat|gldt|glsa|glc|nvapi|xox[a-z]|xapp|lsv2|shpat|dckr_pat|"
    r"dop_v1|ya29|hvs|tvly|figd)[-_.][A-Za-z0-9_.-]{8,}"
)
"""How keys of hubs, clouds and chats begin."""

_LOOKS = tuple(
    re.compile(pattern, flags)
    for pattern, flags in (
        (r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
        # a password in an address, also one with an @ or a slash in it; a port and a path are none
        (r"(?<=://)[^/:@\s]*:(?!\d+(?:[/?#\s]|$))\S+(?=@)", 0),
        (r"(?<=://)(?=[^/@\s]*\d)[^/:@\s]{16,}(?=@)", 0),  # a key in the place of the user's name
        (rf"(?i)(?<=[?&;#])((?:[\w.-]*(?:{_NAMED})[\w.-]*|sig|sas|code|pass|pin|hash)=)[^&\s#\"'<>]+", 0),
        # whoever knows a webhook's address may post there; a bot's is the same
        (r"(?i)(://[^\s?#]*?(?<![a-z])(?:web)?hooks?(?:b2)?(?:\.[\w.-]+)?/)[^\s\"'<>]+", 0),
        (
            r"(?i)(?<![\w./-])(hooks\.slack(?:-gov)?\.com/|[\w.-]*webhook\.office\.com/|hooks\.zapier\.com/)[^\s\"'<>]+",
            0,
        ),
        (r"(?i)(?<![\w./-])(outlook\.office(?:365)?\.com/webhook/|discord(?:app)?\.com/api/webhooks/)[^\s\"'<>]+", 0),
        (r"(?i)((?:api\.telegram\.org/bot|events\.pagerduty\.com/integration/))[^\s/\"'<>]+", 0),
        (r"(?i)\b((?:bearer|basic)\s+)(?=\S*\d|\S*=|\S{20}|(?-i:\S*[a-z]\S*[A-Z]))[\w.~+/=-]{6,}", 0),
        (r"\beyJ[\w-]{8,}(?:\.[\w-]*)*", 0),  # a JSON Web Token, or its first part
        (r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}|\bAIza[\w-]{30,}", 0),
        (rf"(?<![A-Za-z0-9]){_PREFIXES}", 0),
        (r"(?<![\w/.+-])(?=[a-z0-9+]*[A-Z])(?=[A-Z0-9+]*[a-z])(?=[A-Za-z+]*\d)[A-Za-z0-9+]{32,}={0,2}", 0),
    )
)
"""What is a secret whatever it is called. A first group is kept: it is what tells the secret, not a part of it."""


def is_secret(name: str) -> bool:
    """Whether an option or a variable of this name holds a key, a token or a password, and not a path to one."""
    words = re.split(r"[-_.]+", name.strip("-").casefold())
    return words[-1] in _LAST or {"access", "key"} <= set(words)


def hidden(name: str, value: str) -> str:
    """`value`, or what stands for it: SECRET where the name says so, and in place of what looks like a secret."""
    if value and is_secret(name):
        return SECRET
    for looks in _LOOKS:
        value = looks.sub(_stands_in, value)
    return value


def _stands_in(found: re.Match[str]) -> str:
    return f"{found[1]}{SECRET}" if found.re.groups else SECRET
