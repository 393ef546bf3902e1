"""List measured cases: kernels before and after a fix, with the gain on a GPU. `keet finding` has
all of it: keet finding --cases lists them, keet finding CASE shows one. This older command keeps
working."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from keet.cli.arguments import add_output, option
from keet.cli.finding import add_case_filters, cases_named, chosen_cases, find_id, show_cases
from keet.cli.pager import print_note
from keet.errors import UsageError

EXAMPLES = """\
examples:
  keet cases --finding shared_bank_conflict     now: keet finding shared_bank_conflict --cases
  keet cases transpose/power_of_two_tile        now: keet finding transpose/power_of_two_tile
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("case", nargs="?", metavar="CASE", help="print this case in full")
    option(parser, "--finding ID", "only cases of this finding")
    add_case_filters(parser)
    add_output(parser, "terminal", "json")


def run(args: Namespace) -> None:
    args.name = args.case
    if args.case:
        if args.finding or args.archetype or args.family or args.lookalikes:
            raise UsageError("CASE names a single case; leave out --finding and the other filters")
        cases = cases_named(args.case)
        if not cases:
            raise UsageError(f"there is no case {args.case!r}; see: keet finding --cases")
    else:
        cases = chosen_cases(args, find_id(args.finding) if args.finding else None)
    show_cases(args, cases)
    now = args.case or " ".join(filter(None, (args.finding, "--cases")))
    print_note(f"keet cases has moved; now: keet finding {now}")
