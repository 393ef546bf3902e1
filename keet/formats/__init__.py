"""How pages look: one renderer of all blocks per format, and the formats for programs.

`terminal` (by the package rich), `markdown` and `html` render the blocks of `keet.pages`. `csv`,
`github`, `schema` and `svg` write what is no page.
"""

from __future__ import annotations

from collections.abc import Callable

from keet.pages.blocks import Format, Page, Reader


def page_text(make: Callable[[Reader], Page], form: Format, width: int = 120) -> str:
    """A page as text, for a file, a tool or a notebook. `width`: of a terminal."""
    if form == "markdown":
        from keet.formats import markdown

        return markdown.markdown(make(markdown.reader()).blocks)
    if form == "html":
        from keet.formats.html import blocks as html

        return html.html_page(make(html.reader()))
    from keet.formats import terminal

    return "".join(terminal.plain_page(make, width)) or "\n"
