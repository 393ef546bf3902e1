"""Keeps reports in memory between calls, since an agent makes several calls for one report."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, NamedTuple

from keet_tools.arguments import DiffArguments
from keet_tools.calls import ToolCall
from keet_tools.reports import ReadReport, quoted, selected_launches

from keet.errors import IngestError, UsageError
from keet.formatting import count_noun
from keet.profile import Launch, Profile
from keet.report import read_profile
from keet.report.run_table import table_path
from keet.serve.allowed_folders import AllowedFolders

if TYPE_CHECKING:
    from keet.comparison.compare import Difference
    from keet.explanation.explanation_types import Explanation

MOST_REPORTS = 4
"""Reports that are kept."""
MOST_BYTES = 1 << 30
"""Size of all files whose reports are kept; the last one is kept in any case."""
_EXPLANATIONS = 3
"""Of one report: those of all launches of a large report take most memory."""
_OPTIONS = {"--launch A:B": "before_launch and after_launch"}
"""What messages call the options of `keet diff` here."""
_POLL = 0.1
"""Seconds between checks whether a waiting call was cancelled."""


class _Key(NamedTuple):
    """Identifies the content of a file: a file that changed is read again."""

    path: str
    mtime_ns: int
    size: int
    table: tuple[int, int] | None
    """Time and size of the run table beside it."""


class OpenReport:
    """A report that is used by one call at a time.

    Profiles decode launches on demand and are not thread-safe.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.focus: Launch | None = None
        self.scope, self.reads_code = "", True
        self.turn = RLock()
        self._profile: Profile | None = None
        self._explained: OrderedDict[tuple[tuple[int, ...], int], Explanation] = OrderedDict()

    @property
    def profile(self) -> Profile:
        assert self._profile is not None, "a report is read before it is used"
        return self._profile

    def read(self, call: ToolCall, source: Path | None = None) -> None:
        if self._profile is None:
            call.begin(f"reading {self.name}")
            try:
                profile = read_profile(self.path, source=source)
            except IngestError as problem:
                raise type(problem)(self.name, problem.problem, problem.remedy) from None
            # The client knows the report by its name, not by its real path.
            known, name = profile.provenance, self.name
            known = known._replace(snapshot=name) if known.snapshot else known._replace(path=name)
            self._profile = replace(profile, provenance=known)

    def chosen(
        self, launch: int | None, kernel: str | None, argument: str = "kernel"
    ) -> tuple[Launch, ...]:
        return selected_launches(self.profile, launch, kernel, argument)

    def explained(self, launches: Sequence[Launch], top: int, call: ToolCall) -> Explanation:
        """The explanation of `keet explain`; cached, since the next page needs the same."""
        from keet.explanation.analyst import explain
        from keet.profile.launch_sequences import MAX_DECODED

        key = (tuple(launch.id for launch in launches), top)
        if key in self._explained:
            self._explained.move_to_end(key)
        else:
            call.begin(f"explaining {count_noun(len(launches), 'launch')}")
            # A view of the whole report explains some launches; selected launches are all
            # explained.
            most = MAX_DECODED if len(launches) == len(self.profile.launches) else None
            steps = call.steps("explaining launch")
            self._explained[key] = explain(self.profile, launches, top, on_launch=steps, most=most)
        while len(self._explained) > _EXPLANATIONS:
            self._explained.popitem(last=False)
        return self._explained[key]


class ReportCache:
    """The reports that were used last."""

    def __init__(self, roots: AllowedFolders) -> None:
        self.roots = roots
        self._lock = Lock()
        self._reports: OrderedDict[_Key, OpenReport] = OrderedDict()

    @contextmanager
    def reading(
        self, name: str, call: ToolCall, *, source: str | None = None
    ) -> Iterator[OpenReport]:
        """One report. With `source` it is not cached, because source files may change at any
        time."""
        with self.roots.only(name):
            if source is not None:
                report = self._unkept(name)
                report.read(call, self.roots.source(source))
                yield report
                return
            with self._turns([self._find(name)], call) as (report,):
                yield report

    @contextmanager
    def reading_two(
        self, before: str, after: str, call: ToolCall
    ) -> Iterator[tuple[OpenReport, OpenReport]]:
        """Two reports. A report that is named twice is read twice, because a comparison
        distinguishes launches by object identity."""
        first, second = self._find(before), self._find(after)
        if first is second:
            second = self._unkept(after)
        both = f"{before}, {after}"
        with self.roots.only(both), self._turns([first, second], call) as (one, other):
            yield one, other

    def difference_of(
        self, sides: tuple[ReadReport, ReadReport], asked: DiffArguments, call: ToolCall
    ) -> Difference:
        """Raises `UsageError` for reports that can't be compared."""
        from keet.comparison.compare import compare
        from keet.comparison.sentences import check_comparable
        from keet.comparison.sides import Side, SideCapture

        one, other = (
            Side((SideCapture(report.profile, report.chosen(launch, asked.kernel)),))
            for report, launch in zip(sides, (asked.before_launch, asked.after_launch), strict=True)
        )
        guess = asked.force or asked.before_launch is not None
        difference = compare(one, other, guess=guess, on_launch=call.steps("explaining launch"))
        if not asked.force:
            check_comparable(difference, "force", _OPTIONS)
        return difference

    @contextmanager
    def _turns(
        self, reports: Sequence[OpenReport], call: ToolCall
    ) -> Iterator[Sequence[OpenReport]]:
        """Locks are taken in a fixed order, so that two calls can't block each other."""
        with ExitStack() as stack:
            for report in sorted(reports, key=lambda each: str(each.path)):
                while not report.turn.acquire(timeout=_POLL):
                    call.check()
                stack.callback(report.turn.release)
            for report in reports:
                try:
                    report.read(call)
                except BaseException:
                    with self._lock:
                        self._forget(str(report.path))
                    raise
            yield reports

    def _unkept(self, name: str) -> OpenReport:
        path = self.roots.report(name)
        return OpenReport(path, self.roots.name_of(path))

    def _find(self, name: str) -> OpenReport:
        path = self.roots.report(name)
        key = _key(name, path)
        with self._lock:
            if key not in self._reports:
                self._forget(key.path)
                self._reports[key] = OpenReport(path, self.roots.name_of(path))
            self._reports.move_to_end(key)
            # Those that were not used for longest are dropped; a call that uses one keeps its own.
            while len(self._reports) > 1 and (
                len(self._reports) > MOST_REPORTS
                or sum(report.size for report in self._reports) > MOST_BYTES
            ):
                self._reports.popitem(last=False)
            return self._reports[key]

    def _forget(self, path: str) -> None:
        for key in [key for key in self._reports if key.path == path]:
            del self._reports[key]


def _key(name: str, path: Path) -> _Key:
    try:
        status = path.stat()
    except OSError:
        raise UsageError(
            f"{quoted(name)}: the file no longer exists; list_reports has the names"
        ) from None
    try:
        beside = table_path(path).stat()
        table = (beside.st_mtime_ns, beside.st_size)
    except (OSError, ValueError):
        table = None
    return _Key(str(path), status.st_mtime_ns, status.st_size, table)
