"""Explain a finding: what it means, how to fix it, what the fix gained in measured cases, how keet
detects it, and how it differs from similar findings.

FINDING is an id (local_memory_spill) or the name that `keet explain` prints ("local memory").
Without it: all findings, one line each."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keet.cli.arguments import Destination, add_output
from keet.errors import UsageError, one_line

if TYPE_CHECKING:
    from keet.documents.cases import FindingReferenceDocument

EXAMPLES = """\
examples:
  keet finding
  keet finding uncoalesced_global
  keet finding "local memory"
  keet finding bank conflicts
  keet finding tail_effect --format markdown
  keet finding --format json | jq '.findings[].id'
"""

_CLOSE = 4
"""Findings that are suggested for an unknown name."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "finding", nargs="*", metavar="FINDING", help="an id or a name (default: list all findings)"
    )
    add_output(parser, "terminal", "markdown", "json")


def run(args: Namespace) -> None:
    wanted = find_id(" ".join(args.finding)) if args.finding else None
    out = Destination(args, sys.stdout)
    if args.format == "json":
        _write_json(out, wanted)
    else:
        from keet.pages.finding import finding_page, findings_page

        out.show_page(
            lambda reader: finding_page(_reference(wanted)) if wanted else findings_page(reader),
            args.format,
        )


def _write_json(out: Destination, wanted: str | None) -> None:
    from keet.documents.cases import FindingsDocument
    from keet.documents.document import json_text
    from keet.findings import findings

    chosen = [wanted] if wanted else findings()
    out.write(json_text(FindingsDocument(findings=[*map(_reference, chosen)])))


def _reference(finding: str) -> FindingReferenceDocument:
    from keet.explanation.casebook import finding_reference

    return finding_reference(finding)


def find_id(name: str) -> str:
    """By id or label, in any case, or by words of one; raises `UsageError` with close matches."""
    names = _names()
    wanted = _words(name)
    exact = [finding for finding, known in names.items() if wanted in known]
    if len(exact) == 1:
        return exact[0]
    within = [
        finding
        for finding, known in names.items()
        if wanted and any(set(wanted) <= set(each) for each in known)
    ]
    if len(within) == 1:
        return within[0]
    close = within or _close(name, names)
    hint = f"did you mean {' or '.join(close[:_CLOSE])}?" if close else "see: keet finding"
    problem = "is the name of several findings" if within else "is not a finding"
    raise UsageError(f"{one_line(name)[:80]!r} {problem}; {hint}")


def _names() -> dict[str, list[tuple[str, ...]]]:
    """The words of each finding's id and label."""
    from keet.findings import findings

    return {spec.id: [_words(spec.id), _words(spec.label)] for spec in findings().values()}


def _words(name: str) -> tuple[str, ...]:
    import re

    return tuple(re.findall(r"[a-z0-9]+", name.casefold()))


def _close(name: str, names: dict[str, list[tuple[str, ...]]]) -> Sequence[str]:
    import difflib

    texts = {" ".join(words): finding for finding, known in names.items() for words in known}
    found = difflib.get_close_matches(" ".join(_words(name)), texts, n=_CLOSE)
    return list(dict.fromkeys(texts[text] for text in found))
