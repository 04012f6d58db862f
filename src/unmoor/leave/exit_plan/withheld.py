"""What a plan says in words, without the secrets in it: the document goes to people who may not have them.

A plan should hold no secret at all: it is kept where many can read it. What is here is a net under that rule.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from unmoor.core.plan import Plan
from unmoor.leave.starting.secrets import SECRET, hidden

_KEPT = re.escape(SECRET)
_WORDS_OF_PASSWORDS = (
    "password|passwd|passphrase|passcode|pwd|passwort|kennwort|mot de passe|contraseña|senha|cookie|authorization"
)
_KEY = "secret|token|key|pin|credential"
_NO_VALUE = "a|an|at|by|from|held|in|kept|known|no|not|of|on|only|read|rotated|set|stored|the|to|under|with"
_BETWEEN = rf"[\"'`]?\s*(?:[:=]+>?|->|→|\b(?:is|lautet)\b(?!\s+(?:{_NO_VALUE})\b))\s*"
_VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`|[^\s\"'`]+)"
_NAME = r"(?<![\w.-])[\w.-]*"
_COUNTED = rf"(?!{_NAME}tokens{_BETWEEN}\d[\d.,]*[km]?(?!\w))"

_SAID = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # a password may be of several words, and a header of several parts: the rest of the line goes
        rf"({_NAME}(?:{_WORDS_OF_PASSWORDS})s?{_BETWEEN})(?!\s*{_KEPT}$)[^\n]+",
        rf"{_COUNTED}({_NAME}(?:{_KEY})s?{_BETWEEN})(?!{_KEPT})(?:(?:bearer|basic)\s+)?{_VALUE}",
        rf"((?<![\w-])--?[\w-]*(?:{_WORDS_OF_PASSWORDS}|{_KEY})[\s=]+)(?!{_KEPT})\S+",
        # no sign between them: what follows has a digit in it, as a word of a sentence has not
        rf"({_NAME}(?:{_WORDS_OF_PASSWORDS}|{_KEY})\s+)(?=\S*\d)(?!{_KEPT})\S{{4,}}",
        r"((?<!\S)(?:-u|--user)[\s=]*)[^\s:]+:\S+",
        r"()(?<![\w/:.@+-])(?!(?:mailto|e?mail|sip|xmpp|to|cc|from|contact|owner|team):)[\w.+-]+:[^\s@/]+(?=@[\w-])",
    )
)
"""Words that announce a secret, with what follows. The first group is kept."""


def withheld(text: str) -> str:
    """The text with SECRET in the place of everything that is a secret by its form, or by the word before it."""
    text = hidden("", text)
    for said in _SAID:
        text = said.sub(rf"\g<1>{SECRET}", text)
    return text


def without_secrets(plan: Plan) -> Plan:
    """The plan as it may be shown: every text of it `withheld`, wherever it stands."""
    shown: Plan = _shown(plan)
    return shown


def _shown(value: Any) -> Any:  # noqa: ANN401 - any part of a plan
    match value:
        case str():
            return withheld(value)
        case tuple():
            return tuple(_shown(one) for one in value)
        case dict():
            return {key: _shown(one) for key, one in value.items()}
        case msgspec.Struct():
            shown = {key: _shown(one) for key, one in msgspec.structs.asdict(value).items()}
            return msgspec.structs.replace(value, **shown)
        case _:
            return value
