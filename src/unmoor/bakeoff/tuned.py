"""One engine's trials with all that was measured of them, and what that says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from unmoor.bakeoff import ledger
from unmoor.bakeoff.comparison import Standing, compare, standing
from unmoor.bakeoff.figures import Terms
from unmoor.bakeoff.ledger import Contender
from unmoor.bakeoff.result import DEFAULTS, Block, Comparison, Finding, Trial
from unmoor.core.plan import Plan
from unmoor.core.traffic import Request
from unmoor.measure.run_store import StoredRun


class Tuned:
    """One engine's trials, their blocks, and which of them stands best. A value: nothing in it changes."""

    def __init__(
        self,
        contender: Contender,
        trials: Sequence[Trial],
        blocks: Mapping[str, tuple[Block, ...]],
        *,
        refused: Mapping[str, str],
        terms: Terms,
        margin: float,
    ) -> None:
        self.contender = contender
        self.trials = tuple(trials)
        self.blocks = blocks
        self.refused = refused
        self.terms = terms
        self.margin = margin

    def screened(self, repeat: int) -> Tuned:
        """The same engine as its screen stood on the repeats before `repeat`: one knob at a time, no combination."""
        trials = tuple(trial for trial in self.trials if len(trial.knobs) <= 1)
        earlier = {t.name: tuple(b for b in self.blocks[t.name] if b.repeat < repeat) for t in trials}
        return Tuned(self.contender, trials, earlier, refused=self.refused, terms=self.terms, margin=self.margin)

    @cached_property
    def standing(self) -> Standing | None:
        """Which trial is best; None while the defaults have no record."""
        defaults = self.blocks.get(DEFAULTS, ())
        if not defaults:
            return None
        rivals = [self.blocks[trial.name] for trial in self.trials if trial.name != DEFAULTS]
        return standing([defaults, *(blocks for blocks in rivals if blocks)], self.terms, margin=self.margin)

    @cached_property
    def against_defaults(self) -> Mapping[str, tuple[Comparison, ...]]:
        """Each trial's comparisons with the defaults; without those that have no record."""
        defaults = self.blocks.get(DEFAULTS, ())
        rivals = {trial.name: self.blocks[trial.name] for trial in self.trials if trial.name != DEFAULTS}
        return {
            name: compare(defaults, blocks, self.terms, margin=self.margin)
            for name, blocks in rivals.items()
            if blocks and defaults
        }

    @property
    def effect_shown(self) -> bool:
        """Whether any trial differs from the defaults with an interval that is apart, for better or worse."""
        apart = (Finding.BETTER, Finding.WORSE)
        return any(found.finding in apart for against in self.against_defaults.values() for found in against)

    @property
    def at_best(self) -> tuple[Block, ...]:
        """The blocks of the best trial; empty where nothing was measured."""
        return self.blocks[self.standing.best] if self.standing else ()


def tuned_engines(
    stored: StoredRun, plan: Plan, requests: Sequence[Request], contenders: Sequence[Contender]
) -> tuple[Tuned, ...]:
    """Every contender as the run's directory has it now. Raises RunError."""
    kept = ledger.kept_of(stored, len(requests))
    events = kept.events
    terms = Terms(
        slo=plan.slo,
        left_out=plan.bakeoff.warmup_requests,
        seed=plan.bakeoff.seed,
        source=f"bake-off {stored.path.name}",
        as_of=stored.identity.started_on,
    )
    found = []
    for contender in contenders:
        trials = ledger.trials_of(events, contender)
        found.append(
            Tuned(
                contender,
                trials,
                {trial.name: kept.blocks_of(contender, trial.name) for trial in trials},
                refused=ledger.failed_of(events, contender),
                terms=terms,
                margin=plan.bakeoff.equivalence_margin,
            )
        )
    return tuple(found)
