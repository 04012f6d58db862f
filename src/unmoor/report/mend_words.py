"""What to mend in the traffic's prompts first, as a decision says it."""

from __future__ import annotations

from unmoor.core.decision import Decision, MendFirst
from unmoor.report.profile_words import breaker_title, percent, tokens_short

MEND_FIRST = "First mend your prompts"


def mend_lines(decision: Decision) -> list[str]:
    """One line a habit, the first to mend first; empty where none was found."""
    return [_line(one) for one in decision.mend_first]


def mend_note(decision: Decision) -> str:
    """In how many requests that was found, and who says where; empty where nothing was."""
    if not decision.mend_first:
        return ""
    looked_at, requests = decision.mend_first[0].looked_at, decision.traffic.requests
    found = f"Found in the first {looked_at:,} requests. " if looked_at < requests else ""
    return f"{found}It helps with every engine; `unmoor profile LOG --plan PLAN` says where, and what it changes."


def _line(one: MendFirst) -> str:
    room = f" with {tokens_short(one.kv_tokens)} tokens of KV" if one.kv_tokens else ""
    return (
        f"{breaker_title(one.what)}: costs {percent(one.share_lost)} of prompt tokens, mending it gains "
        f"{percent(one.gain)}{room}. Fix: {one.fix}."
    )
