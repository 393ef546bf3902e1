"""The JSON Schema of each JSON output.

Names are those of the commands. `explain-against` is `keet explain --against`; of several reports,
`keet explain` prints one `explain` document per line. `mcp-TOOL` is the structured result of a tool
of `keet mcp`."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from keet.cli.pager import show_text
from keet.errors import UsageError

if TYPE_CHECKING:
    from keet.documents.document import Document

EXAMPLES = """\
examples:
  keet schema                 all schemas, by name
  keet schema show            the schema of `keet show --format json`
  keet schema mcp-explain     the schema of what the MCP tool explain returns
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "command", nargs="?", metavar="NAME", help="print only this schema (default: all)"
    )


def run(args: Namespace) -> None:
    from keet.formats.schema import schema_of

    known = schema_documents()
    if args.command is None:
        schemas: object = {name: schema_of(document) for name, document in known.items()}
    elif args.command in known:
        schemas = schema_of(known[args.command])
    else:
        raise UsageError(f"there is no schema {args.command!r}; there are: {', '.join(known)}")
    show_text(json.dumps(schemas, indent=1) + "\n")


def schema_documents() -> dict[str, type[Document]]:
    """The types of all JSON outputs, by name."""
    from keet.formats.schema import DOCUMENTS
    from keet.serve.reports import TOOLS

    return {**DOCUMENTS, **{f"mcp-{name}": tool.result for name, tool in TOOLS.items()}}
