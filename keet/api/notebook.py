"""What notebooks show of results: the blocks of pages as short HTML, all text escaped.

Colours are inherited from the notebook, so that light and dark themes work. The HTML is also
readable without its style, which viewers remove from untrusted notebooks. There is no script.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from keet.errors import KeetError
from keet.formats import markdown
from keet.formats.html.blocks import html_fragment
from keet.formats.html.markup import Html, element
from keet.formatting import count_noun, shape_text, share_text
from keet.pages.blocks import Bar, Bars, Block, Cell, Column, Page, Reader, Span, Table, Text, Words
from keet.pages.capture import describe_device
from keet.profile import Profile
from keet.safe_text import visible
from keet.units import Quantity

if TYPE_CHECKING:
    from keet.analysis.roofline.launch_roofline import LaunchRoofline
    from keet.explanation.explanation_types import LaunchExplanation

_STYLE = """
.keet { line-height: 1.45; max-width: 64rem }
.keet p, .keet dl, .keet ul { margin: .35em 0 }
.keet :is(h1, h2, h3) { font-size: 1.05em; margin: .7em 0 .2em }
.keet table { border-collapse: collapse; margin: .4em 0; table-layout: auto }
.keet.keet th, .keet.keet td { background: transparent; border: 0; color: inherit; max-width: 30em;
  border-bottom: 1px solid rgba(128, 128, 128, .35); padding: .25em 1em .25em 0;
  text-align: left; vertical-align: top; white-space: normal }
.keet.keet.keet .number { font-variant-numeric: tabular-nums; text-align: right;
  white-space: nowrap }
.keet dl > div { display: grid; grid-template-columns: 6em 1fr }
.keet dd { margin: 0 }
.keet .bars { list-style: none; padding: 0 }
.keet .bars li { align-items: center; display: grid; gap: .7em;
  grid-template-columns: 3em 128px 6em 1fr }
.keet .within { padding-left: 1.5em }
.keet .meter rect { fill: #3b82f6 }
.keet .muted { opacity: .75 }
.keet pre { background: transparent; color: inherit; white-space: pre-wrap }
.keet summary { cursor: pointer }
"""
"""Classes are repeated to be more specific than the rules of notebooks for tables."""
_ROWS = 12
"""Rows of a table of launches, findings or parts; `.to_pandas()` has all."""
_MOST_PARTS = 24


def profile_html(profile: Profile) -> str:
    columns = [Column("#"), Column("kernel", look="name"), Column("grid"), Column("block")]
    columns.append(Column("time", is_number=True))
    rows: list[list[Words | Cell]] = []
    for launch in profile.launches[:_ROWS]:
        try:
            duration = str(launch.get("duration") or "-")
        except KeetError:  # the launch is damaged
            duration = "-"
        shapes = (shape_text(launch.grid, "-"), shape_text(launch.block, "-"))
        rows.append([str(launch.id), launch.kernel, *shapes, duration])
    try:
        device = f" on {describe_device(profile.launches[0].device)}" if profile.launches else ""
    except KeetError:
        device = ""
    count = count_noun(len(profile.launches), "launch")
    name = Span(PurePath(profile.provenance.file).name, "strong")
    more = _more(len(profile.launches) - _ROWS, "launches", "profile.to_pandas()")
    return _whole([Text((name, f": {count}{device}")), Table(columns, rows, more)])


def page_html(make: Callable[[Reader], Page]) -> str:
    return _whole(make(markdown.reader()).blocks)


def launch_html(each: LaunchExplanation) -> str:
    from keet.pages.launch import Shown, launch_blocks

    return _whole(launch_blocks(Shown(each, None, markdown.reader())))


def findings_html(findings: Sequence[tuple[str, str, str, str, str, str]]) -> str:
    """Of each finding: launch, title, gain, certainty of the cause, place, action."""
    if not findings:
        return _whole([Text("No findings.")])
    names = ("launch", "finding", "gain", "cause", "where", "what to do")
    columns = [Column(name, look="name" if name == "finding" else "") for name in names]
    more = _more(len(findings) - _ROWS, "findings", ".to_pandas()")
    return _whole([Table(columns, findings[:_ROWS], more)])


def account_html(parts: Sequence[tuple[str, int, float, float | None]]) -> str:
    """Of each part: label, depth, share of the launch's time (0 to 1), microseconds."""
    bars = []
    for label, depth, share, us in parts[:_MOST_PARTS]:
        time = "" if us is None else str(Quantity(us, "us").to_base())
        bars.append(Bar(share, share_text(share), label, time, depth))
    more = _more(len(parts) - _MOST_PARTS, "parts", ".to_pandas()")
    return _whole([Bars(bars, name="Where the time goes"), Text(more, "muted")])


def roofline_html(rooflines: Sequence[LaunchRoofline]) -> str:
    """The chart is an image: its style would apply to the whole notebook. Base64 has no character
    that ends an attribute."""
    from keet.formats.svg.roofline import roofline_svg

    shown = rooflines[:_ROWS]
    blocks = [Text((Span(f"#{r.id} {r.kernel}", "strong"), f": {r.reading}")) for r in shown]
    blocks.append(Text(_more(len(rooflines) - _ROWS, "launches", ".to_pandas()"), "muted"))
    data = b64encode(visible(roofline_svg(rooflines)).encode()).decode("ascii")
    image = f'<img alt="Roofline chart" src="data:image/svg+xml;base64,{data}">'
    return _whole(blocks, Html(image))


def _whole(blocks: Iterable[Block], drawing: Html | None = None) -> str:
    style = Html(f"<style>{_STYLE}</style>")  # a constant without text from a report
    return visible(element("div", style, html_fragment(blocks), drawing, class_="keet"))


def _more(count: int, noun: str, method: str) -> str:
    return f"and {count:,} more {noun}: {method}" if count > 0 else ""
