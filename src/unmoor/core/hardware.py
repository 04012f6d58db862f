"""How a model is laid out over devices."""

from __future__ import annotations

import msgspec

THIS_MACHINE = "cpu"
"""The device of a plan that means this machine's own processor: it is measured, and not predicted."""

TENSOR_PARALLEL_SIZES = (1, 2, 4, 8)


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """`replicas` copies of the model, each over `tp` devices."""

    replicas: int
    tp: int

    def __str__(self) -> str:
        return f"{self.replicas} × TP{self.tp}"


def layouts(devices: int, sizes: tuple[int, ...] = TENSOR_PARALLEL_SIZES) -> tuple[Layout, ...]:
    """Every way to use all `devices` with one tensor-parallel size, smallest size first."""
    return tuple(Layout(replicas=devices // tp, tp=tp) for tp in sizes if tp <= devices and devices % tp == 0)
