"""Score the answers of a run, each with the reason, and write its scores.jsonl.

Answers to multiple-choice questions need nothing else. Programs (optimize) are measured on a GPU:
either with `keet eval bundle` and its script, whose result --measured names, or on this machine if
it has nvcc and a GPU. A file measured.json in the run's folder is used automatically. An answer
without a program counts as one that does not compile. If nothing can be scored, earlier scores
stay.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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

exit codes: 0 done; 2 files that do not belong together, or nothing to score over scores that are
there; 3 programs without a GPU and without --measured
"""


SCORES = "scores.jsonl"


class _Scored(NamedTuple):
    """What is written and printed."""

    scores: Sequence[Record]
    parts: Sequence[Part]
    nothing: str | None
    """Why nothing is scored; None: something is."""
    machines: Sequence[Record] | None = None
    """The machines that measured; None: the task measures nothing."""


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
    scored = _mcq(folder) if folder.run.task == "mcq" else _optimize(folder, args.measured)
    _check_replaces(folder, scored)
    write_lines(folder.path / SCORES, scored.scores)
    if scored.machines is not None:
        from evals.optimize.measured_file import MACHINES

        write_lines(folder.path / MACHINES, scored.machines)
    sys.stdout.write(as_text(scored.parts))
    where = folder.path / SCORES
    sys.stderr.write(f"{len(scored.scores)} scores in {where}; next: keet eval report {args.run}\n")


def _check_replaces(folder: RunFolder, scored: _Scored) -> None:
    """A wrong or missing file must not overwrite earlier scores."""
    there = folder.path / SCORES
    if scored.nothing is None or not there.is_file() or not there.stat().st_size:
        return
    raise UsageError(f"{scored.nothing}; {there} is left as it was")


def _mcq(folder: RunFolder) -> _Scored:
    from evals.mcq.scoring import scores
    from evals.optimize.scoring import check_versions
    from evals.report.mcq import none_scored, short_parts

    check_versions(folder)
    found = scores(folder)
    empty = all(score.outcome == "unscored" for score in found)
    return _Scored(found, short_parts(found), none_scored(found) if empty else None)


def _optimize(folder: RunFolder, named: Sequence[Path]) -> _Scored:
    """Answers without a program are failures and need no measurement."""
    from evals.optimize.measured_file import Measured, read_measured
    from evals.optimize.measurements import measured_files
    from evals.optimize.scoring import program_of, scores
    from evals.report.optimize import none_scored, short_parts

    measured = Measured({}, [])
    if named or any(map(program_of, folder.answers)):
        measured = read_measured(named or measured_files(folder))
    found = scores(folder, measured.results)
    empty = all(score.status is None for score in found)
    nothing = none_scored(found) if empty else None
    return _Scored(found, short_parts(found), nothing, measured.machines)
