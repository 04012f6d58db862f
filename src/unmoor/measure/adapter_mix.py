"""Requests dealt out to adapters by weight."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from unmoor.measure.load import PlannedRequest


class AdapterMix(msgspec.Struct, frozen=True, kw_only=True):
    """Names under which a server answers, each with a weight above 0. They need not sum to 1."""

    weights: dict[str, float]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in their order."""
        return tuple(self.weights)

    def dealt(self, planned: Sequence[PlannedRequest], *, seed: int | None) -> tuple[PlannedRequest, ...]:
        """The requests, each asking one of the names, drawn by weight; turns of one session ask the same.

        With a `seed` the same names in each run; without, others.
        """
        names, weights = self.names, np.array(list(self.weights.values()))
        drawn = np.random.default_rng(seed).choice(len(names), size=len(planned), p=weights / weights.sum())
        of_session: dict[str, str] = {}
        dealt = []
        for request, place in zip(planned, drawn, strict=True):
            name = names[int(place)]
            if request.session is not None:
                name = of_session.setdefault(request.session, name)
            dealt.append(replace(request, model=name))
        return tuple(dealt)
