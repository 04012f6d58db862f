"""What headers say of tensors, whatever the container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from unmoor.leave.checkpoint.checkpoint import Problem


class Tensor(NamedTuple):
    """One tensor by its header: its type as the container writes it, its shape (outermost first), its bytes."""

    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class WeightsHeader:
    """The header of one file of weights: its tensors, and what it says besides."""

    file: str
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
