"""Styles by name (`bold cyan`, `dim not bold`), and the escapes that a terminal has for them."""

from __future__ import annotations

from functools import cache

from keet.records import NamedTuple

_ATTRIBUTES = {"bold": 1, "dim": 2, "italic": 4, "underline": 8}
_CODES = {1: "1", 2: "2", 4: "3", 8: "4"}
_COLOURS = {
    name: str(30 + number)
    for number, name in enumerate(("black", "red", "green", "yellow", "blue", "magenta", "cyan"))
}


class Style(NamedTuple):
    """What a name stands for. A style that says nothing is none at all: `None`."""

    given: int = 0
    """Attributes that it speaks of, as bits."""
    on: int = 0
    """Those of them that are on: `not bold` gives bold, and turns it off."""
    colour: str = ""
    """Codes of a terminal, as of the background."""
    background: str = ""


StyleName = str | Style
"""By name, or made of something else: colours of a theme."""


@cache
def style_of(name: StyleName) -> Style | None:
    if isinstance(name, Style):
        return name if any(name) else None
    given = on = 0
    colour, is_on = "", True
    for word in name.split():
        if word == "not":
            is_on = False
        elif word in _ATTRIBUTES:
            bit = _ATTRIBUTES[word]
            given, on, is_on = given | bit, on | bit if is_on else on & ~bit, True
        else:
            colour = _COLOURS[word]
    return Style(given, on, colour) if given or colour else None


@cache
def over(below: Style | None, above: Style | None) -> Style | None:
    """The second on top of the first: what it does not speak of stays."""
    if below is None or above is None:
        return above or below
    return Style(
        below.given | above.given,
        below.on & ~above.given | above.on,
        above.colour or below.colour,
        above.background or below.background,
    )


@cache
def escapes(style: Style, *, colours: bool) -> tuple[str, str]:
    """What to print before and after a text; `colours`: also those, besides attributes."""
    codes = [code for bit, code in _CODES.items() if style.on & bit]
    if colours:
        codes += filter(None, (style.colour, style.background))
    return (f"\x1b[{';'.join(codes)}m", "\x1b[0m") if codes else ("", "")
