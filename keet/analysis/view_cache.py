"""A cache per launch view, for results that several checks need."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from keet.analysis.launch_view import LaunchView

_Result = TypeVar("_Result")


def cached_per_view(function: Callable[[LaunchView], _Result]) -> Callable[[LaunchView], _Result]:
    """Decorator: compute the function once per view and store the result in the view."""

    @wraps(function)
    def kept(view: LaunchView) -> _Result:
        results: dict[Callable[[LaunchView], Any], Any] = view.results
        if function not in results:
            results[function] = function(view)
        found: _Result = results[function]
        return found

    return kept
