"""Compares results of lattice_flow with those of the reference, and checks what any flow keeps."""

from __future__ import annotations

import struct
import sys
from array import array
from pathlib import Path

SERIES = 6
BODIES = 15
CELL = ("density", "velocity x", "velocity y", "velocity z", "vorticity")
TRACER = ("x", "y", "z", "path")

Results = dict[str, list[float]]


class WrongResultError(Exception):
    pass


def expect(holds: object, message: str) -> None:
    if not holds:
        raise WrongResultError(message)


def read(path: str) -> Results:
    data = Path(path).read_bytes()
    blocks: Results = {}
    position = 0
    while position < len(data):
        name = data[position : position + 23].rstrip(b"\0").decode()
        kind = chr(data[position + 23])
        (count,) = struct.unpack_from("<Q", data, position + 24)
        values = array(kind)
        end = position + 32 + count * values.itemsize
        values.frombytes(data[position + 32 : end])
        blocks[name] = [float(value) for value in values]
        position = end
    return blocks


def compare(what: str, reference: list[float], found: list[float], tolerance: float) -> None:
    expect(len(reference) == len(found), f"{what}: {len(found)} values, not {len(reference)}")
    # A NaN is not within the tolerance.
    wrong = sum(not abs(a - b) <= tolerance for a, b in zip(reference, found))
    expect(wrong == 0, f"{what}: {wrong} of {len(found)} differ by more than {tolerance:g}")


def check_balance(found: Results) -> None:
    """Mass stays; momentum changes by the body force less what the bodies take."""
    steps, fluid = int(found["sizes"][3]), found["sizes"][5]
    series, forces = found["series"], found["forces"]
    expect(len(series) == SERIES * (steps + 1), "series has another length")
    expect(len(forces) == 3 * BODIES * steps, "forces has another length")
    mass = series[0::SERIES]
    expect(all(abs(m - mass[0]) <= 5e-6 * fluid for m in mass), "mass is not kept")
    for axis in range(3):
        momentum = series[1 + axis :: SERIES]
        given = fluid * found["body_force"][0] if axis == 0 else 0.0
        for step in range(steps):
            taken = sum(forces[3 * BODIES * step + axis : 3 * BODIES * (step + 1) : 3])
            left = momentum[step + 1] - momentum[step] - given + taken
            expect(
                abs(left) <= 1e-7 * fluid,
                f"step {step}: momentum along {'xyz'[axis]} is off its balance by {left:g}",
            )


def check_sums(found: Results) -> None:
    """The last line of the series is what the host sums up from the fields."""
    fluid = found["sizes"][5]
    expect(len(found["sums"]) == 5, "sums: another length")
    last = found["series"][-SERIES:]
    for name, told, summed in zip(("mass", "x", "y", "z", "energy"), last, found["sums"]):
        expect(
            abs(told - summed) <= 1e-7 * fluid, f"{name}: {told:g} told, {summed:g} in the fields"
        )


def check_tracers(found: Results) -> None:
    nx, ny, nz, _, tracers = (int(size) for size in found["sizes"][:5])
    slabs = found["slabs"]
    for start in range(0, len(slabs), nx):
        expect(sum(slabs[start : start + nx]) == tracers, "a count of slabs lost tracers")
    for axis, extent in enumerate((nx, ny, nz)):
        expect(all(0 <= p <= extent for p in found["tracers"][axis::4]), "a tracer left the domain")


def tracer_difference(axis: int, extents: list[float], pair: tuple[float, float]) -> float:
    apart = abs(pair[0] - pair[1])
    return min(apart, abs(extents[axis] - apart)) if axis < 2 else apart  # x and y are periodic


def check_reference(reference: Results, found: Results) -> None:
    expect(reference["sizes"] == found["sizes"], "another seed or size than the reference")
    fluid = reference["sizes"][5]
    for i, name in enumerate(("mass", "momentum x", "momentum y", "momentum z", "energy")):
        compare(name, reference["series"][i::SERIES], found["series"][i::SERIES], 5e-6 * fluid)
    compare("highest speed", reference["series"][5::SERIES], found["series"][5::SERIES], 1e-5)
    scale = max(abs(force) for force in reference["forces"])
    compare("forces", reference["forces"], found["forces"], 1e-5 * scale)
    for i, name in enumerate(CELL):
        compare(name, reference["cells"][i::5], found["cells"][i::5], 1e-5)
    # A tracer at the very edge of a slab may be counted on the other side of it.
    moved = sum(abs(a - b) for a, b in zip(reference["slabs"], found["slabs"]))
    expect(len(reference["slabs"]) == len(found["slabs"]), "slabs: another length")
    expect(moved <= 20 + 2e-5 * sum(reference["slabs"]), f"slabs: counts differ by {moved} in all")
    expect(len(reference["tracers"]) == len(found["tracers"]), "tracers: another length")
    for i, name in enumerate(TRACER):
        pairs = zip(reference["tracers"][i::4], found["tracers"][i::4])
        wrong = sum(not tracer_difference(i, found["sizes"], pair) <= 1e-3 for pair in pairs)
        expect(wrong == 0, f"{name} of {wrong} tracers differs by more than 0.001")


def main() -> int:
    reference, found = read(sys.argv[1]), read(sys.argv[2])
    try:
        check_reference(reference, found)
        check_balance(found)
        check_sums(found)
        check_tracers(found)
    except (WrongResultError, KeyError, IndexError, ValueError) as wrong:
        sys.stdout.write(f"FAILED: {wrong}\n")
        return 1
    sys.stdout.write("PASSED\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
