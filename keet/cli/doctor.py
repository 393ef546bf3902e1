"""Check what is installed and reachable, and print how to fix what is not.

Exits with 3 if something is missing that keet needs."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from keet.cli.arguments import Destination, add_output
from keet.errors import ExitCode

EXAMPLES = """\
examples:
  keet doctor
  keet doctor --format json
"""


def configure(parser: ArgumentParser) -> None:
    add_output(parser, "terminal", "json")


def run(args: Namespace) -> int:
    from keet.cli.doctor_checks import examine

    checks = examine()
    out = Destination(args, sys.stdout)
    if args.format == "json":
        from keet.documents.doctor import DoctorDocument
        from keet.documents.document import json_text

        out.write(json_text(DoctorDocument(checks=checks)))
    else:
        from keet.pages.doctor import doctor_page

        out.show_page(lambda _: doctor_page(checks))
    return ExitCode.NOT_AVAILABLE if any(c.needed and c.status != "ok" for c in checks) else 0
