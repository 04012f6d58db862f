"""The options that the source engine is started with, as a command line says them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LaunchFlags:
    """One engine's start, taken apart.

    `given` maps each option as it was spelled ("--max-num-seqs") to its value ("" for a switch); `concepts` maps the
    concepts of `Surface.flags` that they are to those values; `unknown` are options that the source's surface has not.
    `env` are variables set before the command. `model` is what it serves.
    """

    where: str
    given: Mapping[str, str]
    concepts: Mapping[str, str]
    unknown: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
