"""`keet profile`: a plain run, a choice of launches, ncu, and a table of the run beside the report.

Nothing that was measured is lost: a kernel that can't be replayed is left out and the others are
profiled, a run that takes too long is ended with what it has, and the table is kept even where
there is no report.
"""

from __future__ import annotations

import math
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from keet.collect.command import Request, ncu_command
from keet.collect.durations import record_with_ncu
from keet.collect.linking import linked
from keet.collect.plain_run import (
    InterruptedRun,
    PlainRun,
    Progress,
    described,
    record_plain_run,
    run_program,
)
from keet.collect.planning import Options, Plan, counted, make_plan, told_plan, told_run
from keet.collect.problems import NO_GPU, program_status
from keet.collect.running import Attempt, Limits, complaint, failure, run, whole_launches
from keet.collect.tools import has_gpu
from keet.errors import NotAvailable, ProgramFailed, UsageError
from keet.files import put_in_place
from keet.ingest import read_profile
from keet.ingest.run_tables.run_table import table_path, write_run_table
from keet.patterns import regex
from keet.profile.names import short_name
from keet.profile.run_table import RunTable, SkippedKernel
from keet.records import NamedTuple

_AS_RANGE = (
    "call cudaProfilerStart before and cudaProfilerStop after the launches that belong together "
    "and profile them as one with --range"
)
_SLOWER = 100
"""Times the launch's own duration that ncu may spend on it without progress, beside the limit."""
_BETWEEN = 20
"""Times the plain run's duration that may pass between two launches under ncu."""


def profile_program(
    request: Request, report: Path, ncu: str, options: Options, progress: Progress
) -> int:
    """Profile the program into `report`. Raises NotAvailable or ProgramFailed without a report.

    Returns the program's exit code: not 0 when it failed after its kernels were profiled.
    """
    if not has_gpu():  # before the program runs for an hour
        raise NotAvailable(str(NO_GPU))
    with _workshop(report) as folder:
        return _Profiling(request, report, ncu, options, progress, folder).run()


@contextmanager
def _workshop(report: Path) -> Iterator[Path]:
    """A folder beside the report-to-be, on the same disk, that goes away whatever happens."""
    try:
        with tempfile.TemporaryDirectory(prefix=".keet-profile-", dir=report.parent) as folder:
            yield Path(folder).resolve()
    except OSError as problem:
        if problem.filename is None or ".keet-profile-" not in str(problem.filename):
            raise
        reason = (problem.strerror or str(problem)).lower()
        raise UsageError(
            f"{report}: it can't be written ({reason}); name another with -o"
        ) from None


class _Report(NamedTuple):
    """A report that ncu wrote, or was to write."""

    path: Path
    plan: Plan
    launches: int = 0


class _Profiling:
    def __init__(  # noqa: PLR0913, PLR0917 - what one run of `keet profile` is about
        self,
        request: Request,
        report: Path,
        ncu: str,
        options: Options,
        progress: Progress,
        folder: Path,
    ) -> None:
        self._request, self._report, self._ncu = request, report, ncu
        self._options, self._progress, self._folder = options, progress, folder
        self._plain: PlainRun | None = None
        self._reports: list[_Report] = []
        self._last: Attempt | None = None
        self._skipped: list[SkippedKernel] = []
        self._deadline = math.inf

    def run(self) -> int:
        began = time.monotonic()
        try:
            self._run()
        except KeyboardInterrupt:
            self._keep_interrupted()
            raise
        status = self._keep()
        parts = f", {self._plain.seconds:.1f} s of it for the plain run" if self._plain else ""
        self._progress(f"{time.monotonic() - began:.1f} s in all{parts}")
        return status

    def _run(self) -> None:
        if self._options.plain:
            self._plain = self._plain_run()
            self._tell_run(self._plain)
        self._deadline = time.monotonic() + 60 * self._options.max_minutes
        self._profile()

    # --- the plain run

    def _plain_run(self) -> PlainRun:
        program = self._request.program
        try:
            return record_plain_run(program, self._folder, self._progress, self._durations)
        except InterruptedRun as interrupted:
            self._plain = interrupted.run
            raise

    def _durations(self) -> PlainRun:
        deadline = time.monotonic() + 60 * self._options.max_minutes
        limits = Limits(lambda _: self._options.kernel_timeout, deadline)
        clocks = self._request.clock_control
        return record_with_ncu(self._request.program, self._ncu, self._folder, clocks, limits)

    def _tell_run(self, plain: PlainRun) -> None:
        self._progress(told_run(plain))
        for note in plain.table.notes:
            self._progress(f"  {note}")
        if plain.status:
            program = self._request.program[0]
            self._progress(f"  {program} ended with {described(plain.status)} after that")
        if self._options.check_overhead:
            self._tell_overhead(plain)

    def _tell_overhead(self, plain: PlainRun) -> None:
        """One run each: what else differs between two runs is in it as well."""
        _, bare = run_program(self._request.program, {})
        more = plain.seconds / bare - 1
        self._progress(
            f"recording: {plain.seconds:.2f} s recorded, {bare:.2f} s without ({more:+.1%})"
        )

    # --- ncu

    def _profile(self) -> None:
        """Again without a kernel that can't be replayed, until the others are there."""
        without: list[str] = []
        plan = self._plan(without)
        while True:
            self._tell_plan(plan)
            stuck = self._attempt(plan)
            if stuck is None:
                break
            without.append(self._mangled(stuck))
            if plan.choice is None or without[-1] not in plan.choice.kernels:
                break  # it can't be left out
            plan = self._plan(without)
            if plan.choice is None or not plan.choice.launches:
                break
            if time.monotonic() > self._deadline:
                break
        if self._last and self._last.ended and self._last.stuck is None:
            self._progress(self._why_ended())

    def _attempt(self, plan: Plan) -> str | None:
        """One run of ncu. Returns the kernel that it could not profile."""
        path = self._folder / f"report_{len(self._reports)}.ncu-rep"
        self._reports.append(_Report(path, plan))
        log = path.with_suffix(".log")
        command = ncu_command(self._ncu, plan.request, path, log)
        quiet = self._plain is not None
        self._last = run(command, log, self._tell_kernel, self._limits(plan), quiet=quiet)
        stuck = _not_replayed(self._last)
        if stuck is not None:
            self._skipped.append(self._skipped_kernel(stuck, self._last))
            self._progress(f"{self._skipped[-1].kernel}: {self._skipped[-1].reason}")
        return stuck

    def _plan(self, without: Sequence[str]) -> Plan:
        return make_plan(self._request, self._plain, self._options, without)

    def _tell_plan(self, plan: Plan) -> None:
        if self._plain:
            for line in told_plan(plan, self._plain, self._options):
                self._progress(line)

    def _limits(self, plan: Plan) -> Limits:
        """What the user chose by hand may take as long as it takes."""
        timeout = self._options.kernel_timeout
        idle = timeout + _BETWEEN * self._plain.seconds if self._plain else None
        return Limits(self._patience, self._deadline if plan.choice else None, idle)

    def _why_ended(self) -> str:
        if time.monotonic() > self._deadline:
            return "the time is up (--max-minutes); what was profiled until then is kept"
        return (
            f"{self._request.program[0]} did not go on under ncu (a program that forks may not) "
            "and was ended; what was profiled until then is kept"
        )

    # --- kernels by the names that ncu prints

    @cached_property
    def _kernels(self) -> dict[str, tuple[str, float]]:
        """Mangled name and longest launch in seconds, by each form of the name."""
        found: dict[str, tuple[str, float]] = {}
        for kernel in self._plain.table.kernels if self._plain else ():
            for form in (kernel.short, kernel.name):
                longest = max(kernel.longest_ns or 0.0, found.get(form, ("", 0.0))[1])
                found[form] = (kernel.name, longest)
        return found

    @cached_property
    def _short_names(self) -> dict[str, str]:
        return {k.name: k.short for k in self._plain.table.kernels} if self._plain else {}

    def _mangled(self, named: str) -> str:
        return self._kernels.get(named, (named, 0.0))[0]

    def _tell_kernel(self, line: str) -> None:
        """ncu names kernels as it was asked for them; people know the short form."""
        self._progress(" ".join(self._short_names.get(word, word) for word in line.split(" ")))

    def _patience(self, name: str) -> float:
        """A long kernel may take long under replay as well."""
        longest_ns = self._kernels.get(name, ("", 0.0))[1]
        return self._options.kernel_timeout + _SLOWER * longest_ns / 1e9

    def _skipped_kernel(self, stuck: str, attempt: Attempt) -> SkippedKernel:
        kernel = self._short_names.get(stuck) or short_name(stuck)
        if attempt.stuck:
            reason = (
                f"it can't be replayed: no progress under ncu for {self._patience(stuck):.0f} s. "
                "ncu runs each launch alone and repeats it, so a kernel that waits for the host or "
                "for another kernel never ends"
            )
        else:
            reason = f"ncu could not profile it ({complaint(attempt.log, attempt.status)})"
        return SkippedKernel(kernel, reason, self._remedy())

    def _remedy(self) -> str:
        if self._request.as_range:
            return "give it more time with --kernel-timeout"
        return _AS_RANGE if self._request.light else f"{_AS_RANGE}, or collect less with --light"

    # --- what is kept

    def _best(self) -> _Report | None:
        """The report with the most launches."""
        found = [each._replace(launches=whole_launches(each.path)) for each in self._reports]
        best = max(found, key=lambda each: each.launches, default=None)
        return best if best and best.launches else None

    def _keep(self) -> int:
        best, last, plain = self._best(), self._last, self._plain
        if best is None or last is None:
            raise self._no_report()
        self._keep_report(best)
        if not last.ended and not self._skipped and (said := complaint(last.log, last.status)):
            self._progress(f"ncu ended with an error: {said}; launches may be missing")
        for each in self._skipped:
            self._progress(f"{each.kernel} is not in the report; try: {each.remedy}")
        under_ncu = 0 if last.ended else program_status(last.log) or 0
        if plain is None:
            return under_ncu
        if under_ncu and not plain.status:
            self._progress(f"{self._request.program[0]} failed under ncu alone; it said last:")
            for line in last.said:
                self._progress(f"  {line}")
        return plain.status or under_ncu

    def _keep_report(self, best: _Report) -> None:
        """With its table, or without an old one that would be taken for its own."""
        with suppress(OSError):
            table_path(self._report).unlink()
        put_in_place(best.path, self._report)
        if self._plain is None:
            return
        profile = read_profile(self._report)
        table = self._plain.table._replace(
            profiled=tuple(linked(profile.launches, best.plan, self._plain)),
            skipped=tuple(self._skipped),
            report_created=profile.provenance.created,
        )
        self._write_table(table, table_path(self._report))

    def _no_report(self) -> NotAvailable | ProgramFailed:
        """What is known of the run is kept all the same."""
        self._keep_table_alone()
        problem = failure(self._request.program, self._last or Attempt(0, ""))
        if self._skipped:
            names = ", ".join(each.kernel for each in self._skipped)
            problem = NotAvailable(f"no kernel could be profiled ({names}); {self._remedy()}")
        if self._plain and self._plain.status and isinstance(problem, NotAvailable):
            return ProgramFailed(str(problem), self._plain.status)
        return problem

    def _keep_interrupted(self) -> None:
        best = self._best()
        if best is None:
            self._keep_table_alone()
            return
        self._keep_report(best)
        launches = counted(best.launches, "launch", "launches")
        self._progress(f"interrupted; {self._report} holds {launches}")

    def _keep_table_alone(self) -> None:
        """Never in the place of the table of an older report."""
        if self._plain is None:
            return
        path = table_path(self._report)
        if self._report.exists():
            path = table_path(self._report.with_name(f"{self._report.stem}_failed.ncu-rep"))
        self._write_table(self._plain.table._replace(skipped=tuple(self._skipped)), path)

    def _write_table(self, table: RunTable, path: Path) -> None:
        if not table.kernels:
            return
        created = datetime.now(UTC).isoformat(timespec="seconds")
        write_run_table(table._replace(command=self._request.program, created=created), path)
        self._progress(f"wrote {path}, what every kernel took in the plain run")


_FAILED = regex(r'^==ERROR== Failed to profile "(?:\d+:\d+:)?(.+?)(?::\d+)?" in', re.MULTILINE)


def _not_replayed(attempt: Attempt) -> str | None:
    """The kernel that ncu gave up on, or that keet ended it for."""
    if attempt.stuck:
        return attempt.stuck
    found = None if attempt.ended else _FAILED.search(attempt.log)
    return found[1] if found else None
