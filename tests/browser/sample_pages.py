"""Pages of every kind, written by the real commands, for the browser tests."""

from collections.abc import Callable
from pathlib import Path

from keet.cli import main
from tests.conftest import REPORTS
from tests.insights_sets import reports_in
from tests.kept_reports import unpacked
from tests.many_launches import combined

SAMPLES = Path("kernels_samples")
SLOW, FAST = (SAMPLES / "matrix_flip" / f"{side}.ncu-rep" for side in ("slow", "fast"))
NO_SOURCE = REPORTS / "tour_nolines.ncu-repz"
"""Three launches, built without line information."""


def written(folder: Path, *arguments: object) -> Path:
    """The page that a command writes."""
    page = folder / "page.html"
    words = [*map(str, arguments), "--format", "html", "-o", str(page)]
    assert main(words) == 0, words
    return page


def one_launch(folder: Path) -> Path:
    return written(folder, "explain", "--no-model", SLOW)


def some_launches(folder: Path, samples: int, times: int) -> Path:
    """A report with the launches of several samples."""
    paths = sorted(SAMPLES.glob("*/slow.ncu-rep*"))
    # Its report has one name of a metric less, and numbers the others in another way.
    alike = [path for path in paths if path.parent.name != "mechanism_rates"]
    report = folder / "program.ncu-rep"
    report.write_bytes(combined([unpacked(path) for path in alike[:samples]], times))
    return report


def sweeps(folder: Path) -> Path:
    """Of the sets of runs of one program with different parameters."""
    store = reports_in(folder / "store", sorted(SAMPLES.glob("*/sweep/*.ncu-repz")))
    return written(folder, "insights", "--no-model", store)


def launches(samples: int, times: int, *more: str) -> Callable[[Path], Path]:
    return lambda folder: written(
        folder, "explain", "--no-model", some_launches(folder, samples, times), *more
    )


KINDS: dict[str, Callable[[Path], Path]] = {
    "one launch": one_launch,
    "five launches": launches(5, 1, "--all"),
    "many launches": launches(30, 5),  # 150 and more, with their sources
    "without source": lambda folder: written(folder, "explain", "--no-model", NO_SOURCE),
    "difference": lambda folder: written(folder, "diff", SLOW, FAST),
    "sweeps": sweeps,
}
