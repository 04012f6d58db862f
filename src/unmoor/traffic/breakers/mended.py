"""A log's prompts as they are, and as they would be with all findings mended, both as trees of what they share."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unmoor.traffic.token_ends import in_tokens
from unmoor.traffic.tree import PromptTree


@dataclass(frozen=True, slots=True, eq=False)
class PromptsInTree:
    """Where each prompt ends in `tree`, in the log's order."""

    tree: PromptTree
    node: NDArray[np.int32]

    def in_tokens(self, units_per_token: float) -> PromptsInTree:
        """With the tree's ends, that are in a cutter's unit, in tokens."""
        return replace(self, tree=in_tokens(self.tree, units_per_token))


@dataclass(frozen=True, slots=True, eq=False)
class Mended:
    """The same requests before all findings are mended, and after.

    Both trees are in tokens, and content is told apart to within `grain_tokens`. `salt` is one number a request, equal
    where adapters and models are; None where they all are.
    """

    before: PromptsInTree
    after: PromptsInTree
    salt: NDArray[np.int64] | None
    grain_tokens: int

    def __len__(self) -> int:
        return len(self.after.node)
