"""The excesses of a launch, beside its first finding."""

from functools import cache
from pathlib import Path

import pytest

from evals.amounts.order import ALLOWED, orders
from keet.diagnosis.diagnosis import Diagnosis, diagnose
from keet.explanation.headline import verdict_of
from keet.explanation.launch_amounts import excesses
from tests.rows import each_row
from tests.unit.analysis.real_launches import SAMPLES, launch_of, profile_of

AMOUNTS = Path("evals/amounts")


@cache
def of_program(name: str, launch: int) -> Diagnosis:
    ending = ".ncu-repz" if name.startswith("programs/") else ".keet.json.zst"
    return diagnose(profile_of(AMOUNTS / f"{name}{ending}").launches[launch])


def ids(found: Diagnosis) -> list[str]:
    return [each.id for each in excesses(found.view)]


@each_row("path", [
    *(AMOUNTS / f"{name}.ncu-repz" for name in ("programs/topics", "programs/ising")),
    *(SAMPLES[name].report("slow") for name in ("tile_smooth", "stencil_march")),
])  # fmt: skip
@pytest.mark.slow
def test_no_excess_takes_more_than_the_first_finding_saves(path) -> None:
    found = orders(path)
    assert found
    assert [each for each in found if each.difference > ALLOWED] == []


@pytest.mark.slow
def test_excesses_of_each_kind() -> None:
    for name, launch, first in (
        ("programs/topics", 0, "loop.176"),
        ("programs/reactive", 2, "array.conduct"),
        ("programs/ising", 0, "per_item"),
    ):
        assert ids(of_program(name, launch))[0] == first
    assert "serial_loads" in ids(diagnose(launch_of("sph_density/root_and_quotient")))
    assert ids(diagnose(launch_of("matrix_flip")))[0] == "access.slow.cu:7"
    assert ids(diagnose(launch_of("column_physics")))[0] == "local_memory"
    # Each of six gathers costs less than a twentieth; together they cost a quarter.
    lines = range(207, 218)
    found = ids(of_program("programs/impact", 0))
    assert found[0] in [f"access.impact.cu:{line}" for line in lines]
    assert not ids(diagnose(launch_of("nbody/sources_from_global")))
    # Each byte is read once and written once.
    assert not ids(of_program("programs/reactive", 3))
    # Iterations of tiles compute with what they stored in shared memory.
    assert not ids(diagnose(launch_of("panel_product:fast")))


def test_arrays_share_the_time_of_their_finding() -> None:
    found = of_program("programs/reactive", 2)
    parts = [each.us or 0.0 for each in excesses(found.view) if each.id.startswith("array.")]
    saved = (found.view.value("duration") or 0.0) * (1 - 1 / found.findings[0].forecast.likely)
    assert (len(parts), sum(parts)) == (2, pytest.approx(saved / 1e3, rel=0.02))


@pytest.mark.slow
@each_row("name, launch, times, bound", [
    ("programs/topics", 0, "loop_loads_per_byte", "bound_arithmetic"),
    ("programs/reactive", 2, "most_again_l2", "bound_bytes_once"),
    ("programs/ising", 0, None, ""),
    ("known", 10, "l1_loads_per_read", None),
    ("known", 4, None, None),
])  # fmt: skip
def test_redundancy_is_said_with_how_often_and_the_least_time(name, launch, times, bound) -> None:
    found = of_program(name, launch)
    first, said = found.findings[0], verdict_of(found).headline.ids
    if times:
        assert first.id == "redundant_traffic"
        assert any(each.startswith(f"{times}#") for each in said), said
    if times is None or bound:
        bounds = [each for each in first.text.ids if each.startswith("bound_")]
        assert [each.partition("#")[0] for each in bounds] == ([bound] if bound else [])
        assert {*bounds} <= {each.id for each in first.evidence}
