"""Tokens of a prompt that are not of its text: of images, sounds and files, as the source counts them with the rest."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from unmoor.core.evidence import Caveat
from unmoor.traffic.log import UNKNOWN
from unmoor.traffic.tree import PromptTree

UNSHARED = "beyond_text_unshared"
_COUNT_BITS = 32


def lengthened(
    tree: PromptTree, node: array[int], rows: NDArray[np.int64], counted: NDArray[np.int32]
) -> tuple[PromptTree, int]:
    """The tree with the prompts of `rows` as long as the source counts them, and how many tokens that added.

    `tree` is in tokens; `counted` has one row a request, and UNKNOWN leaves a prompt as it is. What is added is the end
    of a prompt, and is shared only by the same prompt again: where in the text an image's tokens are, and how many, no
    source says. `node`, where each request's prompt ends, is changed in place.
    """
    ends = np.frombuffer(node, dtype=np.int32)
    text = tree.end[ends[rows]]
    longer = (counted[rows] != UNKNOWN) & (counted[rows] > text)
    rows = rows[longer]
    added = int((counted[rows] - text[longer]).sum())
    whole = (ends[rows].astype(np.int64) << _COUNT_BITS) | counted[rows].astype(np.int64)
    prompts, number = np.unique(whole, return_inverse=True)
    ends[rows] = len(tree) + number.reshape(-1)
    parent = np.concatenate((tree.parent, (prompts >> _COUNT_BITS).astype(np.int32)))
    end = np.concatenate((tree.end, prompts & ((1 << _COUNT_BITS) - 1)))
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
