"""Tokens of a prompt that are not of its text: of images, sounds and files, as the source counts them with the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.log import UNKNOWN
from unmoor.traffic.scratch import MEMORY, Scratch
from unmoor.traffic.tree import PromptTree

UNSHARED = "beyond_text_unshared"
_COUNT_BITS = 32


def lengthened(
    tree: PromptTree,
    node: NDArray[np.int32],
    rows: NDArray[np.int64],
    counted: NDArray[np.int32],
    scratch: Scratch = MEMORY,
) -> tuple[PromptTree, int]:
    """The tree with the prompts of `rows` as long as the source counts them, and how many tokens that added.

    `tree` is in tokens; `counted` has one row a request, and UNKNOWN leaves a prompt as it is. What is added is the end
    of a prompt, and is shared only by the same prompt again: where in the text an image's tokens are, and how many, no
    source says. `node`, where each request's prompt ends, is changed in place.
    """
    text = tree.end[node[rows]]
    longer = (counted[rows] != UNKNOWN) & (counted[rows] > text)
    rows = rows[longer]
    added = int((counted[rows] - text[longer]).sum())
    whole = (node[rows].astype(np.int64) << _COUNT_BITS) | counted[rows].astype(np.int64)
    prompts, number = np.unique(whole, return_inverse=True)
    size = len(tree)
    node[rows] = size + number.reshape(-1)
    parent = scratch.copy(tree.parent, size=size + len(prompts))
    end = scratch.copy(tree.end, size=size + len(prompts))
    parent[size:] = prompts >> _COUNT_BITS
    end[size:] = prompts & ((1 << _COUNT_BITS) - 1)
    return PromptTree(parent=parent, end=end), added


def unshared(added: int, prompt_tokens: int) -> tuple[Caveat, ...]:
    """The doubt about tokens that were added."""
    if not added:
        return ()
    text = (
        f"{added:,} prompt tokens ({added / prompt_tokens:.1%}) are of images, sounds or files, which were taken to be "
        "in no shared prefix unless the whole prompt came again: what is shared may be more, not less."
    )
    return (Caveat(code=UNSHARED, text=text),)
