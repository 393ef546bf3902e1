"""Printing of `keet explain`: one explanation or several, in each format."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypedDict

from keet.cli.arguments import Destination
from keet.errors import IngestError

if TYPE_CHECKING:
    from keet.comparison.compare import Difference
    from keet.explanation.explanation_types import Explanation
    from keet.pages.explain import Asked


class ExplainedPart(TypedDict):
    """Options of the analyst: how much of a large report is explained."""

    most: int | None
    keep: bool


def explained_part(args: Namespace, *, in_one_pass: bool) -> ExplainedPart:
    """A view explains some launches of a large report. Launches that were selected are all
    explained, and so are all launches in JSON. `in_one_pass`: the output needs each launch once."""
    from keet.profile.launch_sequences import MAX_DECODED

    selected = args.launch is not None or args.kernel is not None
    is_view = not args.all and not selected and args.format != "json"
    return ExplainedPart(
        most=MAX_DECODED if is_view else None, keep=not (in_one_pass and args.format == "json")
    )


def print_explanation(
    args: Namespace,
    *explanations: Explanation,
    several: bool = False,
    unread: Sequence[IngestError] = (),
) -> None:
    """Several explanations go to one output; as JSON, one line per report. `unread`: reports that
    can't be read, which an HTML page lists."""
    out = Destination(args, sys.stdout)
    if args.format == "json":
        out.write_pieces(_json(explanations, lines=several or len(explanations) > 1))
    else:
        asked = _asked(args)._replace(several=several, unread=[*map(str, unread)])
        _show(args, out, explanations, asked)


def print_against(args: Namespace, explanation: Explanation, compared: Difference) -> None:
    """The explanation, then what changed, if the two reports can be compared."""
    out = Destination(args, sys.stdout)
    if args.format == "json":
        from keet.documents.diff import ExplainAgainstDocument
        from keet.documents.document import Streamed, json_pieces
        from keet.explanation.explain_document import explain_fields

        against = None if compared.forbidden else compared
        fields = chain(explain_fields(explanation), [("against", against)])
        out.write_pieces(json_pieces(Streamed(ExplainAgainstDocument, fields)))
    else:
        _show(args, out, [explanation], _asked(args)._replace(compared=compared))


def _show(
    args: Namespace, out: Destination, explanations: Sequence[Explanation], asked: Asked
) -> None:
    from keet.pages.explain import explain_page

    out.show_page(lambda reader: explain_page(explanations, reader, asked), args.format)


def _asked(args: Namespace) -> Asked:
    """Launches that were selected by number are all printed. `keet ask` has none of these
    options."""
    from keet.pages.explain import Asked

    everything = getattr(args, "all", False) or getattr(args, "launch", None) is not None
    editor = getattr(args, "editor", None) is not None
    return Asked(everything, getattr(args, "verbose", False), editor=editor)


def _json(explanations: Sequence[Explanation], *, lines: bool) -> Iterator[str]:
    from keet.documents.document import json_pieces
    from keet.explanation.explain_document import explain_stream

    for each in explanations:
        yield from json_pieces(explain_stream(each), line=lines)
