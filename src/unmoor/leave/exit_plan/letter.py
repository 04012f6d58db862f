"""The two lines to whoever owns third-party risk: what is known of the security policy, and what is asked."""

from __future__ import annotations

from collections.abc import Sequence

from unmoor.leave.exit_plan.exit_plan import CitedFact, Letter, Side


def letter(
    to: str | None,
    model: str,
    serves: Side,
    ways_out: Sequence[Side],
    *,
    serves_today: bool,
    way_out_named: bool,
) -> Letter:
    """The letter. `ways_out` are the engines to leave to: the one that the plan names, else its other candidates."""
    does = "We serve" if serves_today else "We mean to serve"
    first = f"{does} {model} with {serves.name}. Its security policy: {_policy(serves)}"
    both = f"{serves.name}{_out(ways_out, named=way_out_named)}"
    second = (
        f"May we depend on {both} under our policy for third-party software? Please answer in writing: yes, no, or "
        "what is missing."
    )
    return Letter(to=to, lines=(first, second))


def _policy(side: Side) -> str:
    fact = side.fact("security_policy")
    if fact is None:
        return "no fact at hand says whether there is one."
    return f"{fact.text} ({fact.kind.value}: {_seen(fact)})"


def _out(ways_out: Sequence[Side], *, named: bool) -> str:
    if not ways_out:
        return ""
    parts = " or ".join(f"{side.name} ({_short(side)})" for side in ways_out)
    return f", and on {parts}, our way out," if named else f", and if we leave it, on {parts},"


def _short(side: Side) -> str:
    fact = side.fact("security_policy")
    if fact is None:
        return "no fact at hand on its security policy"
    there = "security policy published" if fact.answer else "no security policy found"
    return f"{there}: {_seen(fact)}"


def _seen(fact: CitedFact) -> str:
    aged = f", stale after {fact.good_until.isoformat()}: look again first" if fact.stale else ""
    return f"{fact.source}, seen {fact.as_of.isoformat()}{aged}"
