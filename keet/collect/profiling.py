"""`keet profile`: a plain run, a choice of launches, ncu, and a table of the run beside the report.

Nothing that was measured is lost: a kernel that can't be replayed is left out and the others are
profiled, a run that takes too long is ended with what it has, and the table is kept even where
there is no report.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from keet.collect.command import Request, ncu_command
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
from keet.collect.running import (
    Attempt,
    Limits,
    complaint,
    failure,
    run,
    whole_launches,
)
from keet.collect.tools import has_gpu
from keet.errors import NotAvailable, ProgramFailed, UsageError
from keet.ingest import read_profile
from keet.ingest.run_table import table_path, write_run_table
from keet.profile import Launch
from keet.profile.names import short_name
from keet.profile.run_table import ProfiledLaunch, RunTable, SkippedKernel

_AS_RANGE = (
    "call cudaProfilerStart before and cudaProfilerStop after the launches that belong together "
    "and profile them as one with --range"
)
_SLOWER = 100
"""Times the launch's own duration that ncu may spend on it without progress, beside the limit."""


def profile_program(
    request: Request, report: Path, ncu: str, options: Options, progress: Progress
) -> int:
    """Profile the program into `report`. Raises NotAvailable or ProgramFailed without a report.

    Returns the program's exit code: not 0 when it failed after its kernels were profiled.
    """
    with _workshop(report) as folder:
        return _Profiling(request, report, ncu, options, progress, folder).run()


@contextmanager
def _workshop(report: Path) -> Iterator[Path]:
    """A folder beside the report-to-be, on the same disk, that goes away whatever happens."""
    try:
        with tempfile.TemporaryDirectory(prefix=".keet-profile-", dir=report.parent) as folder:
            yield Path(folder)
    except OSError as problem:
        if problem.filename is None or ".keet-profile-" not in str(problem.filename):
            raise
        reason = (problem.strerror or str(problem)).lower()
        raise UsageError(
            f"{report}: it can't be written ({reason}); name another with -o"
        ) from None


class _Result(NamedTuple):
    """What came of the runs of ncu so far."""

    report: Path | None
    """With the most launches."""
    launches: int
    plan: Plan
    """What that report was to hold."""
    last: Attempt | None = None
    skipped: tuple[SkippedKernel, ...] = ()

    def with_attempt(self, attempt: Attempt, report: Path, plan: Plan) -> _Result:
        launches = whole_launches(report)
        better = self._replace(report=report, launches=launches, plan=plan)
        return (better if launches > self.launches else self)._replace(last=attempt)

    def without(self, kernel: SkippedKernel) -> _Result:
        return self._replace(skipped=(*self.skipped, kernel))


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

    def run(self) -> int:
        began = time.monotonic()
        if self._options.plain:
            self._plain = self._plain_run()
        plan = self._plan()
        try:
            result = self._profile(plan)
        except KeyboardInterrupt:
            self._keep_interrupted(plan)
            raise
        status = self._keep(result)
        self._progress(f"{time.monotonic() - began:.1f} s in all{self._parts()}")
        return status

    def _parts(self) -> str:
        return f", {self._plain.seconds:.1f} s of it for the plain run" if self._plain else ""

    # --- the plain run

    def _plain_run(self) -> PlainRun:
        program = self._request.program
        clocks = self._request.clock_control
        try:
            plain = record_plain_run(program, self._ncu, self._folder, clocks, self._progress)
        except InterruptedRun as interrupted:
            self._keep_table(interrupted.run.table)
            raise
        if not plain.records:
            raise self._nothing_recorded(plain)
        self._progress(told_run(plain))
        for note in plain.table.notes:
            self._progress(f"  {note}")
        if plain.status:
            self._progress(f"  {program[0]} ended with {described(plain.status)} after that")
        if self._options.check_overhead:
            self._tell_overhead(plain)
        return plain

    def _nothing_recorded(self, plain: PlainRun) -> NotAvailable | ProgramFailed:
        program = self._request.program[0]
        if plain.status:
            text = f"{program} ended with {described(plain.status)} before it finished a kernel"
            remedy = NO_GPU if not has_gpu() else "run it alone first: it has to succeed"
            return ProgramFailed(f"{text}; {remedy}", plain.status)
        if not has_gpu():
            return NotAvailable(str(NO_GPU))
        return NotAvailable("the program launched no kernel; check that it runs on the GPU here")

    def _tell_overhead(self, plain: PlainRun) -> None:
        """One run each: what else differs between two runs is in it as well."""
        _, bare = run_program(self._request.program, {})
        more = plain.seconds / bare - 1
        self._progress(
            f"recording: {plain.seconds:.2f} s recorded, {bare:.2f} s without ({more:+.1%})"
        )

    # --- ncu

    def _profile(self, plan: Plan) -> _Result:
        """Again without a kernel that can't be replayed, until the others are there."""
        deadline = time.monotonic() + 60 * self._options.max_minutes
        result = _Result(None, 0, plan)
        without: list[str] = []
        while True:
            self._tell_plan(plan)
            partial = self._folder / f"report_{len(without)}.ncu-rep"
            attempt = self._attempt(plan.request, partial, self._limits(plan, deadline))
            result = result.with_attempt(attempt, partial, plan)
            stuck = _not_replayed(attempt)
            if stuck is None:
                break
            without.append(self._mangled(stuck))
            result = result.without(self._skipped(stuck, attempt))
            self._progress(f"{result.skipped[-1].kernel}: {result.skipped[-1].reason}")
            plan = self._plan(without)
            if plan.choice is None or not plan.choice.launches or time.monotonic() > deadline:
                break
        if attempt.ended and attempt.stuck is None:
            self._progress(self._why_ended(deadline))
        return result

    def _plan(self, without: Sequence[str] = ()) -> Plan:
        return make_plan(self._request, self._plain, self._options, without)

    def _tell_plan(self, plan: Plan) -> None:
        if self._plain:
            for line in told_plan(plan, self._plain, self._options):
                self._progress(line)

    def _limits(self, plan: Plan, deadline: float) -> Limits:
        """What the user chose by hand may take as long as it takes."""
        idle = self._options.kernel_timeout + 20 * self._plain.seconds if self._plain else None
        return Limits(self._patience, deadline if plan.choice else None, idle)

    def _why_ended(self, deadline: float) -> str:
        if time.monotonic() > deadline:
            return "the time is up (--max-minutes); what was profiled until then is kept"
        return (
            f"{self._request.program[0]} did not go on under ncu (a program that forks may not) "
            "and was ended; what was profiled until then is kept"
        )

    def _mangled(self, named: str) -> str:
        """By the name that ncu prints."""
        return next((name for name in self._names() if _same_kernel(name, named)), named)

    def _attempt(self, request: Request, partial: Path, limits: Limits) -> Attempt:
        log = partial.with_suffix(".log")
        command = ncu_command(self._ncu, request, partial, log)
        return run(command, log, self._told, limits, quiet=self._plain is not None)

    def _told(self, line: str) -> None:
        """ncu names kernels as it was asked for them; people know the short form."""
        for name, full in self._names().items():
            line = line.replace(f" {name} ", f" {short_name(full)} ")
        self._progress(line)

    def _names(self) -> dict[str, str]:
        return {k.name: k.full for k in self._plain.table.kernels} if self._plain else {}

    def _patience(self, name: str) -> float:
        """A long kernel may take long under replay as well."""
        times = [
            kernel.longest_ns or 0.0
            for kernel in (self._plain.table.kernels if self._plain else ())
            if _same_kernel(kernel.name, name)
        ]
        return self._options.kernel_timeout + _SLOWER * max(times, default=0.0) / 1e9

    def _skipped(self, stuck: str, attempt: Attempt) -> SkippedKernel:
        kernel = short_name(self._names().get(stuck, stuck))
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

    def _keep(self, result: _Result) -> int:
        plain, last = self._plain, result.last
        if result.report is None or last is None:
            raise self._no_report(result)
        result.report.replace(self._report)
        self._keep_table(self._table(result.plan, result.skipped))
        if not last.ended and (said := complaint(last.log, last.status)) and not result.skipped:
            self._progress(f"ncu ended with an error: {said}; launches may be missing")
        for each in result.skipped:
            self._progress(f"{each.kernel} is not in the report; try: {each.remedy}")
        under_ncu = 0 if last.ended else program_status(last.log) or 0
        if plain is None:
            return under_ncu
        if under_ncu and not plain.status:
            self._progress(f"{self._request.program[0]} failed under ncu alone; it said last:")
            for line in last.said:
                self._progress(f"  {line}")
        return plain.status or under_ncu

    def _no_report(self, result: _Result) -> NotAvailable | ProgramFailed:
        """What is known of the run is kept all the same."""
        if self._plain:
            self._keep_table(self._plain.table._replace(skipped=result.skipped))
        if result.skipped:
            names = ", ".join(each.kernel for each in result.skipped)
            return NotAvailable(f"no kernel could be profiled ({names}); {self._remedy()}")
        log, status = (result.last.log, result.last.status) if result.last else ("", 0)
        return failure(self._request.program, log, status)

    def _keep_interrupted(self, plan: Plan) -> None:
        partial = self._folder / "report_0.ncu-rep"
        if launches := whole_launches(partial):
            partial.replace(self._report)
            self._progress(
                f"interrupted; {self._report} holds {counted(launches, 'launch', 'launches')}"
            )
            self._keep_table(self._table(plan, ()))

    def _table(self, plan: Plan, skipped: tuple[SkippedKernel, ...]) -> RunTable | None:
        if self._plain is None:
            return None
        profile = read_profile(self._report)
        return self._plain.table._replace(
            profiled=tuple(_linked(profile.launches, plan, self._plain)),
            skipped=skipped,
            report_created=profile.provenance.created,
        )

    def _keep_table(self, table: RunTable | None) -> None:
        if table is None or not table.kernels:
            return
        path = table_path(self._report)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        write_run_table(table._replace(command=self._request.program, created=created), path)
        self._progress(f"wrote {path}, what every kernel took in the plain run")


_FAILED = re.compile(r'^==ERROR== Failed to profile "(?:\d+:\d+:)?(.+?)(?::\d+)?" in', re.MULTILINE)


def _not_replayed(attempt: Attempt) -> str | None:
    """The kernel that ncu gave up on, or that keet ended it for."""
    if attempt.stuck:
        return attempt.stuck
    found = None if attempt.ended else _FAILED.search(attempt.log)
    return found[1] if found else None


def _same_kernel(mangled: str, named: str) -> bool:
    """ncu prints a name in the form it was asked for, or as people write it."""
    return named in (mangled, short_name(mangled))


# --- which launch of the run is which of the report


def _linked(launches: Sequence[Launch], plan: Plan, plain: PlainRun) -> Iterator[ProfiledLaunch]:
    """Only where kernel and shape agree: a program need not do the same twice."""
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for number in _expected(launches, plan, plain):
        waiting[plain.records[number].name].append(number)
    for launch in launches:
        numbers = waiting[launch.name.mangled or launch.name.full]
        while numbers:
            number = numbers.popleft()
            record = plain.records[number]
            if (record.grid, record.block) == (launch.grid, launch.block):
                yield ProfiledLaunch(launch.id, number, float(record.end - record.start))
                break


def _expected(launches: Sequence[Launch], plan: Plan, plain: PlainRun) -> list[int]:
    """Numbers of the launches that ncu was told to profile, as far as keet can tell."""
    request = plan.request
    if plan.choice:
        return [each.number for each in plan.choice.launches]
    if request.as_range:
        return []
    if request.kernel is None and request.launch_count is not None:
        skipped = request.launch_skip or 0
        return list(range(skipped, min(skipped + len(launches), len(plain.records))))
    if request.launch_skip is None and request.launch_count is None:
        first: dict[str, int] = {}
        for number, record in enumerate(plain.records):
            first.setdefault(record.name, number)
        return sorted(first.values())
    return []
