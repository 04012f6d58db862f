"""A log's prompts as they are, and as they would be with all findings mended, both as trees of what they share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.tree import PromptTree


@dataclass(frozen=True, slots=True, eq=False)
class PromptsInTree:
    """Where each prompt ends in `tree`, in the log's order; the tree's ends are in a cutter's unit."""

    tree: PromptTree
    node: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Mended:
    """The same requests before all findings are mended, and after.

    Content is told apart to within `grain_units` of the cutter's unit, of which a token is `units_per_token`. `salt` is
    one number a request, equal where the adapters are; None where none is named.
    """

    before: PromptsInTree
    after: PromptsInTree
    salt: NDArray[np.int64] | None
    grain_units: int
    units_per_token: float

    def __len__(self) -> int:
        return len(self.after.node)
