"""Score the answers of a run, each with the reason, and write its scores.jsonl.

If nothing can be scored, earlier scores stay.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from evals.runs import RunFolder, write_lines
from keet.errors import UsageError

EXAMPLES = """\
examples:
  keet eval score runs/mcq

exit codes: 0 done; 2 files that do not belong together, or nothing to score over scores that are
there
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="a folder of `keet eval prompts`")


def run(args: Namespace) -> None:
    from evals.mcq.scoring import check_versions, scores
    from evals.pages import as_text
    from evals.report.mcq import none_scored, short_parts

    folder = RunFolder(args.run)
    if not folder.models:
        raise UsageError(f"{args.run} has no answer yet; ask: keet eval ask {args.run} --help")
    check_versions(folder)
    found = scores(folder)
    where = folder.path / "scores.jsonl"
    is_empty = all(score.outcome == "unscored" for score in found)
    if is_empty and where.is_file() and where.stat().st_size:
        raise UsageError(f"{none_scored(found)}; {where} is left as it was")
    write_lines(where, found)
    sys.stdout.write(as_text(short_parts(found)))
    sys.stderr.write(f"{len(found)} scores in {where}; next: keet eval report {args.run}\n")
