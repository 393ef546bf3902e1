"""Regular expressions that are compiled when they are first used.

A command uses a part of the expressions that its modules name, and compiling one takes as long as
searching a page of text.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr


def regex(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, later. What takes nothing but a `re.Pattern` is to be given one."""
    return _Later(expression, flags)  # type: ignore[return-value]


class _Later:
    def __init__(self, expression: Any, flags: int) -> None:
        self._given = expression, flags

    def __getattr__(self, name: str) -> Any:
        """Of the compiled expression; what was asked for once is found without coming here."""
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return repr(re.compile(*self._given))
