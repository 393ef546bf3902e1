"""What the answers of a run are worth, each with the reason; written to its scores.jsonl.

Answers to multiple-choice questions need nothing more. Programs (optimize) are measured on a GPU:
by `keet eval bundle` and the script in it, whose result --measured names, or here, where nvcc and a
GPU are. A file measured.json in the run's folder is found by itself."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from evals.runs import RunFolder, write_lines
from keet.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evals.pages import Part
    from evals.runs import Record

EXAMPLES = """\
examples:
  keet eval score runs/mcq
  keet eval score runs/opt --measured measured.json
  keet eval score runs/opt --measured big.json small.json
  keet eval score runs/opt                  where nvcc and a GPU are, or measured.json is in it

exit codes: 0 done; 2 files that do not belong together; 3 optimize without a GPU and --measured
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder of `keet eval prompts`")
    parser.add_argument(
        "--measured",
        type=Path,
        action="extend",
        nargs="+",
        default=[],
        metavar="FILE",
        help="what score_candidates.py wrote on the GPU machine",
    )


def run(args: Namespace) -> None:
    from evals.pages import as_text

    folder = RunFolder(args.run)
    if folder.run.task == "mcq" and args.measured:
        raise UsageError("--measured is of optimize; questions are scored without it: leave it out")
    if not folder.models:
        raise UsageError(f"{args.run} has no answer yet; ask: keet eval ask {args.run} --help")
    found, parts = _mcq(folder) if folder.run.task == "mcq" else _optimize(folder, args.measured)
    write_lines(folder.path / "scores.jsonl", found)
    sys.stdout.write(as_text(parts))
    sys.stderr.write(f"{len(found)} scores in {folder.path / 'scores.jsonl'}\n")


def _mcq(folder: RunFolder) -> tuple[Sequence[Record], Sequence[Part]]:
    from evals.mcq.scoring import scores
    from evals.optimize.scoring import check_versions
    from evals.report.mcq import short_parts

    check_versions(folder)
    found = scores(folder)
    return found, short_parts(found)


def _optimize(folder: RunFolder, named: Sequence[Path]) -> tuple[Sequence[Record], Sequence[Part]]:
    from evals.optimize.measuring import measured_files
    from evals.optimize.scoring import read_measured, scores
    from evals.report.optimize import short_parts

    found = scores(folder, read_measured(named or measured_files(folder)))
    return found, short_parts(found)
