"""Makes different copies of real reports, for tests and benchmarks that need many."""

from pathlib import Path

from tests.conftest import REPORTS
from tests.kept_reports import unpacked

_PLACE = b"linux-desktop-glibc"
"""In ncu's command line, which every report has once: nothing that keet judges by."""
SMALL = ("graph.ncu-repz", "metrics_only.ncu-repz", "nvtx.ncu-repz", "range.ncu-rep")
LAUNCHES = 9
"""In the four of them together."""


def varied(data: bytes, number: int) -> bytes:
    """The same report with different content of the same size."""
    assert data.count(_PLACE) == 1
    return data.replace(_PLACE, b"linux-desktop-%05d" % number)


def write_varied(folder: Path, count: int) -> list[Path]:
    """`count` small reports, each unlike the others."""
    originals = [unpacked(REPORTS / name) for name in SMALL]
    paths = [folder / f"{Path(SMALL[n % len(SMALL)]).stem}_{n:04}.ncu-rep" for n in range(count)]
    for number, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(varied(originals[number % len(originals)], number))
    return paths
