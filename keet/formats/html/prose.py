"""Sentences on a page: names in backticks become code."""

from __future__ import annotations

import re

from keet.formats.html.markup import Html, element, fragment
from keet.safe_text import one_line

_SPAN = re.compile(r"`([^`]+)`")


def prose(text: str) -> Html:
    """A sentence of keet, whatever names are in it."""
    # A split at a group gives text and code by turns.
    parts = _SPAN.split(one_line(text))
    return fragment([element("code", part) if i % 2 else part for i, part in enumerate(parts)])
