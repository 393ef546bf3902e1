"""Refusing to compare, for the API and the MCP tools: their options have names of their own."""

from __future__ import annotations

from collections.abc import Mapping

from keet.comparison.result import Difference
from keet.errors import NotComparable


def check_comparable(difference: Difference, options: Mapping[str, str], force: str) -> None:
    """`options`: what users call options of `keet diff`. `force`: how to compare all the same."""
    if not difference.forbidden:
        return
    first, *others = difference.forbidden
    more = f" (and {len(others)} more reason{'s' * (len(others) > 1)})" if others else ""
    raise NotComparable(f"{first.text_with(options)}{more}; to compare all the same: {force}")
