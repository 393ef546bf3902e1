"""What limits a kernel, as context for a prompt that asks to make it faster: causes by what they
cost, with their evidence; the source lines with the cost of each; what must stay as it is; what to
check afterwards. One launch: of those chosen the longest, or, where the whole run is known, the one
that stands for the most of its time.

Never more than --max-tokens. keet counts with no tokenizer: the largest of bytes / 3.5,
words * 1.35, and a count of word pieces (5 letters each), digits, signs and indents. That is more
than cl100k_base and o200k_base count in such texts. With less room there are fewer lines and fewer
causes; the verdict and the first cause go last."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from keet.cli.arguments import (
    Destination,
    add_no_sass,
    add_report,
    add_run_table,
    add_selection,
    add_source,
    positive,
    selected_launches,
)

EXAMPLES = """\
examples:
  keet context report.ncu-rep
  keet context report.ncu-rep --kernel gemm --max-tokens 800
  keet context report.ncu-rep --launch 2 --source ./src -o context.md
"""

MAX_TOKENS = 2000
"""Where nothing else is asked for."""
CAUSES = 5
"""Where there is room for them."""
_LEAST = 30


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add_selection(parser)
    parser.add_argument(
        "--max-tokens",
        type=_budget,
        default=MAX_TOKENS,
        metavar="N",
        help=f"never more than this, counted as said above (default: {MAX_TOKENS})",
    )
    add_source(parser)
    add_run_table(parser)
    add_no_sass(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE")


def _budget(text: str) -> int:
    if (count := positive(text)) < _LEAST:
        raise ArgumentTypeError(f"{text} has no room for a verdict: {_LEAST} or more")
    return count


def run(args: Namespace) -> None:
    from keet.ingest import read_profile
    from keet.render.markdown.context import context_of

    profile = read_profile(args.report, source=args.source, run_table=args.run_table)
    chosen = selected_launches(profile, args)
    sass = not args.no_sass
    text = context_of(profile, chosen, args.max_tokens, causes=CAUSES, sass=sass)
    Destination(args, sys.stdout).write(text)
