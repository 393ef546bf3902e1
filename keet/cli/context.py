"""Print what limits a kernel as context for a prompt that asks for a faster one: causes by their
cost, with evidence; source lines with the cost of each; what must not change; what to check
afterwards. It is about one launch: the representative of the kernel that takes most time (in the
run, if that is known), as in `keet explain`.

The text has at most --max-tokens tokens. keet uses no tokenizer: it takes the largest of
bytes / 3.5, words * 1.35, and a count of word pieces (5 letters each), digits, signs and indents.
This is more than cl100k_base and o200k_base count for such texts. A smaller limit drops source
lines and causes; the verdict and the first cause are dropped last."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from functools import partial
from pathlib import Path

from keet.cli.arguments import (
    Destination,
    add_no_sass,
    add_report,
    add_run_table,
    add_selection,
    add_source,
    option,
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
"""Default of --max-tokens."""
CAUSES = 5
"""At most, if they fit."""
_LEAST_TOKENS = 30


def configure(parser: ArgumentParser) -> None:
    add_report(parser)
    add_selection(parser)
    add = partial(option, parser)
    add(
        "--max-tokens N",
        f"at most N tokens, counted as described above (default: {MAX_TOKENS})",
        type=_budget,
        default=MAX_TOKENS,
    )
    add_source(parser)
    add_run_table(parser)
    add_no_sass(parser)
    add("-o, --output FILE", "write the output to FILE", type=Path)


def _budget(text: str) -> int:
    if (count := positive(text)) < _LEAST_TOKENS:
        raise ArgumentTypeError(
            f"{text} is too few for a verdict; it must be {_LEAST_TOKENS} or more"
        )
    return count


def run(args: Namespace) -> None:
    from keet.pages.context import context_of
    from keet.report import read_profile

    profile = read_profile(args.report, source=args.source, run_table=args.run_table)
    chosen = selected_launches(profile, args)
    sass = not args.no_sass
    text = context_of(profile, chosen, args.max_tokens, causes=CAUSES, sass=sass)
    Destination(args).write(text)
