"""The kind of hardware that a device is, as formats of weights tell them apart."""

from __future__ import annotations

import re
from collections.abc import Mapping

from unmoor.core.errors import UsageError
from unmoor.core.nearest import did_you_mean
from unmoor.engines.surface.concepts import HARDWARE

# How the names of devices begin, as plans and vendors write them; the longest beginning decides.
_BEGINNINGS: Mapping[str, tuple[str, ...]] = {
    "nvidia_volta": ("v100",),
    "nvidia_turing": ("t4", "rtx_20"),
    "nvidia_ampere": ("a10", "a100", "a16", "a2", "a30", "a40", "rtx_30", "rtx_a"),
    "nvidia_ada": ("l4", "l20", "l40", "rtx_40", "rtx_6000_ada"),
    "nvidia_hopper": ("h100", "h200", "h20", "h800", "gh200"),
    "nvidia_blackwell": ("b100", "b200", "b300", "gb200", "gb300", "rtx_50", "rtx_pro"),
    "amd_cdna2": ("mi210", "mi250"),
    "amd_cdna3": ("mi300", "mi308", "mi325"),
    "amd_cdna4": ("mi350", "mi355"),
    "intel_xpu": ("b60", "arc", "max_1"),
    "intel_gaudi": ("gaudi",),
    "google_tpu": ("tpu",),
    "ascend_npu": ("ascend",),
    "apple_metal": ("apple",),
    "cpu_x86": ("cpu",),
}


def hardware_kind(name: str, *, where: str | None = None) -> str:
    """The key of `concepts.HARDWARE` for itself or for a device ("H200", "mi300x", "l40s"). Raises UsageError else."""
    plain = name.strip().casefold().replace("-", "_").replace(" ", "_")
    if plain in HARDWARE:
        return plain
    device = plain.removeprefix("nvidia_").removeprefix("amd_").removeprefix("intel_")
    begins = [(len(one), kind) for kind, ones in _BEGINNINGS.items() for one in ones if _is_of(device, one)]
    if begins:
        return max(begins)[1]
    raise UsageError(
        f"unknown hardware '{name}'",
        where=where,
        seen=name,
        expected="a kind of hardware, or a device such as h100 or mi300x",
        hint=did_you_mean(plain, HARDWARE),
    )


def _is_of(device: str, beginning: str) -> bool:
    """Whether the device's name begins so and goes on as such names do: a letter and a form factor after a number.

    "h100_sxm", "mi300x" and "l40s" do, "h201" does not; a series ("rtx_40", "gaudi") goes on in any way.
    """
    if not device.startswith(beginning):
        return False
    of_series = beginning.startswith("rtx") or not beginning[-1].isdigit() or beginning == "max_1"
    return of_series or re.fullmatch(r"[a-z]?(_.*)?", device[len(beginning) :]) is not None
