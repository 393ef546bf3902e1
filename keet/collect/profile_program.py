"""The steps of `keet profile`: plain run, choice of launches, ncu, run table beside the report.

Nothing that was measured is lost. A kernel that can't be replayed is skipped and the others are
profiled; a run that takes too long is ended and its launches are kept; the run table is kept even
if there is no report.

`keet profile --function` profiles one Python function (Triton, CuPy, torch) with nsight-python,
which attaches ncu to the process that imports it, and must do so before CUDA starts. Therefore a
separate process runs `python_child`, which imports nsight first.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from keet.analysis.recapture import KEET_FOLDER
from keet.catalog import capabilities, metric_with_id, metrics
from keet.collect.ncu_run import (
    NO_GPU,
    NcuRun,
    RunLimits,
    count_launches,
    failure,
    ncu_error_text,
    program_status,
    record_with_ncu,
    run,
)
from keet.collect.plain_run import (
    InterruptedRun,
    PlainRun,
    Progress,
    record_plain_run,
    run_program,
    status_text,
)
from keet.collect.profile_plan import (
    ProfileOptions,
    ProfilePlan,
    ProfileRequest,
    has_gpu,
    make_plan,
    ncu_command,
    plain_run_line,
    plan_lines,
)
from keet.errors import NotAvailable, ProgramFailed, UsageError, reason_of
from keet.files import put_in_place
from keet.formatting import count_noun
from keet.lazy import is_installed, missing
from keet.profile import Launch
from keet.profile.launch import short_name
from keet.profile.run_table import ProfiledLaunch, RunTable, SkippedKernel
from keet.report import read_profile
from keet.report.run_table import table_path, write_run_table


def profiled_launches(
    launches: Sequence[Launch], plan: ProfilePlan, plain: PlainRun
) -> Iterator[ProfiledLaunch]:
    """Only for kernels whose launches are all in the report with the same shapes: a program may
    behave differently in its second run, and ncu may have profiled several processes."""
    expected: dict[str, list[int]] = defaultdict(list)
    for number in _expected(launches, plan, plain):
        expected[plain.records[number].name].append(number)
    by_name: dict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        by_name[launch.name.mangled or launch.name.full].append(launch)
    for name, numbers in expected.items():
        pairs = zip(by_name[name], numbers) if len(numbers) == len(by_name[name]) else ()
        for launch, number in pairs:
            record = plain.records[number]
            if (record.grid, record.block) == (launch.grid, launch.block):
                yield ProfiledLaunch(launch.id, number, float(record.end - record.start))


def _expected(launches: Sequence[Launch], plan: ProfilePlan, plain: PlainRun) -> list[int]:
    """Numbers of the launches that ncu was told to profile, as far as keet can know."""
    request = plan.request
    if plan.choice:
        return [launch.number for launch in plan.choice.launches]
    if request.as_range:
        return []
    if request.launch_skip is None and request.launch_count is None:
        first = {record.name: n for n, record in reversed([*enumerate(plain.records)])}
        is_one = len({record.process for record in plain.records}) == 1
        return sorted(first.values()) if is_one else []
    if request.kernel is None:
        skipped = request.launch_skip or 0
        return list(range(skipped, min(skipped + len(launches), len(plain.records))))
    return []


_AS_RANGE = (
    "call cudaProfilerStart before and cudaProfilerStop after the launches that belong together "
    "and profile them as one with --range"
)
_SLOWER = 100
"""ncu may spend this many times the launch's own duration without progress, on top of
--kernel-timeout."""
_BETWEEN = 20
"""Between two launches under ncu, this many times the plain run's duration may pass."""


def profile_program(
    request: ProfileRequest, report: Path, ncu: str, options: ProfileOptions, progress: Progress
) -> int:
    """Profile the program into `report`. Raises NotAvailable or ProgramFailed without a report.

    Returns the program's exit code: not 0 when it failed after its kernels were profiled.
    """
    if not has_gpu():  # before the program runs for an hour
        raise NotAvailable(str(NO_GPU))
    with _temporary_folder(report) as folder:
        return _Profiling(request, report, ncu, options, progress, folder).run()


@contextmanager
def _temporary_folder(report: Path) -> Iterator[Path]:
    """A folder beside the future report, on the same disk; removed in any case."""
    try:
        with tempfile.TemporaryDirectory(prefix=KEET_FOLDER, dir=report.parent) as folder:
            yield Path(folder).resolve()
    except OSError as problem:
        if problem.filename is None or KEET_FOLDER not in str(problem.filename):
            raise
        raise UsageError(
            f"{report}: it can't be written ({reason_of(problem)}); name another with -o"
        ) from None


class _WrittenReport(NamedTuple):
    """A report that ncu wrote or should have written."""

    path: Path
    plan: ProfilePlan
    launches: int = 0


class _Profiling:
    def __init__(  # noqa: PLR0913, PLR0917 - what one run of `keet profile` is about
        self,
        request: ProfileRequest,
        report: Path,
        ncu: str,
        options: ProfileOptions,
        progress: Progress,
        folder: Path,
    ) -> None:
        self._request, self._report, self._ncu = request, report, ncu
        self._options, self._progress, self._folder = options, progress, folder
        self._plain: PlainRun | None = None
        self._reports: list[_WrittenReport] = []
        self._last: NcuRun | None = None
        self._skipped: list[SkippedKernel] = []
        self._deadline = math.inf

    def run(self) -> int:
        began = time.monotonic()
        try:
            if self._options.plain:
                self._plain = self._plain_run()
                self._print_run(self._plain)
            self._deadline = time.monotonic() + 60 * self._options.max_minutes
            self._profile()
        except KeyboardInterrupt:
            self._keep_interrupted()
            raise
        status = self._keep()
        parts = f", {self._plain.seconds:.1f} s of it for the plain run" if self._plain else ""
        self._progress(f"{time.monotonic() - began:.1f} s in all{parts}")
        return status

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
        limits = RunLimits(lambda _: self._options.kernel_timeout, deadline)
        clocks = self._request.clock_control
        return record_with_ncu(self._request.program, self._ncu, self._folder, clocks, limits)

    def _print_run(self, plain: PlainRun) -> None:
        self._progress(plain_run_line(plain))
        for note in plain.table.notes:
            self._progress(f"  {note}")
        if plain.status:
            program = self._request.program[0]
            self._progress(f"  {program} ended with {status_text(plain.status)} after that")
        if self._options.check_overhead:
            # From one run each, so it includes other differences between two runs.
            _, bare = run_program(self._request.program, {})
            more = plain.seconds / bare - 1
            self._progress(
                f"recording: {plain.seconds:.2f} s recorded, {bare:.2f} s without ({more:+.1%})"
            )

    # --- ncu

    def _profile(self) -> None:
        """Run ncu; repeat without the kernels that can't be replayed."""
        without: list[str] = []
        while True:
            plan = make_plan(self._request, self._plain, self._options, without)
            if without and (plan.choice is None or not plan.choice.launches):
                break
            if without and time.monotonic() > self._deadline:
                break
            for line in plan_lines(plan, self._plain, self._options) if self._plain else ():
                self._progress(line)
            stuck = self._attempt(plan)
            if stuck is None:
                break
            without.append(self._kernels.get(stuck, (stuck, 0.0))[0])
            if plan.choice is None or without[-1] not in plan.choice.kernels:
                break  # ncu can't be told to skip it
        if self._last and self._last.ended and self._last.stuck is None:
            self._progress(self._why_ended())

    def _attempt(self, plan: ProfilePlan) -> str | None:
        """One run of ncu. Returns the kernel that it could not profile."""
        path = self._folder / f"report_{len(self._reports)}.ncu-rep"
        self._reports.append(_WrittenReport(path, plan))
        log = path.with_suffix(".log")
        command = ncu_command(self._ncu, plan.request, path, log)
        plain = self._plain
        idle = self._options.kernel_timeout + _BETWEEN * plain.seconds if plain else None
        # Launches that the user selected have no deadline.
        limits = RunLimits(self._launch_timeout, self._deadline if plan.choice else None, idle)
        self._last = run(command, log, self._print_kernel, limits, quiet=plain is not None)
        stuck = _not_replayed(self._last)
        if stuck is not None:
            self._skipped.append(self._skipped_kernel(stuck, self._last))
            self._progress(f"{self._skipped[-1].kernel}: {self._skipped[-1].reason}")
        return stuck

    def _why_ended(self) -> str:
        if time.monotonic() > self._deadline:
            return "stopped after --max-minutes; the launches profiled until then are kept"
        return (
            f"{self._request.program[0]} made no progress under ncu (this can happen if it forks) "
            "and was ended; the launches profiled until then are kept"
        )

    # --- kernels by the names that ncu prints

    @cached_property
    def _kernels(self) -> dict[str, tuple[str, float]]:
        """Mangled name and longest launch in seconds, by each form of the name."""
        known: dict[str, tuple[str, float]] = {}
        for kernel in self._plain.table.kernels if self._plain else ():
            for form in (kernel.short, kernel.name):
                longest = max(kernel.longest_ns or 0.0, known.get(form, ("", 0.0))[1])
                known[form] = (kernel.name, longest)
        return known

    @cached_property
    def _short_names(self) -> dict[str, str]:
        return {k.name: k.short for k in self._plain.table.kernels} if self._plain else {}

    def _print_kernel(self, line: str) -> None:
        """ncu prints the names that it was given; users know the short form."""
        self._progress(" ".join(self._short_names.get(word, word) for word in line.split(" ")))

    def _launch_timeout(self, name: str) -> float:
        """A long kernel may take long under replay as well."""
        longest_ns = self._kernels.get(name, ("", 0.0))[1]
        return self._options.kernel_timeout + _SLOWER * longest_ns / 1e9

    def _skipped_kernel(self, stuck: str, attempt: NcuRun) -> SkippedKernel:
        kernel = self._short_names.get(stuck) or short_name(stuck)
        if attempt.stuck:
            reason = (
                "it can't be replayed: no progress under ncu for "
                f"{self._launch_timeout(stuck):.0f} s. ncu runs each launch alone and "
                "repeats it, so a kernel that waits for the host or for another kernel never ends"
            )
        else:
            reason = f"ncu could not profile it ({ncu_error_text(attempt.log, attempt.status)})"
        return SkippedKernel(kernel, reason, self._remedy())

    def _remedy(self) -> str:
        if self._request.as_range:
            return "give it more time with --kernel-timeout"
        return _AS_RANGE if self._request.light else f"{_AS_RANGE}, or collect less with --light"

    # --- what is kept

    def _best(self) -> _WrittenReport | None:
        """The report with the most launches."""
        reports = (each._replace(launches=count_launches(each.path)) for each in self._reports)
        best = max(reports, key=lambda each: each.launches, default=None)
        return best if best and best.launches else None

    def _keep(self) -> int:
        best, last, plain = self._best(), self._last, self._plain
        if best is None or last is None:
            raise self._no_report()
        self._keep_report(best)
        error = ncu_error_text(last.log, last.status)
        if error and not last.ended and not self._skipped:
            self._progress(f"ncu ended with an error: {error}; launches may be missing")
        for each in self._skipped:
            self._progress(f"{each.kernel} is not in the report; try: {each.remedy}")
        under_ncu = 0 if last.ended else program_status(last.log) or 0
        if plain is None:
            return under_ncu
        if under_ncu and not plain.status:
            self._progress(f"{self._request.program[0]} failed under ncu only; its last output:")
            for line in last.output_tail:
                self._progress(f"  {line}")
        return plain.status or under_ncu

    def _keep_report(self, best: _WrittenReport) -> None:
        """Writes the report and its run table. An old table would be taken for its own."""
        with suppress(OSError):
            table_path(self._report).unlink()
        put_in_place(best.path, self._report)
        if self._plain is None:
            return
        profile = read_profile(self._report)
        table = self._plain.table._replace(
            profiled=tuple(profiled_launches(profile.launches, best.plan, self._plain)),
            skipped=tuple(self._skipped),
            report_created=profile.provenance.created,
        )
        self._write_table(table, table_path(self._report))

    def _no_report(self) -> NotAvailable | ProgramFailed:
        """The run table is kept."""
        self._keep_table_alone()
        problem = failure(self._request.program, self._last or NcuRun(0, ""))
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
        launches = count_noun(best.launches, "launch")
        self._progress(f"interrupted; {self._report} has {launches}")

    def _keep_table_alone(self) -> None:
        """Does not replace the table of an older report."""
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
        self._progress(f"wrote {path}, the times of all kernels in the plain run")


_FAILED = re.compile(r'^==ERROR== Failed to profile "(?:\d+:\d+:)?(.+?)(?::\d+)?" in', re.MULTILINE)


def _not_replayed(attempt: NcuRun) -> str | None:
    """The kernel that ncu could not profile, or that made no progress."""
    if attempt.stuck:
        return attempt.stuck
    failure = None if attempt.ended else _FAILED.search(attempt.log)
    return failure[1] if failure else None


# --- one Python function

_INSTEAD = "or profile the whole script: keet profile -- python3 FILE"
_NOT_FOR_NCU = ("launch__", "device__", "derived__", "profiler__")
"""Prefixes of metrics that every report has, or that are computed from others."""


def child_command(function: str, report: Path, clock_control: str) -> list[str]:
    """The command of the child process. `report`: prefix of nsight-python's files."""
    file, _, name = function.rpartition(":")
    if not file or not name.isidentifier():
        raise UsageError(f"--function {function}: write it as FILE.py:NAME, e.g. bench.py:step")
    options = {"metrics": metric_names(), "clock_control": clock_control}
    child = Path(__file__).with_name("python_child.py")
    return [sys.executable, str(child), file, name, str(report), json.dumps(options)]


def metric_names() -> list[str]:
    """The collector takes metrics, not sections: the key metrics and the warp samples."""
    wanted = [spec.id for spec in metrics().values() if spec.key]
    wanted += [name for capability in capabilities().values() for name in capability.metrics]
    names = [metric_with_id(metric_id).names[0] for metric_id in dict.fromkeys(wanted)]
    chosen = [name for name in names if not name.startswith(_NOT_FOR_NCU)]
    return ["group:smsp__pcsamp_warp_stall_reasons", *dict.fromkeys(chosen)]


def collect_function(function: str, report: Path, clock_control: str, progress: Progress) -> int:
    """Profile into `report`. Returns 1 if something failed after the report was written; raises if
    there is no report."""
    if not is_installed("nsight"):
        raise NotAvailable(f"{missing('nsight-python', 'collect')}; {_INSTEAD}")
    file = function.rpartition(":")[0]
    if not Path(file).is_file():
        raise UsageError(
            f"--function {function}: there is no file {file}; write it as FILE.py:NAME"
        )
    with tempfile.TemporaryDirectory(prefix=KEET_FOLDER, dir=report.parent) as folder:
        command = child_command(function, Path(folder) / "run_", clock_control)
        nothing = subprocess.DEVNULL
        done = subprocess.run(command, stdin=nothing, capture_output=True, text=True, check=False)
        sys.stderr.write(done.stderr)
        written = next(Path(folder).glob("*.ncu-rep"), None)
        launches = count_launches(written) if written else 0
        if written is None or not launches:
            raise _failure(function, done)
        put_in_place(written, report)
    progress(f"nsight-python profiled {count_noun(launches, 'launch')} of {function}")
    if done.returncode:
        progress(f"{function} failed after its kernels ran: {_message(done)}")
    return 1 if done.returncode else 0


def _child_result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON line that the child prints last; empty if it did not get that far. nsight may print
    lines before it."""
    for line in reversed(done.stdout.splitlines()):
        with suppress(ValueError):
            result = json.loads(line)
            if isinstance(result, dict) and "who" in result:
                return result
    return {}


def _message(done: subprocess.CompletedProcess[str]) -> str:
    """The child's error message, else its exit code. Its stderr was already printed."""
    ended = f"its process ended with exit code {done.returncode}"
    return " ".join(str(_child_result(done).get("message") or ended).split())[:400]


def _failure(function: str, done: subprocess.CompletedProcess[str]) -> NotAvailable | ProgramFailed:
    message = _message(done)
    if _child_result(done).get("who") == "function":
        return ProgramFailed(f"{function} failed: {message}; run it alone first", 1)
    return NotAvailable(f"nsight-python wrote no report: {message}; see: keet doctor, {_INSTEAD}")
