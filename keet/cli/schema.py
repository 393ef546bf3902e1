"""The JSON Schema of keet's JSON outputs, by the command that prints them."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace

from keet.errors import UsageError

EXAMPLES = """\
examples:
  keet schema                 all schemas, by command
  keet schema show            that of `keet show --format json`
"""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="only that of one command")


def run(args: Namespace) -> None:
    from keet.render.json.schema import DOCUMENTS, json_schema

    if args.command is not None and args.command not in DOCUMENTS:
        raise UsageError(
            f"{args.command!r} prints no JSON; there are schemas of: {', '.join(DOCUMENTS)}"
        )
    schemas: object = (
        json_schema(args.command)
        if args.command
        else {name: json_schema(name) for name in DOCUMENTS}
    )
    sys.stdout.write(json.dumps(schemas, indent=1) + "\n")
