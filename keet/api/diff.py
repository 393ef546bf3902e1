"""The function `keet.diff` and its result: pairs of kernels, reasons, texts and frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from numbers import Real
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex

from keet.api.result import (
    WIDTH,
    ApiResult,
    Kernel,
    Report,
    StrPath,
    as_profile,
    chosen_table,
    data_frame,
    selected_launches,
)
from keet.comparison.compare import compare
from keet.comparison.gate import gate_difference
from keet.comparison.result import Difference
from keet.comparison.same_kernel import Side, SideCapture, distinct_captures
from keet.comparison.sentences import check_comparable
from keet.documents.diff import DiffDocument, GateDocument, PairDocument, PartChangeDocument
from keet.errors import UsageError
from keet.formatting import count_noun, speedup_text
from keet.pages.blocks import Page, Reader
from keet.profile import Launch, Profile

if TYPE_CHECKING:
    import pandas as pd

Reports = Report | Sequence[Report]
"""A report, a folder of runs, `baseline:NAME`, or several runs of the same program."""
_KERNELS_IN_NOTEBOOKS = 3
"""That are shown in full."""
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
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    _check_numbers(launches, times, gate, names)
    if after is not None:
        first = _profiles_of(before, source_before, run_table_before)
        second = _profiles_of(after, source, run_table)
    elif launches is None:
        raise UsageError("name two reports, or two launches of one: launches=(0, 3)")
    else:
        first = second = _profiles_of(before, source, run_table)
    sides = [_side_of(each, at, launches, kernel, times) for at, each in enumerate((first, second))]
    if times is not None and all(side.has_tables for side in sides):
        raise UsageError("the run tables say how often each kernel is launched: leave out times")
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
        from keet.corpus.discovery import reports_named

        several = [reports] if isinstance(reports, Profile) else [*reports_named(reports)]
    if not several:
        raise UsageError("a side has no report; name one, or several runs")
    if run_table is not None and len(several) > 1:
        raise UsageError(
            f"a run table belongs to one report, and this side has {len(several)}: put each table "
            "beside its report"
        )
    return [as_profile(each, source, run_table) for each in several]


def _side_of(
    profiles: Sequence[Profile],
    which: int,
    launches: tuple[int, int] | None,
    kernel: Kernel | None,
    times: tuple[int, int] | None,
) -> Side:
    number = launches[which] if launches else None
    runs = [
        SideCapture(profile, selected_launches(profile, number, kernel)) for profile in profiles
    ]
    return Side(distinct_captures(runs), times[which] if times else None)


def _check_numbers(launches: object, times: object, gate: Any, metrics: Sequence[str]) -> None:
    """Arguments of any type get a message instead of a traceback."""
    if metrics and gate is None:
        raise UsageError("metrics names what to gate; say by how much: gate=5")
    is_number = isinstance(gate, Real) and not isinstance(gate, bool)
    if gate is not None and not (is_number and 0 <= gate <= 1000):
        raise UsageError(f"gate={gate!r}: it must be a percentage from 0 to 1000")
    if times is not None and not _are_two(times, least=1):
        raise UsageError(f"times={times!r}: it must be two positive integers: (300, 1)")
    if launches is not None and not _are_two(launches, least=0):
        raise UsageError(f"launches={launches!r}: it must be the numbers of two launches: (0, 3)")


def _are_two(value: object, least: int) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 2:
        return False
    numbers = [each.id if isinstance(each, Launch) else each for each in value]
    return all(isinstance(number, SupportsIndex) and index(number) >= least for number in numbers)


PAIR_COLUMNS = (
    "kernel", "verdict", "speedup", "noise", "before_us", "after_us", "fixed", "new", "remaining",
)  # fmt: skip
ACCOUNT_COLUMNS = (
    "kernel", "part", "parent", "label", "innermost", "before_us", "after_us", "change_us", "share",
)  # fmt: skip
ATTRIBUTION_COLUMNS = ("kernel", "kind", "what", "unit", "share", "finding")


class PartOfChange(NamedTuple):
    """How a part of the time of a kernel changed."""

    kernel: str
    id: str
    """Stable name, as in an explanation: `waiting.busy.l2`."""
    parent: str | None
    label: str
    innermost: bool
    before_us: float
    after_us: float
    change_us: float
    """After less before."""
    share: float | None
    """Of the time saved or lost, 0 to 1; negative: it worked against; None: time did not change."""


class DiffPair:
    """Kernels that do the same work, before and after.

    >>> import keet
    >>> sample = "kernels_samples/matrix_flip/"
    >>> pair = keet.diff(sample + "slow.ncu-rep", sample + "fast.ncu-rep").pairs[0]
    >>> pair
    <DiffPair flip: 7.02x faster>
    >>> pair.attribution[0].what
    'uncoalesced global access: gone; global sectors beyond the ideal 77.8% → 0.0%'
    """

    def __init__(self, document: PairDocument) -> None:
        self.document = document
        self.kernel = document.kernel
        self.verdict = document.verdict.word
        """`faster`, `slower`, `unchanged` or `inconclusive`."""
        self.headline = document.verdict.headline
        self.speedup = document.speedup
        """Time before over time after; None: not known."""
        self.attribution = tuple(document.attribution)
        """Reasons for the change (`kind`, `what`, `share`, `finding`), causes first."""
        self.account = tuple(_changes(document.kernel, document.account, None))
        """Where the time went before and after: each part is followed by the parts in it."""
        self.fixed = tuple(document.fixed)
        """Ids of findings that are gone."""
        self.new = tuple(document.new)
        self.remaining = tuple(document.remaining)

    def __repr__(self) -> str:
        return f"<DiffPair {self.kernel}: {change_text(self.verdict, self.speedup)}>"

    def to_dict(self) -> dict[str, Any]:
        return self.document.to_dict()

    def row(self) -> tuple[object, ...]:
        """Of the frame of pairs: see `PAIR_COLUMNS`."""
        verdict = self.document.verdict
        times = (each.value if each else None for each in (verdict.before, verdict.after))
        known = (self.kernel, self.verdict, self.speedup, verdict.noise, *times)
        return (*known, self.fixed, self.new, self.remaining)


def _changes(
    kernel: str, parts: Sequence[PartChangeDocument], parent: str | None
) -> Iterator[PartOfChange]:
    for part in parts:
        times = (part.before_us, part.after_us, part.change_us)
        place = (kernel, part.id, parent, part.part, not part.children)
        yield PartOfChange(*place, *times, part.share)
        yield from _changes(kernel, part.children, part.id)


def _each_once(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for texts in lists for each in texts))


def change_text(verdict: str, speedup: float | None) -> str:
    """`7.02x faster`, `1.30x slower`, `unchanged`."""
    if speedup is None or verdict not in ("faster", "slower"):
        return verdict
    return f"{speedup_text(speedup if verdict == 'faster' else 1 / speedup)} {verdict}"


def _side_names(before: str, after: str) -> tuple[str, str]:
    """File names; where they are equal, with as much of the path as tells them apart."""
    one, other = Path(before).parts, Path(after).parts
    longest = max(len(one), len(other))
    parts = next((n for n in range(1, longest + 1) if one[-n:] != other[-n:]), 1)
    return "/".join(one[-parts:]), "/".join(other[-parts:])


class DiffResult(ApiResult):
    """Two sides compared. `print(result)` prints what `keet diff` prints.

    >>> import keet
    >>> sample = "kernels_samples/matrix_flip/"
    >>> result = keet.diff(sample + "slow.ncu-rep", sample + "fast.ncu-rep")
    >>> result
    <DiffResult slow.ncu-rep → fast.ncu-rep: 7.02x faster, 1 kernel>
    >>> result.to_pandas()[["kernel", "verdict", "fixed"]]
      kernel verdict                  fixed
    0   flip  faster  (uncoalesced_global,)
    """

    def __init__(self, difference: Difference) -> None:
        self.difference = difference
        """The document with internal objects, which may change between versions."""
        self.verdict = difference.verdict.word
        """`faster`, `slower`, `unchanged` or `inconclusive`."""
        self.headline = difference.verdict.headline
        self.speedup = difference.verdict.speedup
        """Time before over time after; None: not known."""
        self.noise = difference.verdict.noise
        """How much the speed-up may differ by chance: 0.05 is 5 %."""
        self.pairs = tuple(map(DiffPair, difference.pairs))
        self.gate: GateDocument | None = difference.gate
        """What was gated (`failed`, `regressions`, `not_gated`); None: no gate was set."""
        self.failed = self.gate is not None and self.gate.failed
        """Whether a gate was set and something became worse by more than it allows."""
        self.account = tuple(part for pair in self.pairs for part in pair.account)
        """Where the time of all kernels went before and after."""
        self.fixed = _each_once(pair.fixed for pair in self.pairs)
        """Ids of findings that are gone, over all kernels."""
        self.new = _each_once(pair.new for pair in self.pairs)
        """Ids of findings that were not there before."""
        self.remaining = _each_once(pair.remaining for pair in self.pairs)
        """Ids of findings on both sides."""
        self.findings = {"fixed": self.fixed, "new": self.new, "remaining": self.remaining}
        reasons = [note.text for note in difference.comparability.notes]
        self.notes = _each_once([reasons, difference.before.notes, difference.after.notes])
        """Why the comparison is weak or not allowed, and notes on either report."""

    @property
    def document(self) -> DiffDocument:
        return self.difference

    def __repr__(self) -> str:
        names = " → ".join(_side_names(self.document.before.path, self.document.after.path))
        kernels = count_noun(len(self.pairs), "kernel")
        gate = "" if self.gate is None else f", gate {'failed' if self.failed else 'passed'}"
        change = change_text(self.verdict, self.speedup)
        return f"<DiffResult {names}: {change}, {kernels}{gate}>"

    def _page(self, reader: Reader, *, top: int) -> Page:
        from keet.pages.diff import diff_page

        return diff_page(self.difference, reader, top)

    def to_text(self, width: int = WIDTH, *, top: int = 5) -> str:
        return self._as("terminal", width, top=top)

    def to_markdown(self, *, top: int = 5) -> str:
        """As `keet diff --format markdown`. `top`: kernels described in full."""
        return self._as("markdown", top=top)

    def to_html(self, *, top: int = 5) -> str:
        """The page of `keet diff --format html`: one file without external resources."""
        return self._as("html", top=top)

    def to_pandas(
        self, table: Literal["pairs", "account", "attribution"] = "pairs"
    ) -> pd.DataFrame:
        """One row per pair of kernels, per part of their time, or per reason of the change."""
        reasons = (
            (pair.kernel, each.kind, each.what, each.unit, each.share, each.finding)
            for pair in self.pairs
            for each in pair.attribution
        )
        tables = {
            "pairs": lambda: data_frame((each.row() for each in self.pairs), PAIR_COLUMNS),
            "account": lambda: data_frame(self.account, ACCOUNT_COLUMNS),
            "attribution": lambda: data_frame(reasons, ATTRIBUTION_COLUMNS),
        }
        return chosen_table(table, tables)

    def _repr_html_(self) -> str:
        from keet.api.notebook import page_html

        return page_html(lambda reader: self._page(reader, top=_KERNELS_IN_NOTEBOOKS))
