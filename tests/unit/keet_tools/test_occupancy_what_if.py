"""The arithmetic of occupancy against ncu's own: block limits and what-if curves of real reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from keet_tools.occupancy_what_if import (
    Configuration,
    Limits,
    Machine,
    limits,
    shared_unit,
    warps_of,
)

from keet.errors import KeetError
from keet.ingest import read_profile
from keet.profile import Launch
from tests.conftest import CORPUS, REPORTS, TESTS, corpus_files, needs_corpus

_LIMITS = (
    "block_limit_registers",
    "block_limit_shared_memory",
    "block_limit_warps",
    "block_limit_sm",
)
_SAMPLES = sorted((TESTS.parent / "kernels_samples").glob("*/*.ncu-rep*"))


def value(launch: Launch, metric: str) -> int:
    found = launch.get(metric)
    return int(found.value) if found else 0


def machine(launch: Launch, *, largest: bool = False) -> Machine:
    whole = value(launch, "device_shared_memory_per_sm")
    return Machine(
        warps=value(launch, "device_warps_per_sm"),
        blocks=value(launch, "device_blocks_per_sm") or value(launch, "block_limit_sm"),
        registers=value(launch, "device_registers_per_sm"),
        shared=whole if largest else value(launch, "shared_memory_config") or whole,
        shared_unit=shared_unit(launch.device.compute_capability),
    )


def block(launch: Launch) -> Configuration:
    parts = ("shared_memory_static", "shared_memory_dynamic", "shared_memory_driver")
    return Configuration(
        value(launch, "block_size"),
        value(launch, "registers_per_thread"),
        sum(value(launch, part) for part in parts),
    )


def launches(paths: list[Path]) -> Iterator[Launch]:
    for path in paths:
        try:
            profile = read_profile(path)
        except KeetError:
            continue
        yield from filter(has_limits, profile.launches)


def has_limits(launch: Launch) -> bool:
    """An old ncu has NaN for the shared memory of a kernel without any. A page that ncu printed does
    not have the registers of an SM."""
    found = [launch.get(metric) for metric in (*_LIMITS, "device_registers_per_sm")]
    return all(limit is not None and limit.value == limit.value for limit in found)


def reported(launch: Launch) -> tuple[int, ...]:
    return tuple(value(launch, metric) for metric in _LIMITS)


@pytest.mark.slow
def test_occupancy_limits_agree_with_ncu_in_all_samples() -> None:
    checked = list(launches([*_SAMPLES, *sorted(REPORTS.iterdir())]))
    assert len(checked) > 100
    for launch in checked:
        assert limits(machine(launch), block(launch))[:4] == reported(launch), launch


@needs_corpus
def test_occupancy_limits_agree_with_ncu_in_other_reports() -> None:
    checked = list(launches(corpus_files()))
    assert len(checked) > 100
    for launch in checked:
        new, old = (limits(machine(launch, largest=way), block(launch)) for way in (False, True))
        assert reported(launch) in (new[:4], old[:4]), launch


@needs_corpus
def test_an_old_ncu_took_the_largest_shared_memory() -> None:
    """Up to 2021.2, whatever the launch was given."""
    launch = read_profile(
        CORPUS / "ZSL98__bitwise_spgemm--profiling_results__sgemm.ncu-rep"
    ).launches[0]
    assert reported(launch) == limits(machine(launch, largest=True), block(launch))[:4]
    assert reported(launch) != limits(machine(launch), block(launch))[:4]


@pytest.mark.parametrize(
    ("curve", "changed"),
    [
        ("launch__occupancy_per_register_count", "registers"),
        ("launch__occupancy_per_block_size", "threads"),
        ("launch__occupancy_per_shared_mem_size", "shared"),
    ],
)
def test_what_if_agrees_with_ncus_curves(curve: str, changed: str) -> None:
    points = 0
    for launch in launches(_SAMPLES[::5]):
        have, room = block(launch), machine(launch)
        barriers = value(launch, "block_limit_barriers") or None
        most = min(room.shared, value(launch, "device_shared_memory_per_block_optin"))
        parts = launch.instances(curve)
        for key, warps in parts.pairs() if parts else ():
            # Beyond the memory that the launch was given, or a block may have, ncu's curve is a constant.
            if not isinstance(key, int) or not key or (changed == "shared" and key > most):
                continue
            other = have._replace(**{changed: key})
            least = limits(room, other, barriers).least
            assert least * warps_of(room, other.threads) == warps, (launch, key)
            points += 1
    assert points > 500


def test_the_smallest_limit_decides() -> None:
    assert Limits(4, 2, 8, 32, 2).binding == ("shared", "barriers")
    assert Limits(4, 2, 8, 32).least == 2


def test_a_block_that_does_not_fit() -> None:
    sm = Machine(warps=64, blocks=32, registers=65536, shared=65536, shared_unit=128)
    assert limits(sm, Configuration(1024, 255, 0)).least == 0
    assert limits(sm, Configuration(32, 0, 0)).registers == sm.blocks
