from __future__ import annotations

import pytest

from unmoor.choose.devices import check_device, device_names, load_vendors, vendor_of
from unmoor.choose.facts import load_facts
from unmoor.choose.gates import HARDWARE_SUBJECTS
from unmoor.choose.prediction.coverage import known_devices
from unmoor.core.errors import PlanError
from unmoor.core.plan import HardwarePlan


def test_every_device_with_kernel_tables_has_a_vendor() -> None:
    assert [name for name in known_devices() if vendor_of(HardwarePlan(device=name)) is None] == []


def test_every_vendor_that_a_fact_names_is_known_and_no_device_has_two() -> None:
    vendors = load_vendors()
    assert load_facts().named(HARDWARE_SUBJECTS) <= {one.name for one in vendors}
    listed = [device for one in vendors for device in one.devices]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("H100", "h100_sxm"), ("h100-sxm", "h100_sxm"), ("h10_sxm", "h100_sxm"), ("MI300X", "mi300x"),
        ("NVIDIA L40S", "l40s"),
    ],
)  # fmt: skip
def test_a_slip_of_a_known_device_is_refused_with_the_one_that_was_meant(written: str, meant: str) -> None:
    with pytest.raises(PlanError) as caught:
        check_device(HardwarePlan(device=written), where=lambda word: f"plan.toml: {word}")
    assert caught.value.where == f"plan.toml: {written}"
    assert caught.value.hint
    assert caught.value.hint.startswith(f"did you mean '{meant}'?")


@pytest.mark.parametrize("name", ["abacus", "wafer_scale_3", *sorted(device_names())])
def test_a_device_that_is_known_or_like_none_is_let_through(name: str) -> None:
    check_device(HardwarePlan(device=name), where=str)


def test_a_device_whose_vendor_the_plan_names_is_no_slip() -> None:
    check_device(HardwarePlan(device="h101_sxm", vendor="nvidia"), where=str)
    assert vendor_of(HardwarePlan(device="h101_sxm", vendor="nvidia")) == "nvidia"
    with pytest.raises(PlanError, match="unknown vendor"):
        check_device(HardwarePlan(device="h101_sxm", vendor="nvda"), where=str)
