"""Regular expressions that are compiled on first use.

A command uses only some of the expressions in its modules, and compiling one takes as long as
searching a page of text.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr


def regex(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Like `re.compile`, but lazy. The result has the methods of a `re.Pattern` but is not one:
    code that checks the type needs `re.compile`."""
    return _LazyPattern(expression, flags)  # type: ignore[return-value]


class _LazyPattern:
    def __init__(self, expression: Any, flags: int) -> None:
        self._given = expression, flags

    def __getattr__(self, name: str) -> Any:
        """An attribute of the compiled expression, stored so that the next access is direct."""
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found

    def __repr__(self) -> str:
        return repr(re.compile(*self._given))
