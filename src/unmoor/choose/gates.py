"""Gates: what a candidate must allow, whatever its speed. Answered from dated facts; open where no fact answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date

from unmoor.choose.devices import load_vendors, vendor_of, vendor_title
from unmoor.choose.facts import Fact, Facts
from unmoor.choose.languages import ISO_639_1
from unmoor.core.decision import GateResult
from unmoor.core.errors import PlanError
from unmoor.core.evidence import EvidenceKind
from unmoor.core.nearest import did_you_mean
from unmoor.core.plan import GatesPlan, HardwarePlan, Plan

LICENCE_SUBJECTS = ("licence", "bundled_licences")
HARDWARE_SUBJECTS = ("hardware", "hardware_elsewhere")
RUNS, FITS = "runs_on_hardware", "fits_hardware"
PLAN_KEYS = {
    "hardware_possible": "gates.hardware_possible",
    "licences_refused": "gates.licences_refused",
    "security_policy": "gates.security_policy_required",
    "support": "gates.support_required",
    "contract_languages": "gates.contract_languages",
}
"""The key of the plan that sets each gate; the two gates that the hardware sets have none."""
_VARIANTS = ("-only", "-or-later")


def check_gate_words(gates: GatesPlan, facts: Facts, *, where: Callable[[str], str]) -> None:
    """Nothing, for gates whose vendors and languages are known words. Any licence is let through.

    `where` turns a word into its place in the plan. Raises PlanError, with the nearest known word, for any other: a
    vendor misspelt would otherwise pass for one that no engine supports.
    """
    vendors = facts.named(HARDWARE_SUBJECTS) | {vendor.name for vendor in load_vendors()}
    _refuse_unknown("hardware_possible", gates.hardware_possible, vendors, where)
    for language in gates.contract_languages:
        if language not in ISO_639_1:
            raise PlanError(
                "not a language code in 'gates.contract_languages'",
                where=where(language),
                seen=language,
                expected="ISO 639-1 codes of two small letters, like 'en' or 'de'",
                hint="docs/reference/plan.md says what each gate takes",
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


def apply_gates(plan: Plan, engine: str, facts: Facts, today: date, *, too_large: str = "") -> tuple[GateResult, ...]:
    """Whether the engine runs on the plan's hardware, and one result for each gate that the plan sets, in its order.

    `too_large` is the reason why the model is predicted not to fit; then one more gate fails. `passed` is None, an open
    question and not a pass, where no fact answers or where only a claim does. A fact older than it may be relied on
    still answers, and the reason says that it is stale.
    """
    gates = plan.gates
    results = [_runs(plan.hardware, engine, facts, today)]
    if too_large:
        results.append(GateResult(name=FITS, passed=False, reason=too_large, source="prediction of memory"))
    if gates.hardware_possible:
        results.append(_hardware(gates.hardware_possible, engine, facts, today))
    if gates.licences_refused:
        results.append(_licences(gates.licences_refused, engine, facts, today))
    if gates.security_policy_required:
        results.append(_flag("security_policy", "the project's maintainers", engine, facts, today))
    if gates.support_required:
        results.append(_flag("support", "whoever sells it", engine, facts, today))
    if gates.contract_languages:
        results.append(_languages(gates.contract_languages, engine, facts, today))
    return tuple(results)


def _unknown(name: str, reason: str, question: str) -> GateResult:
    return GateResult(name=name, passed=None, reason=reason, question=question)


def _answer(name: str, passed: bool | None, reason: str, fact: Fact, today: date, *, question: str) -> GateResult:  # noqa: FBT001 - the answer itself
    if fact.kind is EvidenceKind.CLAIMED:
        passed = None
        reason = f"{reason} This is a third party's claim: get it in writing."
    if fact.is_stale(today):
        age = (today - fact.as_of).days
        reason = f"{reason} This fact is stale ({age} days old, good for {fact.stale_after_days}): {fact.recheck}."
    return GateResult(
        name=name,
        passed=passed,
        reason=reason,
        source=f"{fact.source}, {fact.version}",
        as_of=fact.as_of.isoformat(),
        question=question if passed is None else None,
    )


def _runs(hardware: HardwarePlan, engine: str, facts: Facts, today: date) -> GateResult:
    vendor = vendor_of(hardware)
    if vendor is None:
        reason = f"Nothing here says whose {hardware.device} is, so that no fact says whether it runs there."
        question = f"whether it runs on {hardware.device} (hardware.vendor in the plan answers it from the facts)"
        return _unknown(RUNS, reason, question)
    return _on_vendors(RUNS, (vendor,), engine, facts, today)


def _hardware(wanted: tuple[str, ...], engine: str, facts: Facts, today: date) -> GateResult:
    return _on_vendors("hardware_possible", wanted, engine, facts, today)


def _on_vendors(name: str, wanted: tuple[str, ...], engine: str, facts: Facts, today: date) -> GateResult:
    here = facts.find(engine, "hardware")
    question = f"whether it runs on {_listed(wanted)} (ask its project)"
    if here is None:
        return _unknown(name, "No fact says what hardware it runs on.", question)
    lacking = [vendor for vendor in wanted if vendor not in here.items]
    if not lacking:
        return _answer(name, True, f"Runs on {_listed(wanted)}.", here, today, question=question)  # noqa: FBT003 - the answer
    elsewhere = facts.find(engine, "hardware_elsewhere")
    if elsewhere is not None and set(lacking) <= set(elsewhere.items):
        reason = f"Not in its own release for {_listed(lacking)}. {elsewhere.claim}"
        question = f"whether {_listed(lacking)} outside its own release is enough (ask whoever maintains that port)"
        return _answer(name, None, reason, elsewhere, today, question=question)
    reason = f"Does not run on {_listed(lacking)}. {here.claim}"
    return _answer(name, False, reason, here, today, question=question)  # noqa: FBT003 - the answer


def _listed(vendors: Iterable[str]) -> str:
    return ", ".join(vendor_title(vendor) for vendor in vendors)


def _licences(refused: tuple[str, ...], engine: str, facts: Facts, today: date) -> GateResult:
    name = "licences_refused"
    known = [fact for subject in LICENCE_SUBJECTS if (fact := facts.find(engine, subject))]
    unread = f"whether its tree bundles anything under {', '.join(refused)} (read it: nobody did here)"
    for fact in known:
        found = [item for item in fact.items if any(_same_licence(item, licence) for licence in refused)]
        if found:
            reason = f"{', '.join(found)} in its tree. {fact.claim}"
            return _answer(name, False, reason, fact, today, question=unread)  # noqa: FBT003 - the answer
    if not known:
        return _unknown(name, "No fact says under which licences it stands.", unread)
    if facts.find(engine, "bundled_licences") is None:
        reason = f"Its own licence is {known[0].value}, which is not refused; what else its tree bundles was not read."
        return _answer(name, None, reason, known[0], today, question=unread)
    listed = dict.fromkeys(item for fact in known for item in fact.items)
    reason = f"None of {', '.join(refused)} is among those listed: {', '.join(listed)}."
    return _answer(name, True, reason, known[-1], today, question=unread)  # noqa: FBT003 - the answer


def _same_licence(listed: str, refused: str) -> bool:
    """Whether a refused licence is the listed one: "gpl-3.0" refuses GPL-3.0-only and GPL-3.0-or-later too."""
    one, other = listed.lower(), refused.lower()
    return one == other or any(one == other + variant for variant in _VARIANTS)


def _flag(subject: str, whom: str, engine: str, facts: Facts, today: date) -> GateResult:
    fact = facts.find(engine, subject)
    words = subject.replace("_", " ")
    question = f"whether there is {'a ' if subject == 'security_policy' else ''}{words} (ask {whom}, in writing)"
    if fact is None:
        return _unknown(subject, f"No fact says whether there is {words}.", question)
    there = bool(fact.value)
    label = f"{words} {'found' if there else 'not found'}"
    return _answer(subject, there, f"{label.capitalize()}. {fact.claim}", fact, today, question=question)


def _languages(wanted: tuple[str, ...], engine: str, facts: Facts, today: date) -> GateResult:
    name = "contract_languages"
    fact = facts.find(engine, "support_languages")
    question = f"whether a contract can be had in {', '.join(wanted)} (ask whoever sells support, in writing)"
    if fact is None:
        return _unknown(name, f"No fact says whether a contract can be had in {', '.join(wanted)}.", question)
    lacking = [language for language in wanted if language not in fact.items]
    reason = f"{', '.join(lacking)} not offered. {fact.claim}" if lacking else fact.claim
    return _answer(name, not lacking, reason, fact, today, question=question)
