"""List the biggest opportunities in a store made by `keet batch`: where the GPU time goes, what the
best fix could save, and which launch to look at.

Launches with the same kernel, shape and GPU are one group. "could save" is the time of the launches
with the finding, minus their time after the fix by the likely forecast. Shares are of the time on
the group's own GPU, and groups are ranked by the share that a fix could save.

If reports have a run table (`keet profile` records it), times and shares are of the whole run, and
a saving is claimed for launches of similar length. Launches of other reports count once, as
profiled, in a second list."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from keet.cli.arguments import Destination, add_kernel, add_output, add_top, pattern, top_of
from keet.errors import UsageError, one_line

if TYPE_CHECKING:
    from keet.corpus.store.reader import Store
    from keet.corpus.top.ranking import GpuTotals, Opportunity, Top
    from keet.documents.top import GpuDocument, OpportunityDocument, TopDocument

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
    parser.add_argument(
        "--by",
        choices=("kernel", "finding", "file"),
        default="kernel",
        help="how to group launches on each GPU (default: kernel, with its shape)",
    )
    add_top(parser, "groups of each list", default=10, data=("json", "csv"), also=("--limit",))
    parser.add_argument(
        "--device", type=pattern, metavar="REGEX", help="only launches on GPUs whose name matches"
    )
    add_kernel(parser)
    add_output(parser, "terminal", "json", "csv", "markdown")


def run(args: Namespace) -> None:
    from keet.corpus.top.ranking import Selection, find_top

    out = Destination(args, sys.stdout)
    with open_filled(args.store) as store, store.explaining_damage():
        top = find_top(store, Selection(args.by, top_of(args), args.device, args.kernel))
        _print(args, out, _document(args, top, _failed(store)))
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
        sys.stderr.write(one_line(f"keet: {store.version.note}") + "\n")


def _failed(store: Store) -> int:
    return int(store.query("SELECT count(*) FROM files WHERE status = 'failed'").rows[0][0])


def _document(args: Namespace, top: Top, failed: int) -> TopDocument:
    from keet.documents.top import TopDocument

    path = args.store
    if not top.launches:
        raise UsageError(
            f"{path}: the store has no launches: no report could be read, or all are gone; see: "
            f'keet query {path} "SELECT path, status, reason FROM files"'
        )
    fields = {
        **top._asdict(),
        "opportunities": [_opportunity(n, each) for n, each in enumerate(top.opportunities, 1)],
        "gpus": [_gpu(gpu) for gpu in top.gpus],
        "device": args.device.pattern if args.device else None,
        "kernel": args.kernel.pattern if args.kernel else None,
    }
    return TopDocument(store=str(path), failed=failed, **fields)


def _gpu(gpu: GpuTotals) -> GpuDocument:
    from keet.documents.top import GapExampleDocument, GpuDocument

    example = GapExampleDocument(**gpu.gap_example._asdict()) if gpu.gap_example else None
    return GpuDocument(**{**gpu._asdict(), "gap_example": example})


def _opportunity(rank: int, each: Opportunity) -> OpportunityDocument:
    from keet.corpus.batch.gone_files import is_gone
    from keet.documents.top import GainDocument, OpportunityDocument

    forecast = GainDocument(**each.forecast._asdict()) if each.forecast else None
    fields = {**each._asdict(), "rank": rank, "forecast": forecast, "gone": is_gone(each.path)}
    return OpportunityDocument(**fields)


def _print(args: Namespace, out: Destination, document: TopDocument) -> None:
    if args.format == "json":
        from keet.documents.document import json_text

        out.write(json_text(document))
    elif args.format == "csv":
        from keet.render.csv.top import top_csv

        out.write(top_csv(document))
    elif args.format == "markdown":
        from keet.render.markdown.top import top_markdown

        out.write(top_markdown(document))
    else:
        from keet.render.terminal.top import top_view

        out.show(lambda width: top_view(document, width))
