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
    from keet.render.terminal.layout import Renderable

CHANGED_KERNELS = 5
"""Kernels of `--against` that are described in full, as by `keet diff`."""


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
    elif args.format == "html":
        out.write(_page(args, explanations, unread, several=several))
    elif args.format == "markdown":
        from keet.render.markdown.explain import explain_markdown

        how = _how_much(args)
        texts = (explain_markdown(each, **how) for each in explanations)
        out.write("\n".join(texts))
    else:
        from keet.render.terminal.explain import explain_view
        from keet.render.terminal.layout import Group

        def views(width: int) -> Iterator[Renderable]:
            for number, each in enumerate(explanations):
                yield from ["", ""] if number else []
                yield explain_view(each, width, **_how_much(args))

        out.show(lambda width: Group(*views(width)))


def _page(
    args: Namespace,
    explanations: Sequence[Explanation],
    unread: Sequence[IngestError],
    *,
    several: bool,
) -> str:
    from keet.formats.html.explain import explain_page, reports_page

    everything = _how_much(args)["everything"]
    if not several:
        return explain_page(explanations[0], everything=everything)
    return reports_page(explanations, everything=everything, unread=[str(each) for each in unread])


def print_against(args: Namespace, explanation: Explanation, compared: Difference) -> None:
    """The explanation, then what changed, if the two reports can be compared."""
    out = Destination(args, sys.stdout)
    difference = None if compared.forbidden else compared
    if args.format == "html":
        from keet.formats.html.explain import Compared, explain_page

        everything = _how_much(args)["everything"]
        changes = Compared(compared, CHANGED_KERNELS)
        out.write(explain_page(explanation, everything=everything, compared=changes))
    elif args.format == "json":
        from keet.documents.diff import ExplainAgainstDocument
        from keet.documents.document import Streamed, json_pieces
        from keet.explanation.explain_document import explain_fields

        fields = chain(explain_fields(explanation), [("against", difference)])
        out.write_pieces(json_pieces(Streamed(ExplainAgainstDocument, fields)))
    elif args.format == "markdown":
        from keet.formats import page_text
        from keet.pages.diff import diff_page
        from keet.render.markdown.explain import explain_markdown

        changed = ""
        if difference:
            changed = page_text(
                lambda reader: diff_page(difference, reader, CHANGED_KERNELS), "markdown"
            )
        explained = explain_markdown(explanation, **_how_much(args))
        out.write("\n".join(filter(None, (explained, changed))))
    else:
        out.show(lambda width: _view(args, explanation, difference, width))


def _how_much(args: Namespace) -> dict[str, bool]:
    """Launches that were selected by number are all printed. `keet ask` has none of these
    options."""
    everything = getattr(args, "all", False) or getattr(args, "launch", None) is not None
    return {"everything": everything, "verbose": getattr(args, "verbose", False)}


def _view(
    args: Namespace, explanation: Explanation, difference: Difference | None, width: int
) -> Renderable:
    from keet.formats import terminal
    from keet.pages.diff import diff_page
    from keet.render.terminal.explain import explain_view
    from keet.render.terminal.layout import Group

    parts: list[Renderable] = [explain_view(explanation, width, **_how_much(args))]
    if difference:
        page = diff_page(difference, terminal.reader(width), CHANGED_KERNELS)
        parts += ["", *terminal.terminal_text(page.blocks, width).splitlines()]
    return Group(*parts)


def _json(explanations: Sequence[Explanation], *, lines: bool) -> Iterator[str]:
    from keet.documents.document import json_pieces
    from keet.explanation.explain_document import explain_stream

    for each in explanations:
        yield from json_pieces(explain_stream(each), line=lines)
