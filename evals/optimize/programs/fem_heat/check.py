"""check.py REFERENCE OUT: compares results of fem_heat and checks the balance of energy."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path

START_TEMPERATURE = 300.0
NAMES = ["temperature", "capacity", "flux", "history"]


def read(path: str) -> dict[str, array[float]]:
    data = Path(path).read_bytes()
    arrays, at = {}, 0
    while at < len(data):
        name = data[at : at + 16].rstrip(b"\0").decode()
        end = at + 24 + 8 * int.from_bytes(data[at + 16 : at + 24], "little")
        arrays[name] = array("d", data[at + 24 : end])
        at = end
    return arrays


def differ(
    what: str, found: Sequence[float], expected: Sequence[float], relative: float, absolute: float
) -> None:
    """A comparison that is false for NaN is no agreement."""
    if len(found) != len(expected):
        raise ValueError(f"{what}: {len(found)} values instead of {len(expected)}")
    for i, (a, b) in enumerate(zip(found, expected)):
        if not abs(a - b) <= relative * abs(b) + absolute:
            raise ValueError(f"{what}[{i}]: {a!r} instead of {b!r}")


def check(reference: dict[str, array[float]], out: dict[str, array[float]]) -> None:
    if list(out) != NAMES:
        raise ValueError(f"arrays: {list(out)}")
    differ("capacity", out["capacity"], reference["capacity"], 1e-5, 0)
    differ("temperature", out["temperature"], reference["temperature"], 0, 1e-3)
    flux = reference["flux"]
    rms = math.sqrt(sum(value * value for value in flux) / len(flux))
    differ("flux", out["flux"], flux, 1e-3, 1e-3 * rms)

    # No heat leaves the solid and its parts: what was injected is what was gained.
    injected = reference["history"][1::3]
    start = START_TEMPERATURE * sum(reference["capacity"])
    energy = sum(c * t for c, t in zip(reference["capacity"], out["temperature"]))
    differ("energy gained", [energy - start], [sum(injected)], 1e-3, 0)
    energies, injections, hottest = (out["history"][i::3] for i in range(3))
    differ("injected", injections, injected, 1e-5, 0)
    differ("energy", energies, reference["history"][0::3], 1e-6, 0)
    differ("energy after the last step", energies[-1:], [energy], 1e-6, 0)
    differ("hottest", hottest, reference["history"][2::3], 0, 1e-3)
    differ("hottest after the last step", hottest[-1:], [max(out["temperature"])], 0, 1e-3)


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
