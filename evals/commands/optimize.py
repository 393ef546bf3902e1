"""Optimize programs over rounds, each under several conditions: what a model gets about a profile.

FOLDER has one chain per program, start, condition and attempt. Each call goes on with every chain
as far as it can, says what is waited for, and prints what is known by then. The same command, or
just the folder, continues after an interruption, a measurement on another machine, or an edit by
hand. FILE.json prints the tables of a result that --result wrote.
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evals.optimize.conditions import NAMES
from evals.optimize.plan import DEFAULT
from evals.optimize.program_tasks import STARTS
from keet.cli.arguments import Destination, add_output, positive, writing
from keet.cli.model_options import add_chosen_model
from keet.cli.optimize import add_proposer, open_proposer, repeats
from keet.cli.pager import print_problem, print_progress
from keet.errors import ExitCode, UsageError
from keet.files import replacing_text
from keet.formatting import count_noun

if TYPE_CHECKING:
    from evals.optimize.chains import Evaluation, Open
    from evals.optimize.rounds import EvalResult

EXAMPLES = """\
examples:
  keet eval optimize runs/rounds --model openai:gpt-5 --attempts 3
  keet eval optimize runs/rounds --proposer 'command:agent' --runner folder:requests
  keet eval optimize runs/rounds
  keet eval optimize runs/rounds --format markdown --result rounds.json
  keet eval optimize rounds.json

exit codes: 0 all chains are finished; 2 other settings than those of the folder; 3 the model, the
runner or a program failed; 7 waiting for measurements or changes
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the chains, or FILE.json")
    what = parser.add_argument_group("what is compared (kept in the folder)")
    for option, known in (("programs", DEFAULT.programs), ("conditions", NAMES)):
        what.add_argument(
            f"--{option}",
            type=_names_of(known),
            metavar="A,B",
            help=f"of {', '.join(known)} (default: all)",
        )
    what.add_argument(
        "--start", choices=(*STARTS, "both"), help="version to begin with (default: both)"
    )
    what.add_argument(
        "--attempts",
        type=positive,
        metavar="N",
        help=f"of each chain (default: {DEFAULT.attempts})",
    )
    what.add_argument(
        "--rounds", type=positive, metavar="R", help=f"of each chain (default: {DEFAULT.rounds})"
    )
    what.add_argument(
        "--repeats",
        type=repeats,
        metavar="N",
        help=f"timed runs per program and round, from 3 on (default: {DEFAULT.repeats})",
    )
    who = parser.add_argument_group("who proposes, and where it runs (kept in the folder)")
    add_proposer(who)
    who.add_argument(
        "--runner",
        metavar="RUNNER",
        help="as of keet optimize: local, command:TEMPLATE or folder:DIR (default: local)",
    )
    add_chosen_model(parser)
    add_output(parser, "terminal", "markdown", "json")
    parser.add_argument(
        "--result", type=Path, metavar="FILE", help="also write everything that is known as JSON"
    )


def _names_of(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """In the order of `known`, whatever the order given."""

    def parse(text: str) -> tuple[str, ...]:
        names = {part.strip() for part in text.split(",")}
        if wrong := sorted(names - {*known}):
            raise ArgumentTypeError(f"{wrong[0]!r}: there are {', '.join(known)}")
        return tuple(name for name in known if name in names)

    return parse


def run(args: Namespace) -> int:
    destination = Destination(args)
    if args.folder.is_file():
        destination.write(_printed(args, _read_result(args.folder)))
        return 0
    from evals.optimize.chains import Evaluation
    from evals.optimize.plan import begin, read_plan
    from keet.optimize.runners import open_runner

    plan = read_plan(args.folder, _asked(args))
    args.proposer, args.model, args.base_url = plan.proposer, plan.model, plan.base_url
    args.rounds = plan.rounds
    is_quiet = plan.runner.startswith("folder:")  # each call would repeat what is waited for
    progress = (lambda _: None) if is_quiet else print_progress
    proposer, runner = open_proposer(args), open_runner(plan.runner)
    begin(args.folder, plan, proposer.name)
    evaluation = Evaluation(args.folder.absolute(), plan, proposer, runner, progress)
    still_open = evaluation.go_on()
    result = evaluation.result()
    if args.result:
        with writing(args.result), replacing_text(args.result) as write:
            write(result.model_dump_json(indent=1) + "\n")
    destination.write(_printed(args, result))
    for problem in still_open.problems:
        print_problem(problem)
    for line in _waiting_lines(still_open, evaluation):
        print_progress(line)
    if still_open.problems:
        return ExitCode.NOT_AVAILABLE
    is_waiting = still_open.measurements or still_open.prompts
    return ExitCode.WAITING if is_waiting else ExitCode.DONE


def _asked(args: Namespace) -> dict[str, Any]:
    """The settings that were given."""
    names = ("programs", "conditions", "attempts", "rounds", "repeats", "runner")
    asked = {name: getattr(args, name) for name in (*names, "proposer", "model", "base_url")}
    if args.start:
        asked["starts"] = STARTS if args.start == "both" else (args.start,)
    kind, _, rest = (args.runner or "").partition(":")
    if kind == "folder" and rest:
        asked["runner"] = f"folder:{Path(rest).absolute()}"
    return {name: value for name, value in asked.items() if value is not None}


# --- what is printed


def _read_result(path: Path) -> EvalResult:
    from pydantic import ValidationError

    from evals.optimize.rounds import EvalResult

    try:
        return EvalResult.model_validate_json(path.read_bytes())
    except ValidationError:
        raise UsageError(f"{path} is not a file that keet eval optimize --result wrote") from None


def _printed(args: Namespace, result: EvalResult) -> str:
    from evals.optimize.page import TITLE, parts_of
    from evals.pages import printed

    if args.format == "json":
        return result.model_dump_json(indent=1) + "\n"
    command = shlex.join(["keet", "eval", "optimize", str(args.folder)])
    return printed(args.format, TITLE, command, parts_of(result))


def _waiting_lines(still_open: Open, evaluation: Evaluation) -> Iterator[str]:
    from keet.optimize.runners import measure_command

    if still_open.measurements:
        folder = Path(evaluation.plan.runner.partition(":")[2])
        any_request = min(path.parent for path in folder.glob("*/request.json"))
        yield (
            f"{count_noun(still_open.measurements, 'measurement')} outstanding in {folder}; on the "
            f"GPU machine, run: {measure_command(any_request, folder)}"
        )
    if still_open.prompts:
        yield (
            f"{count_noun(len(still_open.prompts), 'prompt')} waiting for a change; in each folder "
            "below, read prompt.md, edit the files in source, then create the file ready (its text "
            "is the summary):"
        )
        yield from map(str, still_open.prompts)
    if still_open.measurements or still_open.prompts:
        words = ["keet", "eval", "optimize", str(evaluation.folder)]
        yield f"afterwards: {shlex.join(words)}"
