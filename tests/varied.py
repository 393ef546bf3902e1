"""Makes different copies of real reports, for tests and benchmarks that need many."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import REPORTS

_PLACE = b"linux-desktop-glibc"
"""In ncu's command line, which every report has once: nothing that keet judges by."""
SMALL = ("graph", "metrics_only", "nvtx", "range")
LAUNCHES = 9
"""In the four of them together."""


def varied(data: bytes, number: int) -> bytes:
    """The same report with different content of the same size."""
    assert data.count(_PLACE) == 1
    return data.replace(_PLACE, b"linux-desktop-%05d" % number)


def write_varied(folder: Path, count: int) -> list[Path]:
    """`count` small reports, each unlike the others."""
    originals = [(REPORTS / f"{name}.ncu-rep").read_bytes() for name in SMALL]
    paths = [folder / f"{SMALL[n % len(SMALL)]}_{n:04}.ncu-rep" for n in range(count)]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(varied(originals[number % len(originals)], number))
    return paths
