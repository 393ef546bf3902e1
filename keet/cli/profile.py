"""Profile a program and explain the report: run it once without ncu to measure all kernels, then
profile the launches that take most of the time with ncu. Needs a GPU and Nsight Compute."""

from __future__ import annotations

import re
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import number, option, option_type, pattern, positive
from keet.cli.pager import loud_stderr, print_note
from keet.errors import IngestError, NotAvailable, UsageError, one_line
from keet.lazy import install_command

if TYPE_CHECKING:
    from keet.collect.profile_plan import ProfileRequest

TAKES_PROGRAM = True
"""The program and its arguments follow `--`; they are in `args.program`."""

EXAMPLES = f"""\
examples:
  keet profile -- ./app --size 4096
  keet profile -o before.ncu-rep --kernel 'gemm|softmax' -- python3 train.py
  keet profile --first -- ./app                               the first launch of each kernel
  keet profile --launch-skip 10 --launch-count 3 -- ./app     after ten warm-up launches
  keet profile --max-minutes 3 -- ./app                       as much as fits into 3 minutes
  keet profile --range -- ./app                               between cudaProfilerStart and Stop
  keet profile --function bench.py:step                       one function of a Python file
  keet profile --dry-run -- ./app                             only print the ncu command

The program runs at least twice. The first, plain run is recorded with CUPTI if the CUDA toolkit is
installed, else with nsys, else with ncu (durations only), and saved as a run table beside the
report (NAME.run.json). The second run is under ncu. Each kernel that takes 1 % of the GPU time is
profiled with a typical launch. Of those that take 90 % together, the longest launch is profiled,
too, if it takes more than twice as long. The program's stdin is empty. keet exits with the
program's exit code.

Build with nvcc -lineinfo to get source lines; Triton kernels have them already. With --function,
nsight-python calls the function in its own process, once to warm up and once under the profiler
({install_command("collect")}; ncu 2026.2.1 or newer).
"""
_count = option_type(
    "an integer from 0 on", lambda text: int(text) if re.fullmatch("[0-9]{1,9}", text) else None
)
_duration = number("a positive number", lambda value: 0 < value <= 1e6)


def configure(parser: ArgumentParser) -> None:
    parser.usage = "keet profile [options] -- COMMAND ..."
    add = partial(option, parser)
    add(
        "-o, --output FILE",
        "the report (default: PROGRAM.ncu-rep, or PROGRAM_2.ncu-rep … if it exists)",
        type=Path,
    )
    add("-f, --force", "replace FILE if it exists")
    _add_selection(parser)
    _add_limits(parser)
    add("--no-plain-run", "do not run the program without ncu first")
    add(
        "--check-overhead",
        "also run the program without the recorder, and print the cost of recording",
    )
    add(
        "--clock-control",
        "leave the clocks unchanged (none) or lock them to the base clock (default: none)",
        choices=("none", "base"),
        default="none",
    )
    add("--light", "no warp samples and no source text: a small report, for many launches")
    add("--function FILE:NAME", "profile one Python function")
    add("--ncu PATH", "the ncu to run (default: the one on the PATH)")
    add("--ncu-options TEXT", "further options for ncu", type=shlex.split, default=[])
    add(
        "--dry-run",
        "print an ncu command to copy, with the sections and metrics that decide; run nothing",
    )
    add("--verbose", "with --dry-run: the complete command, with every metric that keet can use")
    add(
        "--format",
        "print what keet explain prints, or only the path of the report (default: terminal)",
        choices=("terminal", "json", "path"),
        default="terminal",
    )


def _add_selection(parser: ArgumentParser) -> None:
    """Options that select the launches to profile."""
    add = partial(option, parser)
    add(
        "--kernel REGEX",
        "profile only kernels whose name matches (without a plain run: the function name)",
        type=pattern,
    )
    add(
        "--first",
        "profile the first launch of each kernel (default: the kernels with the most time)",
    )
    add("--launch-skip N", "skip the first N launches that match", type=_count)
    add(
        "--launch-count N",
        "profile N launches that match, of all kernels together, from the first on or after "
        "--launch-skip (default with --launch-skip: 1)",
        type=positive,
    )
    add(
        "--range",
        "profile all kernels between cudaProfilerStart and cudaProfilerStop as one range, for "
        "kernels that can't be replayed alone",
    )


def _add_limits(parser: ArgumentParser) -> None:
    add = partial(option, parser)
    add(
        "--max-passes N",
        "profile as many launches as fit into N passes; a launch needs about 24 (default: 480)",
        type=positive,
        default=480,
    )
    add(
        "--max-minutes M",
        "stop ncu after M minutes and keep the launches profiled so far (default: 10)",
        type=_duration,
        default=10.0,
    )
    add(
        "--kernel-timeout S",
        "skip a kernel that makes no progress under ncu for S seconds (default: 60)",
        type=_duration,
        default=60.0,
    )


def run(args: Namespace) -> int:
    _check(args)
    report = args.output or _free_name(args)
    if args.dry_run:
        _print_command(shlex.join(_command(args, report)))
        return 0
    _check_place(report, args)
    if not args.function:
        return _profile_program(args, report)
    from keet.collect.profile_program import collect_function

    status = collect_function(args.function, report, args.clock_control, print_note)
    _print_result(args, report)
    return status


def _check(args: Namespace) -> None:
    if bool(args.program) == bool(args.function):
        raise UsageError("name one program after --, or one --function; see: keet profile --help")
    alone = {"--launch-skip": args.launch_skip, "--launch-count": args.launch_count}
    given = [name for name, value in alone.items() if value is not None]
    ways = [*given, *(["--first"] * args.first), *(["--range"] * args.range)]
    if len(ways) > 1 and ways != given:
        raise UsageError(f"{ways[0]} and {ways[-1]} exclude each other; leave one out")
    if args.range and args.kernel:
        raise UsageError("--range profiles all kernels of the range; leave --kernel out")
    if args.function and (ways or args.kernel or args.light or args.ncu or args.ncu_options):
        raise UsageError(
            "nsight-python profiles every kernel of the function, in its own way: leave --kernel, "
            "--first, --range, --launch-skip, --launch-count, --light, --ncu and --ncu-options "
            "out, or profile the script: keet profile -- python3 FILE"
        )


def _check_place(report: Path, args: Namespace) -> None:
    if report.is_dir():
        raise UsageError(f"{report}: this is a folder; name a file in it with -o")
    from keet.report.run_table import table_path

    for path in (report, table_path(report)):
        if path.exists() and not args.force and not _is_orphaned_table(path):
            raise UsageError(f"{path}: it exists; replace it with --force, or name another with -o")
    if not report.parent.is_dir():
        raise UsageError(f"{report}: there is no folder {report.parent}; make it first")


def _is_orphaned_table(path: Path) -> bool:
    """A run table without a report, because profiling failed."""
    from keet.report.run_table import SUFFIX, read_run_table

    if not path.name.endswith(SUFFIX):
        return False
    try:
        return read_run_table(path).report_created is None
    except IngestError:
        return False


def _free_name(args: Namespace) -> Path:
    """PROGRAM.ncu-rep, or the first of PROGRAM_2.ncu-rep … that does not exist."""
    named = args.function.partition(":")[0] if args.function else _script(args.program)
    stem = Path(named).stem or "report"
    from keet.report.run_table import table_path

    names = chain([stem], (f"{stem}_{number}" for number in count(2)))
    paths = (Path(f"{name}.ncu-rep") for name in names)
    return next(path for path in paths if not path.exists() and not table_path(path).exists())


def _script(program: list[str]) -> str:
    """The report of `python3 -u train.py` is named train, not python3."""
    if Path(program[0]).name.startswith("python"):
        return next((word for word in program[1:] if word.endswith(".py")), program[0])
    return program[0]


def _command(args: Namespace, report: Path) -> list[str]:
    if args.function:
        from keet.collect.profile_program import child_command

        return child_command(args.function, report, args.clock_control)
    from keet.collect.profile_plan import ncu_command, short_command

    request = _request(args)
    if request.launch_skip is None and request.launch_count is None and not request.as_range:
        print_note(
            "this command profiles the first launch of each kernel, before the program has warmed "
            f"up (--launch-skip N: a later one), and {_CLOCKS[request.clock_control]}. Without "
            "--dry-run, keet selects launches by time"
        )
    make = ncu_command if args.verbose else short_command
    return make(args.ncu or "ncu", request, report)


def _print_command(command: str) -> None:
    """One line for a pipe; on a terminal, as `keet explain` prints it."""
    from keet.cli.pager import show_text

    lines: Iterable[str] = [command]
    if sys.stdout.isatty():
        from keet.formats.terminal import terminal_width
        from keet.formatting import command_lines

        lines = command_lines(one_line(command), terminal_width(sys.stdout))
    show_text("".join(f"{line}\n" for line in lines))


_CLOCKS = {
    "none": "leaves the clocks unchanged (--clock-control base: locked to the base clock)",
    "base": "locks the clocks to the base clock (--clock-control none: left unchanged)",
}


def _request(args: Namespace) -> ProfileRequest:
    from keet.collect.profile_plan import ProfileRequest

    return ProfileRequest(
        program=tuple(args.program),
        kernel=args.kernel.pattern if args.kernel else None,
        launch_skip=args.launch_skip,
        launch_count=args.launch_count,
        clock_control=args.clock_control,
        light=args.light,
        as_range=args.range,
        ncu_options=tuple(args.ncu_options),
    )


def _profile_program(args: Namespace, report: Path) -> int:
    import shutil

    from keet.collect.profile_plan import ProfileOptions
    from keet.collect.profile_program import profile_program

    program = args.program[0]
    if shutil.which(program) is None and "/" in program:
        raise UsageError(f"there is no program {program}: no such file, or it is not executable")
    if shutil.which(program) is None:
        raise UsageError(f"there is no program {program}; name it with its path, e.g. ./{program}")
    _check_stdin()
    options = ProfileOptions(
        plain=not args.no_plain_run,
        first=args.first,
        max_passes=args.max_passes,
        max_minutes=args.max_minutes,
        kernel_timeout=args.kernel_timeout,
        check_overhead=args.check_overhead,
    )
    with _terminated_like_ctrl_c():
        status = profile_program(_request(args), report, _ncu(args), options, print_note)
    _print_result(args, report)
    if status:
        failed = f"keet: {program} failed with exit code {status} after its kernels ran"
        loud_stderr().write(one_line(failed) + "\n")
    return status


def _ncu(args: Namespace) -> str:
    from keet.collect.profile_plan import find_ncu

    try:
        return find_ncu(args.ncu)
    except NotAvailable as problem:
        command = f"keet profile --dry-run -- {shlex.join(args.program)}"
        raise NotAvailable(f"{problem}; for the command to run where ncu is: {command}") from None


def _check_stdin() -> None:
    """The program runs several times and can't read stdin each time."""
    import os
    import stat

    try:
        from_file = stat.S_ISREG(os.fstat(0).st_mode)
    except OSError:
        return
    if from_file:
        print_note(
            "the program's standard input is empty; pass a file instead: sh -c './app < input.txt'"
        )


@contextmanager
def _terminated_like_ctrl_c() -> Iterator[None]:
    """Treat SIGTERM (batch systems, `timeout`) like Ctrl-C, so that measurements are kept."""
    import signal

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    names = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP")]
    try:
        old = {number: signal.signal(number, interrupt) for number in names if number}
    except ValueError:  # not in the main thread
        old = {}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _print_result(args: Namespace, report: Path) -> None:
    if args.format == "path":
        sys.stdout.write(f"{report}\n")
        return
    from keet.cli import dispatch

    print_note(f"wrote {report}")
    dispatch(["explain", str(report), "--format", args.format])
