"""The type of the chosen numbers of the analysis. Each is defined beside its use, with its meaning
and its source; docs/parameters.md lists all of them.

Those that several modules use in the same meaning are here, and names of functions that the
compiler expands.
"""

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
        of_module = {n: bound for n, bound in vars(module).items() if isinstance(bound, Parameter)}
        for constant, bound in of_module.items():
            if by_name.setdefault(constant.lower(), bound) is not bound:
                raise ValueError(f"two parameters are called {constant}")
    return by_name


NEARLY_ALL = Parameter(0.9, "share of anything from which the rest does not matter", "judgement")
MAJORITY = Parameter(0.5, "share of anything from which it is most of it", "judgement")
FEW = Parameter(
    0.25, "share of anything up to which these are few, and from which they matter", "judgement"
)
NOTABLE_PART = Parameter(0.1, "share of anything from which it is a notable part", "judgement")
NAMED_PART = Parameter(3.0, "percent of the time or the instructions: a part is named", "judgement")
NEGLIGIBLE = Parameter(0.01, "share of anything that can be neglected", "judgement")
LIKELY = Parameter(0.8, "likelihood of a cause that one assumption makes likely", "judgement")
POSSIBLE = Parameter(0.5, "likelihood of a cause that is as likely as not", "judgement")
SAVED_PART = Parameter(0.05, "share of the time of all launches: saving it is told", "judgement")
SEVERAL = Parameter(3, "fewest launches, kernels or shapes that show something common", "judgement")
SIMILAR = Parameter(1.1, "factor between times, gains or counts that are equal", "judgement")
SAME_BYTES = Parameter(
    0.08, "|ln(ratio)| of equal amounts of bytes; 0.03 to 0.06 were seen", "judgement"
)
FEW_BYTES = Parameter(1e6, "bytes below which many are code and constants", "judgement")
READ_AGAIN = Parameter(1.5, "bytes read over distinct bytes: several reads; 1.15 to 1.9 fit", "fit")
WIDEST = Parameter(
    4.0, "passes through L1 of a 16-byte access, the widest: more are repeats", "judgement"
)
LEAST_KERNEL_NS = Parameter(
    2000.0, "nanoseconds to start and drain a grid that does nothing", "fit"
)
SHORT_KERNEL_NS = Parameter(
    5000.0, "nanoseconds below which launching costs about as much as the kernel", "judgement"
)
LONGEST_START_NS = Parameter(
    10_000.0,
    "longest time to start and drain a grid, also with empty caches; 2000 to 6000 were seen",
    "judgement",
)

# Names of functions that the compiler expands (see `machine_code/analyses/expansions.py`). They are
# here so that facts and findings need not import the analysis of machine code.
DIVISION = "integer division or remainder"
LONG_DIVISION = "64-bit integer division or remainder"
HUGE_DIVISION = "128-bit integer division or remainder"
INTEGER_DIVISIONS = (DIVISION, LONG_DIVISION, HUGE_DIVISION)
POWER = "powf"
LARGE_ANGLES = "the slow path of sinf, cosf or tanf for large angles"
SLOW_DIVISION = "the slow path of divisions of floats"
BYTES = 4
"""Bytes in a word: packed instructions compute with all of them at a time."""
SAME_COUNT = Parameter(
    0.02, "share by which counts of two passes differ that are the same", "judgement"
)
