"""A diff in colours. Imports rich and Pygments, and only if the terminal shows colours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from keet.render.terminal.layout import Line, Setting, Text
from keet.render.terminal.layout.styles import Style

if TYPE_CHECKING:
    from rich.color import Color, ColorSystem
    from rich.style import Style as RichStyle

_TAB = 4
_ATTRIBUTES = ("bold", "dim", "italic", "underline")


class Diff:
    def __init__(self, diff: str) -> None:
        self.diff = diff

    def lines(self, width: int, how: Setting) -> Iterable[Line]:
        text = _coloured(self.diff) if how.styled else Text(self.diff.expandtabs(_TAB))
        return text.lines(width, how)


def _coloured(diff: str) -> Text:
    from rich.color import ColorSystem
    from rich.console import Console
    from rich.syntax import Syntax

    # Theme colours are mapped to the nearest colours of the terminal.
    named = Console(force_terminal=True).color_system or "standard"
    system = {"256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.TRUECOLOR}.get(
        named, ColorSystem.STANDARD
    )
    code = Syntax(diff, "diff", background_color="default", word_wrap=True, tab_size=_TAB)
    found = code.highlight(diff.expandtabs(_TAB))
    text = Text(found.plain if diff.endswith("\n") else found.plain.removesuffix("\n"))
    text.style = _own_style(found.style, system)
    end = len(text)
    text.spans = [
        (start, min(last, end), _own_style(style, system)) for start, last, style in found.spans
    ]
    return text


def _own_style(style: str | RichStyle, system: ColorSystem) -> Style:
    if isinstance(style, str):
        from rich.style import Style as RichStyle

        style = RichStyle.parse(style)
    given = on = 0
    for number, name in enumerate(_ATTRIBUTES):
        value = getattr(style, name)
        given |= (value is not None) << number
        on |= bool(value) << number
    return Style(
        given, on, _codes(style.color, system), _codes(style.bgcolor, system, is_ground=True)
    )


def _codes(colour: Color | None, system: ColorSystem, *, is_ground: bool = False) -> str:
    if colour is None:
        return ""
    return ";".join(colour.downgrade(system).get_ansi_codes(foreground=not is_ground))
