"""Requests dealt out: to several adapters by weight, and to several forms of answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from unmoor.engines.wire import AnswerForm
from unmoor.measure.client.load import PlannedRequest


class AskMix(msgspec.Struct, frozen=True, kw_only=True):
    """What requests of one load may differ in; what is empty leaves them to their target.

    `weights` are names under which a server answers, each with a weight above 0; they need not sum to 1. `forms` are
    asked for equally often.
    """

    weights: dict[str, float] = {}
    forms: tuple[AnswerForm, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in their order."""
        return tuple(self.weights)

    def dealt(self, planned: Sequence[PlannedRequest], *, seed: int | None) -> tuple[PlannedRequest, ...]:
        """The requests, each with a name and a form drawn at random; turns of one session ask the same name.

        With a `seed` the same in each run; without, another.
        """
        rng = np.random.default_rng(seed)
        dealt = _named(planned, self.weights, rng) if self.weights else tuple(planned)
        if not self.forms:
            return dealt
        places = rng.integers(len(self.forms), size=len(dealt))
        return tuple(
            replace(request, form=self.forms[int(place)]) for request, place in zip(dealt, places, strict=True)
        )


def _named(
    planned: Sequence[PlannedRequest], weights: dict[str, float], rng: np.random.Generator
) -> tuple[PlannedRequest, ...]:
    names, shares = tuple(weights), np.array(list(weights.values()))
    drawn = rng.choice(len(names), size=len(planned), p=shares / shares.sum())
    of_session: dict[str, str] = {}
    dealt = []
    for request, place in zip(planned, drawn, strict=True):
        name = names[int(place)]
        if request.session is not None:
            name = of_session.setdefault(request.session, name)
        dealt.append(replace(request, model=name))
    return tuple(dealt)
