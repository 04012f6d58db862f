"""Whose a device is, and whether its name is one that is known."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import cache
from importlib.resources import files

import msgspec

from unmoor.choose.prediction.coverage import known_devices
from unmoor.core.errors import PlanError
from unmoor.core.nearest import did_you_mean
from unmoor.core.plan import HardwarePlan

_CLOSE = 0.75
"""From this similarity on a name that is not known is taken for a slip of a known one (difflib's ratio)."""


class Vendor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A vendor's name in plans, as it is written, and its devices."""

    name: str
    title: str
    devices: tuple[str, ...]


class _Book(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    vendors: tuple[Vendor, ...]


@cache
def load_vendors() -> tuple[Vendor, ...]:
    """The vendors that ship with the package, with their devices."""
    content = (files("unmoor.choose") / "knowledge" / "devices.toml").read_bytes()
    return msgspec.toml.decode(content, type=_Book).vendors


def vendor_title(vendor: str) -> str:
    """The vendor as it is written; the plan's word for one that is not known."""
    return next((one.title for one in load_vendors() if one.name == vendor), vendor)


def vendor_of(hardware: HardwarePlan) -> str | None:
    """Whose the plan's device is: what the plan says, else what is known; None where neither says."""
    return hardware.vendor or next((one.name for one in load_vendors() if hardware.device in one.devices), None)


def device_names() -> frozenset[str]:
    """Every device whose name is known, with or without kernel tables."""
    return frozenset(known_devices()).union(*(one.devices for one in load_vendors()))


def check_device(hardware: HardwarePlan, *, where: Callable[[str], str]) -> None:
    """Nothing, for a device that is known, unlike any that is, or whose vendor the plan names.

    `where` turns a word into its place in the plan. Raises PlanError for a device that looks like a slip of a known one
    and for a vendor that is not known: both would otherwise be a device without evidence.
    """
    vendors = {one.name for one in load_vendors()}
    if hardware.vendor is not None and hardware.vendor not in vendors:
        raise PlanError(
            "unknown vendor in 'hardware.vendor'",
            where=where(hardware.vendor),
            seen=hardware.vendor,
            expected=f"one of {', '.join(sorted(vendors))}",
            hint=did_you_mean(hardware.vendor, vendors),
        )
    meant = _meant(hardware.device)
    if hardware.vendor is None and meant:
        raise PlanError(
            "unknown device in 'hardware.device'",
            where=where(hardware.device),
            seen=hardware.device,
            expected=f"{' or '.join(repr(name) for name in meant)}, or another device with hardware.vendor beside it",
            hint=f"did you mean '{meant[0]}'? docs/reference/plan.md lists the devices that are known",
        )


def _meant(device: str) -> tuple[str, ...]:
    """The known devices that an unknown name is probably a slip of, the likeliest first."""
    known = sorted(device_names())
    if device in known:
        return ()
    plain = device.lower().strip().replace("-", "_").replace(" ", "_").removeprefix("nvidia_").removeprefix("amd_")
    if plain in known:
        return (plain,)
    begun = [name for name in known if name.startswith(f"{plain}_")]
    if begun:
        return tuple(sorted(begun, key=lambda name: not name.endswith("_sxm")))
    return tuple(difflib.get_close_matches(plain, known, n=2, cutoff=_CLOSE))
