"""What several checks of a launch need, computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from keet.analysis.view import View

_Result = TypeVar("_Result")


def once(function: Callable[[View], _Result]) -> Callable[[View], _Result]:
    """Keeps what a function of a view returns, with the view."""

    @wraps(function)
    def kept(view: View) -> _Result:
        results: dict[Callable[[View], Any], Any] = view.results
        if function not in results:
            results[function] = function(view)
        found: _Result = results[function]
        return found

    return kept
