"""The function `keet.diff`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Real
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex, TypeGuard

from keet.api.diff_result import DiffResult
from keet.api.inputs import Kernel, Report, StrPath, as_profile, selected_launches
from keet.errors import UsageError
from keet.profile import Launch, Profile

if TYPE_CHECKING:
    from keet.comparison.sides import Side

Reports = Report | Sequence[Report]
"""A report, a folder of runs, `baseline:NAME`, or several runs of the same program."""
_OPTIONS = {"--launch A:B": "launches=(A, B)", "--times N:M": "times=(N, M)"}
"""What messages call the options of `keet diff` here."""


def diff(  # noqa: PLR0913 - the options of the command
    before: Reports,
    after: Reports | None = None,
    *,
    launches: tuple[int, int] | None = None,
    kernel: Kernel | None = None,
    times: tuple[int, int] | None = None,
    gate: float | None = None,
    metrics: str | Iterable[str] = (),
    force: bool = False,
    source: StrPath | None = None,
    source_before: StrPath | None = None,
    run_table: StrPath | None = None,
    run_table_before: StrPath | None = None,
) -> DiffResult:
    """What changed and why: `keet diff`.

    >>> import keet
    >>> sample = "kernels_samples/matrix_flip/"
    >>> result = keet.diff(sample + "slow.ncu-rep", sample + "fast.ncu-rep", gate=5)
    >>> result.verdict, round(result.speedup, 2), result.fixed, result.failed
    ('faster', 7.02, ('uncoalesced_global',), False)

    Args:
        before: a report or profile, several runs of the same program (less noise), a folder of
            them, or `"baseline:NAME"`.
        after: the same of the other side; None: two launches of one report, see `launches`.
        launches: compare launch A with launch B: `(0, 3)`.
        kernel: only launches whose kernel name matches this regular expression.
        times: each profiled launch represents this many launches before and after: `(300, 1)`.
        gate: per cent. `result.failed` is True if anything became worse by more than this and by
            more than the noise.
        metrics: gate these instead of the time, as `--metric`: `registers_per_thread`,
            `l2_hit_rate_pct:higher`.
        force: compare even if the two sides should not be compared.
        source, source_before: folders with the sources of a side.
        run_table, run_table_before: times of the whole run of a side.

    Raises:
        keet.NotComparable: the two sides differ in more than the program (see `force`).
        keet.KeetError: any other problem, as one line that says what to do.
    """
    from keet.comparison.compare import compare
    from keet.comparison.gate import gate_difference
    from keet.comparison.sentences import check_comparable

    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    _check_numbers(launches, times, gate, names)
    if after is not None:
        first = _profiles_of(before, source_before, run_table_before)
        second = _profiles_of(after, source, run_table)
    else:
        first = second = _single_side(before, launches, source, run_table)
    sides = [_side_of(each, at, launches, kernel, times) for at, each in enumerate((first, second))]
    _check_tables(sides, times)
    difference = compare(*sides, guess=force or launches is not None)
    if not force:
        check_comparable(difference, "force=True", _OPTIONS)
    if gate is not None:
        difference = gate_difference(difference, float(gate), names)
    return DiffResult(difference)


def _profiles_of(
    reports: Reports, source: StrPath | None, run_table: StrPath | None
) -> list[Profile]:
    if isinstance(reports, Sequence) and not isinstance(reports, str):
        several: list[Report] = list(reports)
    else:
        several = _named(reports)
    if not several:
        raise UsageError("a side has no report; name one, or several runs")
    if run_table is not None and len(several) > 1:
        raise UsageError(
            f"a run table belongs to one report, and this side has {len(several)}: put each table "
            "beside its report"
        )
    return [as_profile(each, source, run_table) for each in several]


def _named(report: Report) -> list[Report]:
    """The reports of a folder or of a baseline; else the report itself."""
    if isinstance(report, Profile):
        return [report]
    if isinstance(report, str) and report.startswith("baseline:"):
        from keet.ingest.baselines import find_baseline

        return list(find_baseline(report.removeprefix("baseline:")).runs)
    path = Path(report)
    if not path.is_dir():
        return [path]
    from keet.corpus.discovery import reports_in

    return list(reports_in(path))


def _side_of(
    profiles: Sequence[Profile],
    which: int,
    launches: tuple[int, int] | None,
    kernel: Kernel | None,
    times: tuple[int, int] | None,
) -> Side:
    from keet.comparison.sides import Side, SideCapture, distinct_captures

    number = launches[which] if launches else None
    runs = [SideCapture(each, selected_launches(each, number, kernel)) for each in profiles]
    return Side(distinct_captures(runs), times[which] if times else None)


def _single_side(
    report: Reports, launches: object, source: StrPath | None, run_table: StrPath | None
) -> list[Profile]:
    """The report whose launches are compared with each other."""
    if launches is None:
        raise UsageError("name two reports, or two launches of one: launches=(0, 3)")
    return _profiles_of(report, source, run_table)


def _check_numbers(launches: object, times: object, gate: object, metrics: Sequence[str]) -> None:
    """Arguments of any type get a message instead of a traceback."""
    if metrics and gate is None:
        raise UsageError("metrics names what to gate; say by how much: gate=5")
    if gate is not None and not (_is_number(gate) and 0 <= gate <= 1000):
        raise UsageError(f"gate={gate!r}: it must be a percentage from 0 to 1000")
    if times is not None and not _are_two(times, least=1):
        raise UsageError(f"times={times!r}: it must be two positive integers: (300, 1)")
    if launches is not None and not _are_two(launches, least=0):
        raise UsageError(f"launches={launches!r}: it must be the numbers of two launches: (0, 3)")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _are_two(value: object, least: int) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        return False
    numbers = [each.id if isinstance(each, Launch) else each for each in value]
    return all(isinstance(each, SupportsIndex) and index(each) >= least for each in numbers)


def _check_tables(sides: Sequence[Side], times: tuple[int, int] | None) -> None:
    if times is not None and all(side.has_tables for side in sides):
        raise UsageError("the run tables say how often each kernel is launched: leave out times")
