"""The type of the chosen numbers of the analysis. Each is defined beside its use, with its meaning
and its source; docs/parameters.md lists all of them."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Literal, Self

Source = Literal["documentation", "fit", "judgement"]
"""`fit`: fitted on the work families of the casebook (`python -m evals.analyst.fit`), all on an
H200; also used for other GPUs, with lower confidence. `documentation`: a published figure.
`judgement`: chosen by hand."""


class Parameter(float):
    """Used as a plain float: arithmetic with it, and a copy of it, are plain floats."""

    meaning: str
    source: Source
    module: str
    """Where it is defined."""

    def __new__(cls, value: float, meaning: str, source: Source) -> Self:
        made = super().__new__(cls, value)
        made.meaning, made.source = meaning, source
        made.module = sys._getframe(1).f_globals["__name__"]  # as namedtuple does
        return made

    @property
    def name(self) -> str:
        """That of the constant, in lower case."""
        constants = vars(sys.modules[self.module]).items()
        return next(constant for constant, bound in constants if bound is self).lower()

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)


@cache
def _modules(package: str) -> tuple[ModuleType, ...]:
    """The package and all modules in it."""
    top = import_module(package)
    inner = walk_packages(top.__path__, f"{package}.")
    return (top, *(import_module(module.name) for module in inner))


def collected(*packages: str) -> dict[str, Parameter]:
    """The parameters by name; imports all modules of the packages."""
    by_name: dict[str, Parameter] = {}
    for module in (module for package in packages for module in _modules(package)):
        for constant, bound in vars(module).items():
            if not isinstance(bound, Parameter):
                continue
            if by_name.setdefault(constant.lower(), bound) is not bound:
                raise ValueError(f"two parameters are called {constant}")
    return by_name
