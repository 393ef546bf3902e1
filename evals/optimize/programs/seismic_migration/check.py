"""check.py REFERENCE OUT: compares results of seismic_migration; no wave arrives before it can."""

from __future__ import annotations

import math
import sys
from array import array
from operator import sub
from pathlib import Path

NAMES = ["geometry", "observed", "image", "energy"]


def read(path: str) -> dict[str, array[float]]:
    data = Path(path).read_bytes()
    arrays, at = {}, 0
    while at < len(data):
        name = data[at : at + 16].rstrip(b"\0").decode()
        end = at + 24 + 4 * int.from_bytes(data[at + 16 : at + 24], "little")
        arrays[name] = array("f", data[at + 24 : end])
        at = end
    return arrays


def differ(what: str, found: array[float], expected: array[float], allowed: float) -> None:
    if len(found) != len(expected):
        raise ValueError(f"{what}: {len(found)} values instead of {len(expected)}")
    if not math.isfinite(sum(found)):
        raise ValueError(f"{what}: a value is not finite")
    worst = max(map(abs, map(sub, found, expected)))
    if not worst <= allowed:
        raise ValueError(f"{what}: differs by up to {worst!r}; {allowed!r} is allowed")


def rms(values: array[float]) -> float:
    return math.sqrt(sum(value * value for value in values) / len(values))


def arrivals(geometry: array[float]) -> list[float]:
    """In steps: when the fastest wave from the source can be at each receiver."""
    spacing, time_step, velocity, x, y, z = geometry[:6]
    return [
        math.dist((x, y, z), geometry[i : i + 3]) * spacing / velocity / time_step
        for i in range(6, len(geometry), 3)
    ]


def check(reference: dict[str, array[float]], out: dict[str, array[float]]) -> None:
    if list(out) != NAMES:
        raise ValueError(f"arrays: {list(out)}")
    differ("geometry", out["geometry"], reference["geometry"], 0)
    peak = max(map(abs, reference["observed"]))
    differ("observed", out["observed"], reference["observed"], 1e-4 * peak)
    differ("image", out["image"], reference["image"], 0.02 * rms(reference["image"]))
    for i, (a, b) in enumerate(zip(out["energy"], reference["energy"])):
        if not abs(a - b) <= 1e-3 * b + 1e-12:
            raise ValueError(f"energy[{i}]: {a!r} instead of {b!r}")
    if len(out["energy"]) != len(reference["energy"]):
        raise ValueError(f"energy: {len(out['energy'])} values")

    steps = len(out["observed"]) // ((len(out["geometry"]) - 6) // 3)
    for r, arrival in enumerate(arrivals(reference["geometry"])):
        # The stencil smears the front over its radius.
        silent = out["observed"][r * steps : r * steps + max(0, min(steps, int(arrival) - 8))]
        if silent and not max(map(abs, silent)) <= 1e-3 * peak:
            raise ValueError(f"observed: a wave arrives too early at receiver {r}")
    if not peak > 0 or not rms(out["image"]) > 0:
        raise ValueError("nothing was recorded")


def main() -> int:
    try:
        check(read(sys.argv[1]), read(sys.argv[2]))
    except (ValueError, OSError, KeyError, IndexError) as error:
        sys.stdout.write(f"FAILED: {error}\n")
        return 1
    sys.stdout.write("PASSED\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
