"""List the biggest opportunities in a store made by `keet batch`: where the GPU time goes, what the
best fix could save, and which launch to look at.

Launches with the same kernel, shape and GPU are one group. "could save" is the time of the launches
with the finding, minus their time after the fix by the likely forecast. Groups are ranked by
it. Shares are of the time on the group's own GPU.

If reports have a run table (`keet profile` records it), times and shares are of the whole run, and
a saving is claimed for launches of similar length. Launches of other reports count once, as
profiled, in a second list."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import Destination, add_kernel, add_output, add_top, option, pattern, top_of
from keet.cli.pager import print_note
from keet.errors import UsageError

if TYPE_CHECKING:
    from keet.corpus.store.reader import Store
    from keet.documents.top import TopDocument

EXAMPLES = """\
examples:
  keet top OUT
  keet top OUT --by finding --device H200
  keet top OUT --kernel gemm --top 30
  keet top OUT --format csv -o opportunities.csv
"""


def add_store(parser: ArgumentParser) -> None:
    parser.add_argument(
        "store", type=Path, metavar="OUT", help="the store, made by `keet batch -o OUT`"
    )


def configure(parser: ArgumentParser) -> None:
    add_store(parser)
    add = partial(option, parser)
    add(
        "--by",
        "how to group launches on each GPU (default: kernel, with its shape)",
        choices=("kernel", "finding", "file"),
        default="kernel",
    )
    add(
        "--sort",
        "rank groups by the time that a fix could save (default), or by its share of the time "
        "on the group's own GPU",
        choices=("saved", "share"),
        default="saved",
    )
    add_top(parser, "groups of each list", default=10, data=("json", "csv"), also=("--limit",))
    add("--all", "print the details of all listed groups (default: of the first three)")
    add("--device REGEX", "only launches on GPUs whose name matches", type=pattern)
    add_kernel(parser)
    add_output(parser, "terminal", "json", "csv", "markdown")


def run(args: Namespace) -> None:
    from keet.corpus.top import Selection, find_top

    out = Destination(args)
    with open_filled(args.store) as store, store.explaining_damage():
        top = find_top(store, Selection(args.by, top_of(args), args.device, args.kernel, args.sort))
        if not top.launches:
            raise UsageError(
                f"{args.store}: the store has no launches: no report could be read, or all are "
                f'gone; see: keet query {args.store} "SELECT path, status, reason FROM files"'
            )
        _print(args, out, replace(top, store=str(args.store)))
    note_older(store)


def open_filled(path: Path) -> Store:
    """Open a store; raises UsageError if it is empty."""
    from keet.corpus.store.reader import open_store

    store = open_store(path)
    if not store.part_count:
        raise UsageError(f"{path}: the store is empty; fill it with: keet batch DIR -o {path}")
    return store


def note_older(store: Store) -> None:
    """Print on stderr, after the result, what an older store lacks."""
    if store.version.is_old:
        print_note(store.version.note)


def _print(args: Namespace, out: Destination, document: TopDocument) -> None:
    if args.format == "csv":
        from keet.formats.csv import top_csv

        out.write(top_csv(document))
    else:
        from keet.pages.top import top_page

        out.show(document, lambda reader: top_page(document, reader, every=args.all), args.format)
