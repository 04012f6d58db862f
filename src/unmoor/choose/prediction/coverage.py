"""What there are kernel tables of: devices by name, so that a typo can be told from a device without tables."""

from __future__ import annotations

from unmoor.choose.prediction.kernel_tables import shipped_manifest
from unmoor.core.hardware import THIS_MACHINE

LIVE_DEVICES = (
    "a100_pcie",
    "a100_sxm",
    "a30",
    "b200_sxm",
    "b300_sxm",
    "b60",
    "gb200",
    "gb300",
    "h100_pcie",
    "h100_sxm",
    "h200_sxm",
    "l4",
    "l40s",
    "rtx_pro_6000_server",
)
"""The devices that aiconfigurator-core 0.12.0, the `predict` extra, names; not every engine has tables on each."""
LIVE_DEVICES_SEEN_ON = "2026-11-30"


def known_devices() -> tuple[str, ...]:
    """Every device name that some table has, shipped or of the `predict` extra, and "cpu"; sorted, each once.

    Not all devices there are: one that is missing here may be real and have no tables ("mi300x").
    """
    return tuple(sorted({THIS_MACHINE, *LIVE_DEVICES, *(row.device for row in shipped_manifest().tables)}))
