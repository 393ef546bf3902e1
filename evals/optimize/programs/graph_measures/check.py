"""check.py REFERENCE OUT: compares results of graph_measures and checks what holds in any graph."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from itertools import starmap
from operator import eq, le, sub
from pathlib import Path
from typing import Any

EXACT = ["histogram", "triangles", "total", "component", "component_size", "core"]
CLOSE = {"neighbours": 1e-4, "rank": 1e-4, "clustering": 1e-5, "closeness": 1e-5}
SMALLEST = 1e-12


def read(path: str) -> dict[str, array[Any]]:
    data = Path(path).read_bytes()
    arrays, at = {}, 0
    while at < len(data):
        name = data[at : at + 15].rstrip(b"\0").decode()
        values: array[Any] = array(chr(data[at + 15]))
        end = at + 24 + values.itemsize * int.from_bytes(data[at + 16 : at + 24], "little")
        values.frombytes(data[at + 24 : end])
        arrays[name] = values
        at = end
    return arrays


def ensure(holds: bool, what: str) -> None:  # noqa: FBT001  # an assertion
    if not holds:
        raise ValueError(what)


def differ(what: str, found: Sequence[float], expected: Sequence[float], relative: float) -> None:
    for v, (a, b) in enumerate(zip(found, expected)):
        if not abs(a - b) <= relative * abs(b) + SMALLEST:
            raise ValueError(f"{what}[{v}]: {a!r} instead of {b!r}")


def check(reference: dict[str, array[Any]], out: dict[str, array[Any]]) -> None:
    ensure(list(out) == list(reference), f"arrays: {list(out)}")
    for name, expected in reference.items():
        found = out[name]
        ensure(found.typecode == expected.typecode, f"{name}: type")
        ensure(len(found) == len(expected), f"{name}: {len(found)} values")
    for name in EXACT:
        if out[name] != reference[name]:
            pairs = zip(out[name], reference[name])
            where = next(v for v, (a, b) in enumerate(pairs) if a != b)
            raise ValueError(f"{name}[{where}]: {out[name][where]}, not {reference[name][where]}")
    for name, relative in CLOSE.items():
        differ(name, out[name], reference[name], relative)

    vertices = len(out["rank"])
    component, sizes = out["component"], out["component_size"]
    ensure(sum(out["histogram"]) == vertices, "the histogram has not each vertex once")
    ensure(abs(sum(out["rank"]) - 1) < 1e-5, "the sum of the ranks is not 1")
    ensure(sum(map(abs, map(sub, out["rank"], reference["rank"]))) < 1e-6, "ranks differ")
    ensure(sum(out["triangles"]) == 3 * out["total"][0], "triangles do not add up")
    ensure(sum(sizes) == vertices, "components do not add up")
    ensure(all(map(le, component, range(vertices))), "a lower vertex in a component")
    ensure(all(starmap(eq, ((component[c], c) for c in set(component)))), "a label is no root")
    ensure(all(0 <= value <= 1 for value in out["clustering"]), "clustering beyond 1")


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
