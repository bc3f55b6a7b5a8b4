"""The device table, and which device a trace's properties name."""

from __future__ import annotations

from typing import Any

import pytest

from shapescope.analyse.devices import GIB, device_named, devices, find_device, trace_device
from shapescope.errors import UsageError


def properties(name: str, memory: int, capability: tuple[int, int], sms: int, warp: int) -> dict[str, Any]:
    major, minor = capability
    return {
        "name": name,
        "totalGlobalMem": memory,
        "computeMajor": major,
        "computeMinor": minor,
        "numSms": sms,
        "warpSize": warp,
    }


# As the shared traces state them.
SEEN = [
    ("MI300X", properties("AMD Instinct MI300X", 206141652992, (9, 4), 304, 64)),
    ("MI300X", properties("", 206141652992, (9, 4), 304, 64)),
    ("MI300X", properties("AMD Instinct MI300X VF", 205571227648, (9, 4), 304, 64)),
    ("B200", properties("NVIDIA B200", 191503138816, (10, 0), 148, 32)),
    ("H100-SXM", properties("NVIDIA H100 80GB HBM3", 85018279936, (9, 0), 132, 32)),
    ("A100-40GB", properties("NVIDIA A100-PG509-200", 42297524224, (8, 0), 108, 32)),
    ("A100-SXM4-80GB", properties("NVIDIA A100-SXM4-80GB", 84990623744, (8, 0), 108, 32)),
    ("V100-SXM2", properties("Tesla V100-SXM2-32GB", 34079637504, (7, 0), 80, 32)),
]


@pytest.mark.parametrize(("expected", "stated"), SEEN)
def test_every_named_device_of_the_shared_traces_is_found(expected: str, stated: dict[str, Any]) -> None:
    device = find_device(stated)
    assert device is not None
    assert device.name == expected


@pytest.mark.parametrize(
    "stated",
    [
        properties("", 308000000000, (9, 5), 256, 64),  # MI350X or MI355X
        properties("", 85018279936, (8, 0), 108, 32),  # SXM or PCIe: different bandwidths
        properties("AMD Radeon Graphics", 68702699520, (9, 0), 104, 64),  # a name that says nothing
        properties("AMD Instinct MI300X", 206141652992 // 8, (9, 4), 38, 64),  # a CPX partition
        properties("NVIDIA A100-SXM4-80GB MIG 1g.10gb", 10 * GIB, (8, 0), 14, 32),
        properties("NVIDIA A10G", 23 * GIB, (8, 6), 80, 32),  # not an A10
        {"name": ""},
        {},
    ],
)
def test_what_is_not_certain_is_unknown(stated: dict[str, Any]) -> None:
    assert find_device(stated) is None


def test_a_trace_has_one_device_or_none() -> None:
    mi300x, b200 = SEEN[0][1], SEEN[3][1]
    assert trace_device([mi300x, mi300x]) is device_named("MI300X")
    assert trace_device([mi300x, b200]) is None
    assert trace_device([mi300x, {}]) is None
    assert trace_device([]) is None


def test_the_processor_count_tells_the_mi308x_from_the_mi300x() -> None:
    device = find_device(properties("", 206141652992, (9, 4), 80, 64))
    assert device is not None
    assert (device.name, dict(device.peak), device.bandwidth) == ("MI308X", {}, None)


def test_every_number_has_a_source_and_the_right_magnitude() -> None:
    assert len({device.name for device in devices()}) == len(devices())
    for device in devices():
        assert device.peak_source
        assert (device.bandwidth is None) == (device.bandwidth_source is None)
        assert all(1e12 < peak < 2e16 for peak in device.peak.values()), device.name
        assert device.bandwidth is None or 2e11 < device.bandwidth < 9e12
        order = [device.peak[kind] for kind in ("fp32", "tf32", "bf16", "fp8", "fp4") if kind in device.peak]
        assert order == sorted(order), device.name


def test_a_device_is_named_in_any_case_and_a_wrong_name_lists_the_right_ones() -> None:
    assert device_named("mi300x").peak["bf16"] == pytest.approx(1307.4e12)
    with pytest.raises(UsageError, match="H1000") as error:
        device_named("H1000")
    assert "H100-SXM" in error.value.hint
