"""Print scored runs as tables: right answers by condition and kind of question, with intervals, and
every wrong answer.

--against compares the run with an earlier one, prompt by prompt, and lists answers that were right
and are wrong.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

EXAMPLES = """\
examples:
  keet eval report runs/mcq
  keet eval report runs/mcq runs/mcq_small_model --format markdown -o report.md
  keet eval report runs/mcq --against old/scores.jsonl
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


def run(args: Namespace) -> None:
    from evals.pages import printed
    from evals.report.against import open_earlier, open_runs
    from evals.report.mcq import parts_of, report_of
    from keet.cli.arguments import Destination

    destination = Destination(args)
    runs = open_runs(args.runs)
    report = report_of(runs, open_earlier(args.against) if args.against else None)
    if args.format == "json":
        destination.write(report.model_dump_json(indent=2) + "\n")
        return
    beside = f" --against {args.against}" if args.against else ""
    command = f"keet eval report {' '.join(map(str, args.runs))}{beside}"
    destination.write(printed(args.format, "keet eval: mcq", command, parts_of(report)))
