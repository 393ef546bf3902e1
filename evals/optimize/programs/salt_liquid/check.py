"""Compares results of salt_liquid with those of the reference, and checks what any liquid keeps."""

from __future__ import annotations

import math
import struct
import sys
from array import array
from pathlib import Path

SERIES = 11
THIN = 11
KINETIC, VIRIAL, SQUARE_WAY, SCALE, IN_CELLS = 0, 4, 8, 9, 10
PROBES = 3
PLACE = 1e-3

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


def column(found: Results, name: int) -> list[float]:
    return found["series"][name::SERIES]


def check_conservation(found: Results) -> None:
    """Momentum stays zero, energy what the thermostat leaves, and every particle is in a cell."""
    count, steps = int(found["sizes"][0]), int(found["sizes"][1])
    expect(len(found["series"]) == SERIES * (steps + 1), "series has another length")
    for axis in range(3):
        momentum = column(found, 5 + axis)
        expect(
            all(abs(p) <= 2e-6 * count for p in momentum), f"momentum along {'xyz'[axis]} drifts"
        )
    kinetic, scale = column(found, KINETIC), column(found, SCALE)
    potential = [sum(energies) for energies in zip(*(column(found, 1 + kind) for kind in range(3)))]
    for step in range(steps):
        before = scale[step] ** 2 * kinetic[step] + potential[step]
        off = kinetic[step + 1] + potential[step + 1] - before
        expect(abs(off) <= 5e-4 * count, f"step {step + 1}: energy is off by {off:g}")
    expect(all(n == count for n in column(found, IN_CELLS)), "cells lost particles")


def pair_force(r: float, epsilon: float, sigma: float, charges: float, found: Results) -> float:
    _, _, screening, coupling = found["constants"]
    sixth = (sigma / r) ** 6
    lj = 24 * epsilon * (2 * sixth * sixth - sixth) / r
    return lj + coupling * charges * math.exp(-screening * r) * (screening + 1 / r) / r


def force_on(i: int, found: Results) -> list[float]:
    """Of all other particles, without cells."""
    box, cutoff = found["constants"][:2]
    place = [found[axis][i] for axis in "xyz"]
    table = [found["species_table"][4 * k : 4 * k + 4] for k in range(4)]
    _, epsilon, sigma, charge = table[int(found["species"][i])]
    near, far = cutoff, box - cutoff
    # Most particles are out of reach along x already.
    x = place[0]
    candidates = [j for j, other in enumerate(found["x"]) if not near < abs(other - x) < far]
    force = [0.0, 0.0, 0.0]
    for j in candidates:
        apart = [place[k] - found[axis][j] for k, axis in enumerate("xyz")]
        apart = [d - box * round(d / box) for d in apart]
        r = math.hypot(*apart)
        if j == i or r >= cutoff:
            continue
        _, other_epsilon, other_sigma, other_charge = table[int(found["species"][j])]
        pair = (
            math.sqrt(epsilon * other_epsilon),
            (sigma + other_sigma) / 2,
            charge * other_charge,
        )
        strength = pair_force(r, *pair, found) - pair_force(cutoff, *pair, found)
        force = [f + strength * d / r for f, d in zip(force, apart)]
    return force


def check_forces(found: Results) -> None:
    """The forces of a few particles follow from all positions."""
    written = len(found["motion"]) // 6
    for probe in range(PROBES):
        k = (probe * 7919 + 13 * int(found["sizes"][3])) % written
        told = found["motion"][6 * k + 3 : 6 * k + 6]
        summed = force_on(THIN * k, found)
        wrong = max(abs(a - b) for a, b in zip(told, summed))
        expect(
            wrong <= 2e-3 + 1e-4 * math.hypot(*summed), f"force on {THIN * k} is off by {wrong:g}"
        )


def check_positions(found: Results) -> None:
    box = found["constants"][0]
    for axis in "xyz":
        expect(len(found[axis]) == found["sizes"][0], f"{axis}: another number of particles")
        inside = min(found[axis]) >= 0 and max(found[axis]) <= box
        expect(inside, f"{axis}: a particle is outside the box")


def compare_periodic(what: str, reference: list[float], found: list[float], box: float) -> None:
    apart = (abs(a - b) for a, b in zip(reference, found))
    wrong = sum(not (d <= PLACE or abs(d - box) <= PLACE) for d in apart)
    expect(wrong == 0, f"{what}: {wrong} of {len(found)} differ by more than {PLACE}")


def check_reference(reference: Results, found: Results) -> None:
    for name in ("sizes", "constants", "species_table", "species"):
        expect(reference[name] == found[name], f"{name} is not that of the reference")
    count = reference["sizes"][0]
    for i in range(SERIES):
        expected = column(reference, i)
        # What should be zero is as far from it as the sums of rounded numbers.
        noise = 0.0 if i in (SQUARE_WAY, SCALE) else 2e-5 * count
        compare(f"series {i}", expected, column(found, i), noise + 1e-4 * max(map(abs, expected)))
    expect(len(reference["histogram"]) == len(found["histogram"]), "histogram: another length")
    for told, count_ in zip(found["histogram"], reference["histogram"]):
        # Pairs at the very edge of a bin may fall on either side of it.
        expect(abs(told - count_) <= 50 + 1e-3 * count_, f"histogram: {told:g}, not {count_:g}")
    apart = abs(sum(reference["histogram"]) - sum(found["histogram"]))
    expect(apart <= 50 + 1e-5 * sum(reference["histogram"]), "histogram: another number of pairs")
    for axis in "xyz":
        compare_periodic(axis, reference[axis], found[axis], reference["constants"][0])
    for i in range(6):
        name = ("velocity", "force")[i // 3] + " " + "xyz"[i % 3]
        tolerance = 1e-2 if i < 3 else 0.3
        compare(name, reference["motion"][i::6], found["motion"][i::6], tolerance)


def main() -> int:
    reference, found = read(sys.argv[1]), read(sys.argv[2])
    try:
        check_positions(found)
        check_reference(reference, found)
        check_conservation(found)
        check_forces(found)
    except (WrongResultError, KeyError, IndexError, ValueError) as wrong:
        sys.stdout.write(f"FAILED: {wrong}\n")
        return 1
    sys.stdout.write("PASSED\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
