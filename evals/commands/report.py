"""Print scored runs as tables: the gain of each condition with intervals, and every failure.

optimize: by condition, difficulty, model and sample; mcq: by condition and kind of question.
--against compares the run with an earlier one, prompt by prompt, and lists what became worse:
programs that no longer pass, or that are slower by more than 1.1x and by more than the spread of
rounds (mcq: answers that were right and are wrong). Nothing is compared while more than 10 % of the
attempts are unscored.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from keet.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evals.pages import Part
    from evals.runs import Record

EXAMPLES = """\
examples:
  keet eval report runs/opt
  keet eval report runs/opt --format markdown -o report.md --svg speedups.svg
  keet eval report runs/opt runs/opt_small_model
  keet eval report runs/opt --against evals/results/optimize.scores.jsonl
  keet eval report runs/mcq --format json | jq .summaries

exit codes: 0 done; 2 runs that cannot be reported together, or without scores
"""


def configure(parser: ArgumentParser) -> None:
    from keet.cli.arguments import add_output

    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="folders that `keet eval score` filled"
    )
    parser.add_argument(
        "--against", type=Path, metavar="RUN", help="an earlier run, or its scores.jsonl"
    )
    add_output(parser, "terminal", "markdown", "json")
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw the speed-ups by condition (optimize)"
    )


def run(args: Namespace) -> None:
    from evals.report.load_runs import open_earlier, open_runs, task_of
    from keet.cli.arguments import Destination

    destination = Destination(args, sys.stdout)
    _check_svg(args.svg)
    runs = open_runs(args.runs)
    earlier = open_earlier(args.against) if args.against else None
    if task_of(runs) == "mcq":
        from evals.report.mcq import parts_of as mcq_parts
        from evals.report.mcq import report_of as mcq_report

        _refuse_svg(args)
        questions = mcq_report(runs, earlier)
        destination.write(_printed(args, "mcq", questions, mcq_parts(questions)))
        return
    from evals.report.optimize import parts_of, report_of

    report = report_of(runs, earlier)
    destination.write(_printed(args, "optimize", report, parts_of(report)))
    if args.svg:
        from evals.report.speedups_svg import speedups_svg

        _write(args.svg, speedups_svg(report))


def _check_svg(path: Path | None) -> None:
    """Checked before a long report is printed."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"--svg {path}: this is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"--svg {path}: its folder is not there; make it, or name another file")


def _refuse_svg(args: Namespace) -> None:
    if args.svg:
        raise UsageError("--svg draws speed-ups, and mcq has none; leave it out")


def _printed(args: Namespace, task: str, document: Record, parts: Iterable[Part]) -> str:
    from evals.pages import Heading, as_markdown, as_text

    if args.format == "json":
        return document.model_dump_json(indent=2) + "\n"
    if args.format == "markdown":
        return as_markdown(f"keet eval: {task}", _command(args), parts)
    return as_text([Heading(f"keet eval: {task}"), *parts])


def _command(args: Namespace) -> str:
    runs = " ".join(map(str, args.runs))
    beside = f" --against {args.against}" if args.against else ""
    return f"keet eval report {runs}{beside} --format markdown"


def _write(path: Path, text: str) -> None:
    from keet.cli.arguments import output_errors
    from keet.files import replacing_text

    with output_errors(path), replacing_text(path) as write:
        write(text)
