"""List the measured cases of the casebook: kernels before and after a fix, with the gain on a GPU.

A case has one dominant cause (`finding`), or it is a look-alike: it shows the symptom, but the fix
gains less than 10 %. With CASE, an id from the list: the source diff, both times and the counters
that changed."""

from __future__ import annotations

import difflib
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from keet.cli.arguments import Destination, add_output
from keet.errors import UsageError

if TYPE_CHECKING:
    from keet.documents.cases import CaseDocument

EXAMPLES = """\
examples:
  keet cases
  keet cases --finding shared_bank_conflict
  keet cases --archetype gemm --lookalikes
  keet cases transpose/power_of_two_tile
  keet cases --format json | jq '.cases[].id'
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("case", nargs="?", metavar="CASE", help="print this case in full")
    parser.add_argument("--finding", metavar="ID", help="only cases of this finding")
    parser.add_argument(
        "--archetype", metavar="NAME", help="only kernels of this kind: gemm, scan, …"
    )
    parser.add_argument("--family", metavar="NAME", help="only cases of this family")
    parser.add_argument("--lookalikes", action="store_true", help="only look-alikes")
    add_output(parser, "terminal", "json")


def run(args: Namespace) -> None:
    from keet.documents.cases import CasesDocument
    from keet.documents.document import json_text
    from keet.pages.cases import case_page, cases_page

    out = Destination(args, sys.stdout)
    if args.case and (args.finding or args.archetype or args.family or args.lookalikes):
        raise UsageError("CASE names a single case; leave out --finding and the other filters")
    entries = [_named(args.case)] if args.case else _chosen(args)
    if args.format == "json":
        out.write(json_text(CasesDocument(cases=entries)))
    elif args.case:
        out.show_page(lambda _: case_page(entries[0]))
    else:
        out.show_page(lambda reader: cases_page(entries, reader))


def _named(name: str) -> CaseDocument:
    from keet.explanation.casebook import casebook, cases_named

    found = cases_named(name)
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(entry.id for entry in found)
        raise UsageError(f"{name} is the name of several cases; use one of: {ids}")
    close = difflib.get_close_matches(name, [entry.id for entry in casebook()], n=1, cutoff=0.8)
    family = name.partition("/")[0]
    hint = "see: keet cases"
    if close:
        hint = f"did you mean: keet cases {close[0]}"
    elif family in {entry.family for entry in casebook()}:
        hint = f"see: keet cases --family {family}"
    raise UsageError(f"there is no case {name!r}; {hint}")


def _chosen(args: Namespace) -> list[CaseDocument]:
    from keet.explanation.casebook import casebook, chosen_cases

    for option in ("finding", "archetype", "family"):
        _check_known(option, getattr(args, option), {getattr(case, option) for case in casebook()})
    chosen = chosen_cases(args.finding, args.archetype, args.family, lookalikes=args.lookalikes)
    if not chosen:
        raise UsageError("no case matches all of these options; leave one out")
    return chosen


def _check_known(option: str, wanted: str | None, known: set[str]) -> None:
    if wanted is None or wanted in known:
        return
    close = [name for name in sorted(known) if name.startswith(wanted)]
    close = close or difflib.get_close_matches(wanted, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(sorted(known))}"
    raise UsageError(f"--{option} {wanted}: the casebook has no such {option}; {hint}")
