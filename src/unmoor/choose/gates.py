"""Gates: what a candidate must allow, whatever its speed. Answered from dated facts; open where no fact answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date

from unmoor.choose.facts import Fact, Facts
from unmoor.core.decision import GateResult
from unmoor.core.errors import PlanError
from unmoor.core.evidence import EvidenceKind
from unmoor.core.nearest import did_you_mean
from unmoor.core.plan import GatesPlan

# Licences that plans refuse and that no engine here is known to carry: names that must not read as a mistake.
_OTHER_LICENCES = frozenset({
    "AGPL-3.0-only", "AGPL-3.0-or-later", "BUSL-1.1", "CC-BY-NC-4.0", "Elastic-2.0", "GPL-2.0-only",
    "GPL-2.0-or-later", "GPL-3.0-only", "GPL-3.0-or-later", "LGPL-2.1-only", "LGPL-3.0-only", "SSPL-1.0",
})  # fmt: skip

LICENCE_SUBJECTS = ("licence", "bundled_licences")
HARDWARE_SUBJECTS = ("hardware", "hardware_elsewhere")


def check_gate_words(gates: GatesPlan, facts: Facts, *, where: Callable[[str], str]) -> None:
    """Nothing, for gates whose vendors, licences and languages are known words.

    `where` turns a word into its place in the plan. Raises PlanError, with the nearest known word, for any other: a
    vendor misspelt would otherwise pass for one that no engine supports.
    """
    vendors = facts.named(HARDWARE_SUBJECTS)
    _refuse_unknown("hardware_possible", gates.hardware_possible, vendors, where)
    licences = facts.named(LICENCE_SUBJECTS) | _OTHER_LICENCES
    _refuse_unknown("licences_refused", gates.licences_refused, licences, where)
    for language in gates.contract_languages:
        if not (len(language) == 2 and language.isascii() and language.islower()):  # noqa: PLR2004 - ISO 639-1
            raise PlanError(
                "not a language code in 'gates.contract_languages'",
                where=where(language),
                seen=language,
                expected="ISO 639-1 codes of two small letters, like 'en' or 'de'",
            )


def _refuse_unknown(key: str, words: Iterable[str], known: frozenset[str], where: Callable[[str], str]) -> None:
    for word in words:
        if word not in known:
            raise PlanError(
                f"unknown name in 'gates.{key}'",
                where=where(word),
                seen=word,
                expected=f"one of {', '.join(sorted(known))}",
                hint=did_you_mean(word, known),
            )


def apply_gates(gates: GatesPlan, engine: str, facts: Facts, today: date) -> tuple[GateResult, ...]:
    """One result for each gate that the plan sets, in the plan's order; none for a plan without gates.

    `passed` is None, an open question and not a pass, where no fact answers or where only a claim does. A fact older
    than it may be relied on still answers, and the reason says that it is stale.
    """
    results = []
    if gates.hardware_possible:
        results.append(_hardware(gates.hardware_possible, engine, facts, today))
    if gates.licences_refused:
        results.append(_licences(gates.licences_refused, engine, facts, today))
    if gates.security_policy_required:
        results.append(_flag("security_policy", engine, facts, today))
    if gates.support_required:
        results.append(_flag("support", engine, facts, today))
    if gates.contract_languages:
        results.append(_languages(gates.contract_languages, engine, facts, today))
    return tuple(results)


def _unknown(name: str, reason: str) -> GateResult:
    return GateResult(name=name, passed=None, reason=reason)


def _answer(name: str, passed: bool | None, reason: str, fact: Fact, today: date) -> GateResult:  # noqa: FBT001 - the answer itself
    if fact.kind is EvidenceKind.CLAIMED:
        passed = None
        reason = f"{reason} This is a third party's claim: get it in writing."
    if fact.is_stale(today):
        age = (today - fact.as_of).days
        reason = f"{reason} This fact is stale ({age} days old, good for {fact.stale_after_days}): {fact.recheck}."
    source = f"{fact.source}, {fact.version}"
    return GateResult(name=name, passed=passed, reason=reason, source=source, as_of=fact.as_of.isoformat())


def _hardware(wanted: tuple[str, ...], engine: str, facts: Facts, today: date) -> GateResult:
    name = "hardware_possible"
    here = facts.find(engine, "hardware")
    if here is None:
        return _unknown(name, "No fact says what hardware it runs on.")
    lacking = [vendor for vendor in wanted if vendor not in here.items]
    if not lacking:
        return _answer(name, True, f"Runs on {', '.join(wanted)}.", here, today)  # noqa: FBT003 - the answer
    elsewhere = facts.find(engine, "hardware_elsewhere")
    if elsewhere is not None and set(lacking) <= set(elsewhere.items):
        reason = f"Not in its own release for {', '.join(lacking)}. {elsewhere.claim}"
        return _answer(name, None, reason, elsewhere, today)
    return _answer(name, False, f"{', '.join(lacking)} not possible. {here.claim}", here, today)  # noqa: FBT003


def _licences(refused: tuple[str, ...], engine: str, facts: Facts, today: date) -> GateResult:
    name = "licences_refused"
    known = [fact for subject in LICENCE_SUBJECTS if (fact := facts.find(engine, subject))]
    for fact in known:
        found = [licence for licence in refused if licence in fact.items]
        if found:
            return _answer(name, False, f"{', '.join(found)} in its tree. {fact.claim}", fact, today)  # noqa: FBT003
    if not known:
        return _unknown(name, "No fact says under which licences it stands.")
    if facts.find(engine, "bundled_licences") is None:
        reason = f"Its own licence is {known[0].value}, which is not refused; what else its tree bundles was not read."
        return _answer(name, None, reason, known[0], today)
    return _answer(name, True, "None of the refused licences is among those listed.", known[-1], today)  # noqa: FBT003


def _flag(subject: str, engine: str, facts: Facts, today: date) -> GateResult:
    fact = facts.find(engine, subject)
    if fact is None:
        return _unknown(subject, f"No fact says whether there is {subject.replace('_', ' ')}.")
    there = bool(fact.value)
    label = f"{subject.replace('_', ' ')} {'found' if there else 'not found'}"
    return _answer(subject, there, f"{label.capitalize()}. {fact.claim}", fact, today)


def _languages(wanted: tuple[str, ...], engine: str, facts: Facts, today: date) -> GateResult:
    name = "contract_languages"
    fact = facts.find(engine, "support_languages")
    if fact is None:
        return _unknown(name, f"No fact says whether a contract can be had in {', '.join(wanted)}.")
    lacking = [language for language in wanted if language not in fact.items]
    reason = f"{', '.join(lacking)} not offered. {fact.claim}" if lacking else fact.claim
    return _answer(name, not lacking, reason, fact, today)
