"""Make a program faster, round by round: measure and profile it, explain the profile, let a model,
a coding agent or a person propose a change, build and check it, measure before and after in turns,
and keep the change or drop it.

The folder is copied and stays as it is, except with --apply, which applies the best patch at the
end. Every round is kept in a folder (--folder). The same command continues after an interrupt or a
kill; with a larger --rounds it adds rounds."""

from __future__ import annotations

import select
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from keet.cli.arguments import (
    Destination,
    add_kernel,
    add_output,
    check_page,
    number,
    option,
    output_errors,
    positive,
)
from keet.cli.model_options import add_chosen_model, add_show_prompt, announce, chosen_model
from keet.cli.pager import print_problem, print_progress
from keet.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

    from keet.documents.optimize import OptimizeDocument
    from keet.optimize.proposers import Proposer
    from keet.optimize.task import Task

T = TypeVar("T")

_SAME = "  keet optimize src --build make --run ./app"
EXAMPLES = f"""\
examples:
{_SAME} --check ./check.sh --may-change '*.cu' --model openai:gpt-5
{_SAME} --compare out.txt --may-change k.cu --proposer 'command:agent'
{_SAME} --check ./check.sh --may-change k.cu --runner folder:requests --no-wait
{_SAME} --check ./check.sh --may-change '*.cu' --apply
"""

EXIT_CODES = {
    ExitCode.DONE: "a faster program was found",
    ExitCode.CHECK_FAILED: "no change made it faster",
    ExitCode.USAGE: "wrong usage, or the program does not build, run or pass its check",
    ExitCode.NOT_AVAILABLE: "the model, the runner or the recorder failed; the same command "
    "continues",
    ExitCode.WAITING: "--no-wait: waiting for a person or another machine",
    ExitCode.INTERRUPTED: ExitCode.INTERRUPTED.meaning,
}
_POLL_SECONDS = 2.0
_amount = number("a positive number", lambda value: 0 < value <= 1e9)
_tolerance = number("a number from 0 on", lambda value: 0 <= value < 1e30)


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="SOURCE", help="the folder of the program")
    _add_program(parser)
    _add_goal(parser)
    _add_limits(parser)
    _add_machine(parser)
    add_show_prompt(add_chosen_model(parser))
    add_output(parser, "terminal", "markdown", "html", "json")


def _add_program(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("program (commands run in a copy of SOURCE, by sh -c)")
    add = partial(option, group)
    add("--build COMMAND", "builds the program", required=True)
    add("--run COMMAND", "runs it, to be timed", required=True)
    add("--check COMMAND", "exits with 0 if the last run was right; after each run")
    add(
        "--compare FILE[:TYPE]",
        "an output that must stay as in the first run; - is stdout; TYPE: text (default), "
        "float32, float64, bytes",
        action="append",
        default=[],
    )
    add(
        "--tolerance R",
        "with --compare: allowed difference as a share of each number (default: 0)",
        type=_tolerance,
        default=0.0,
    )
    add(
        "--absolute-tolerance A",
        "with --compare: allowed difference added to that (default: 0)",
        type=_tolerance,
        default=0.0,
    )
    add(
        "--may-change PATTERN",
        "files that may change, relative to SOURCE: kernel.cu, 'src/*.cu'; can be repeated",
        action="append",
        required=True,
    )
    add(
        "--check-files PATTERN",
        "files that only the check needs, as expected results: not there during build and run",
        action="append",
        default=[],
    )
    add(
        "--exclude PATTERN", "files that are not copied (always: .git)", action="append", default=[]
    )


def _add_goal(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("goal")
    add = partial(option, group)
    add(
        "--goal",
        "the time in which the GPU runs kernels, or of the whole program (default: gpu)",
        choices=("gpu", "wall"),
        default="gpu",
    )
    add_kernel(group)
    add("--no-wall-check", "keep gains of GPU time that are not seen in the time of the program")


def _add_limits(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("limits")
    add = partial(option, group)
    add("--rounds N", "rounds at most (default: 5)", type=positive, default=5)
    add(
        "--repeats N",
        "timed runs of each program per round, from 3 on (default: 5)",
        type=repeats,
        default=5,
    )
    add("--max-minutes M", "begin no round after M minutes of work", type=_amount)
    add("--max-tokens N", "begin no round after N tokens", type=positive)
    add("--max-cost USD", "begin no round after USD (needs a price)", type=_amount)
    for name, what, seconds in (
        ("build", "a build", 600),
        ("run", "a run", 120),
        ("check", "a check", 600),
        ("proposer", "a proposer command", 1800),
    ):
        add(
            f"--{name}-limit S",
            f"end {what} after S seconds (default: {seconds})",
            type=_amount,
            default=float(seconds),
        )


def _add_machine(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("who proposes, and where it runs")
    add_proposer(group)
    add = partial(option, group)
    add(
        "--runner RUNNER",
        "local; command:TEMPLATE with {request} and {result}, two folders (ssh, Slurm, "
        "containers); folder:DIR, for a machine that nothing else can reach (default: local)",
        default="local",
    )
    add("--no-wait", "exit with 7 instead of waiting for a person or the result of folder:DIR")
    add("--no-profile", "do not profile with ncu")
    add("--folder DIR", "where rounds are kept (default: SOURCE.keet)", type=Path)
    add("--apply", "apply the best patch to SOURCE at the end")


def add_proposer(group: _ArgumentGroup) -> None:
    option(
        group,
        "--proposer command:TEMPLATE",
        "a coding agent: a command that edits the current folder; gets the prompt on stdin "
        "and as the file {prompt} (default: --model, else a person)",
    )


def repeats(text: str) -> int:
    if (count := positive(text)) < 3:
        raise ArgumentTypeError(f"{text} runs do not show the noise; it must be 3 or more")
    return count


# --- running


def run(args: Namespace) -> int:
    from keet.optimize.engine import Engine
    from keet.optimize.runners import open_runner

    check_page(args)
    task = _task(args)
    task.check_valid()
    folder = _folder(args, task)
    is_attended = not args.no_wait and sys.stdin.isatty() and sys.stderr.isatty()
    is_confirmed = _is_enter_pressed if is_attended else None
    proposer = open_proposer(args, is_confirmed, needs_price=args.max_cost is not None)
    runner = open_runner(args.runner)
    engine = Engine(task, folder, proposer, runner, progress=print_progress)
    if args.show_prompt:
        Destination(args).write(_waiting(args, engine.shown_prompt))
        return 0
    try:
        document = _waiting(args, engine.run)
    except KeyboardInterrupt:
        if not engine.has_begun:
            raise
        document = engine.interrupted()
    code, best = _exit_code(document), document.best
    if args.apply and best and code == ExitCode.DONE:
        document = engine.apply(document)
        print_progress(f"applied {best.patch} to {task.source}")
    _show(args, document)
    return code


def _waiting(args: Namespace, work: Callable[[], T]) -> T:
    """Repeats the work, which continues where it was, until nobody has to be waited for."""
    from keet.optimize.task import Waiting

    printed = ""
    while True:
        try:
            return work()
        except Waiting as waiting:
            if args.no_wait:
                raise
            if str(waiting) != printed:
                printed = str(waiting)
                print_progress(printed)
            time.sleep(_POLL_SECONDS)


def _task(args: Namespace) -> Task:
    from keet.optimize.task import Limits, Task, output_rule

    tolerances = args.tolerance, args.absolute_tolerance
    if args.kernel and args.goal == "wall":
        raise UsageError("--kernel needs --goal gpu: only kernels have times of their own")
    return Task(
        source=args.source.resolve(),
        build=args.build,
        run=args.run,
        may_change=tuple(args.may_change),
        check=args.check,
        outputs=tuple(output_rule(each, *tolerances) for each in args.compare),
        exclude=tuple(args.exclude),
        check_files=tuple(args.check_files),
        goal=args.goal,
        kernel=args.kernel.pattern if args.kernel else None,
        repeats=args.repeats,
        rounds=args.rounds,
        limits=Limits(
            args.max_minutes,
            args.max_tokens,
            args.max_cost,
            args.build_limit,
            args.run_limit,
            args.check_limit,
            args.proposer_limit,
        ),
        profiles=not args.no_profile,
        wall_check=not args.no_wall_check,
    )


def _folder(args: Namespace, task: Task) -> Path:
    """Never inside the source, which it has copies of."""
    folder: Path = (args.folder or Path(f"{task.source.name or 'source'}.keet")).absolute()
    if folder.resolve().is_relative_to(task.source.resolve()):
        raise UsageError(f"{folder}: it is inside SOURCE; name another folder with --folder")
    with output_errors(folder):
        is_foreign = folder.exists() and not (folder / "lock").exists() and any(folder.iterdir())
    if is_foreign:
        raise UsageError(f"{folder}: it is not a folder of rounds; name another with --folder")
    return folder


def open_proposer(
    args: Namespace, is_confirmed: Callable[[], bool] | None = None, *, needs_price: bool = False
) -> Proposer:
    """`is_confirmed`: of a person, as of `PersonProposer`."""
    from keet.optimize.proposers import CommandProposer, ModelProposer, PersonProposer

    if args.proposer is not None:
        kind, _, template = args.proposer.partition(":")
        if kind != "command" or not template:
            raise UsageError("--proposer: write command:TEMPLATE, for example 'command:agent'")
        if args.model or args.base_url:
            raise UsageError("--proposer and --model exclude each other; leave one out")
        return CommandProposer(template, print_progress)
    options = chosen_model(args)
    if options is None:
        return PersonProposer(is_confirmed)
    if needs_price and options.spec.price is None:
        raise UsageError("--max-cost needs the price of the model: --price IN/OUT")
    announce(args)
    return ModelProposer(options, print_progress)


def _is_enter_pressed() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0]) and bool(sys.stdin.readline())


# --- the result


def _show(args: Namespace, document: OptimizeDocument) -> None:
    if document.stopped == "model":
        print_problem(f"{document.stopped_text}; the same command continues")
    from keet.pages.optimize import optimize_page

    Destination(args).show(document, lambda reader: optimize_page(document, reader), args.format)


def _exit_code(document: OptimizeDocument) -> int:
    if document.stopped == "model":
        return ExitCode.NOT_AVAILABLE
    if document.stopped == "interrupted":
        return ExitCode.INTERRUPTED
    is_faster = document.best is not None and document.best.is_faster
    return ExitCode.DONE if is_faster else ExitCode.CHECK_FAILED
