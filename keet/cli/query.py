"""Query a store made by `keet batch` with SQL: one SELECT in duckdb's dialect, on the views
`launches`, `findings`, `account`, `metrics` and `files`. Without SQL, list their columns.

The query can read only the store: no other file and no network."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from keet.cli.arguments import Destination, add_output, check_output, option, positive, writing
from keet.cli.top import add_store, note_older, open_filled
from keet.errors import UsageError
from keet.files import replacing

if TYPE_CHECKING:
    from keet.corpus.store.reader import Store

EXAMPLES = """\
examples:
  keet query OUT                             the views and their columns
  keet query OUT "SELECT kernel, device, sum(duration_us) AS us FROM launches
                  GROUP BY ALL ORDER BY us DESC LIMIT 10"
  keet query OUT "SELECT id, count(*) FROM findings GROUP BY id"
  keet query OUT - < query.sql
  keet query OUT "SELECT label, sum(us) FROM account WHERE innermost GROUP BY label"
  keet query OUT "FROM launches" --format parquet -o launches.parquet
  keet query OUT "SELECT path, reason FROM files WHERE status = 'failed'" --format csv
"""

_MOST_SQL = 1_000_000
"""Bytes of a query on standard input."""
_ON_A_TERMINAL = 50
"""Rows on a terminal without --limit."""

_EXAMPLES = (
    'keet query {0} "SELECT kernel, sum(duration_us) AS us FROM launches GROUP BY kernel"',
    "keet query {0} \"SELECT kernel, avg(value) FROM metrics WHERE metric = 'dram_throughput_pct' "
    'GROUP BY kernel"',
    "keet query {0} \"SELECT path, reason FROM files WHERE status = 'failed'\"",
)


def configure(parser: ArgumentParser) -> None:
    add_store(parser)
    parser.add_argument(
        "sql",
        nargs="?",
        metavar="SQL",
        help="one SELECT; without it, list the columns; - reads standard input",
    )
    option(
        parser,
        "--limit N",
        f"print at most N rows (default: {_ON_A_TERMINAL} on a terminal, else all)",
        type=positive,
    )
    add_output(parser, "terminal", "csv", "json", "parquet")


def run(args: Namespace) -> None:
    if args.output is not None:
        check_output(args.output)
    if args.sql == "-":
        args.sql = _sql_from_stdin()
    with open_filled(args.store) as store, store.explaining_damage():
        if args.format == "parquet":
            if args.output is None:
                raise UsageError("--format parquet writes a binary file; name it with: -o FILE")
            if args.sql is None:
                raise UsageError('--format parquet needs SQL: keet query OUT "FROM launches" ...')
            with writing(args.output), replacing(args.output) as file:
                store.write_parquet(args.sql, file, args.limit)
        elif args.sql is None:
            _list_columns(args, store.version.number)
        else:
            _answer(store, args)
    note_older(store)


def _sql_from_stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "- reads the SQL from standard input, which is a terminal here; write it in quotes, "
            "or pipe it in: keet query OUT - < query.sql"
        )
    raw = sys.stdin.buffer.read(_MOST_SQL + 1)
    if len(raw) > _MOST_SQL:
        raise UsageError(f"the SQL on standard input has more than {_MOST_SQL:,} bytes; shorten it")
    try:
        sql = raw.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UsageError("the SQL on standard input is not UTF-8 text; convert it first") from None
    if not sql:
        raise UsageError("standard input has no SQL; pipe a SELECT in")
    return sql


def _answer(store: Store, args: Namespace) -> None:
    from keet.formats.csv import query_csv
    from keet.pages.query import query_page

    stream = store.stream(args.sql)
    out = Destination(args)
    if args.format == "csv":
        out.write_pieces(query_csv(stream.columns, islice(stream, args.limit)))
    elif args.format == "json":
        out.write_pieces(_json(stream.columns, stream.types, islice(stream, args.limit)))
    else:
        limit = args.limit or _ON_A_TERMINAL
        rows = list(islice(stream, limit + 1))
        more = len(rows) > limit
        out.show_page(lambda reader: query_page(stream.columns, rows[:limit], reader, more=more))


def _list_columns(args: Namespace, version: int) -> None:
    from keet.corpus.store.views import described_views
    from keet.formats.csv import query_csv
    from keet.pages.query import views_page

    views = described_views(version)
    header = ("view", "column", "type", "unit", "meaning")
    rows = [(view, *column) for view, columns in views.items() for column in columns]
    out = Destination(args)
    if args.format == "csv":
        out.write_pieces(query_csv(header, rows))
    elif args.format == "json":
        out.write_pieces(_json(header, ("VARCHAR",) * len(header), rows))
    else:
        examples = [line.format(args.store) for line in _EXAMPLES]
        out.show_page(lambda _: views_page(views, examples))


def _json(columns: Sequence[str], types: Sequence[str], rows: Iterable[Any]) -> Iterator[str]:
    """A `QueryDocument` in pieces, one row per line: it may be larger than memory."""
    from keet.documents.document import json_line
    from keet.documents.top import QueryColumn, QueryDocument

    named = [QueryColumn(name=name, type=kind) for name, kind in zip(columns, types)]
    yield json_line(QueryDocument(columns=named, rows=[])).removesuffix("]}")
    separator = "\n"
    for row in rows:
        yield separator + json_line([_json_cell(cell) for cell in row])
        separator = ",\n"
    yield "\n]}\n"


def _json_cell(value: Any) -> Any:
    """Values of duckdb that JSON does not have become numbers or text."""
    from datetime import date
    from decimal import Decimal

    if isinstance(value, dict):
        return {str(key): _json_cell(cell) for key, cell in value.items()}
    if isinstance(value, list | tuple):
        return [_json_cell(cell) for cell in value]
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int | float) else str(value)
