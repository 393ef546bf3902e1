"""Parses style names (`bold cyan`, `dim not bold`) and makes their terminal escape sequences."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

_ATTRIBUTES = {"bold": 1, "dim": 2, "italic": 4, "underline": 8}
_CODES = {1: "1", 2: "2", 4: "3", 8: "4"}
_COLOURS = {
    name: str(30 + number)
    for number, name in enumerate(("black", "red", "green", "yellow", "blue", "magenta", "cyan"))
}


class Style(NamedTuple):
    """A parsed style. The empty style is represented by `None`."""

    given: int = 0
    """Bits of the attributes that the style sets, on or off."""
    on: int = 0
    """Bits of the attributes that are on: `not bold` sets bold, and turns it off."""
    colour: str = ""
    """Terminal codes of the foreground; the next field has those of the background."""
    background: str = ""


StyleName = str | Style
"""A name, or a style built in code, such as a colour of a theme."""


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
    """The second style over the first: attributes that the second does not set are kept."""
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
    """The texts to print before and after a styled text; `colours`: include colours, not only
    attributes."""
    codes = [code for bit, code in _CODES.items() if style.on & bit]
    if colours:
        codes += filter(None, (style.colour, style.background))
    return (f"\x1b[{';'.join(codes)}m", "\x1b[0m") if codes else ("", "")
