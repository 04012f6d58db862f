"""What can be predicted of one candidate on hardware that is not here, and what may honestly be said of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from unmoor.core.evidence import Caveat, Figure
from unmoor.core.hardware import Layout
from unmoor.core.plan import HardwarePlan, ModelPlan
from unmoor.core.slo import Slo
from unmoor.core.traffic import Workload
from unmoor.engines.contract import Engine, Settings

Effort = Literal["coarse", "full"]


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What is predicted of one candidate; no figures and a caveat with the reason where nothing can be.

    `layout` is the layout with the highest predicted rate at the SLO; None where there is no figure, or no layout
    meets the SLO at any rate.
    """

    figures: tuple[Figure, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    layout: Layout | None = None


def predict_candidate(
    workload: Workload,  # noqa: ARG001 - likewise
    slo: Slo,  # noqa: ARG001 - likewise
    model: ModelPlan,
    hardware: HardwarePlan,
    *,
    engine: Engine,
    version: str | None,  # noqa: ARG001 - the rules that read it come with the tables
    settings: Settings,  # noqa: ARG001 - likewise
    effort: Effort,  # noqa: ARG001 - likewise
    say: Callable[[str], None],
) -> Prediction:
    """The prediction for `engine` at `version` (None: its known version) under `settings` on this traffic."""
    say(f"{engine.title}: no kernel table")
    reason = f"no kernel table for {model.name} {model.weights} on {hardware.device} with {engine.title}"
    return Prediction(caveats=(Caveat(code="no_kernel_table", text=reason),))
