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
    name: str
    """That of the constant, in lower case; set when parameters are collected."""

    def __new__(cls, value: float, meaning: str, source: Source) -> Self:
        made = super().__new__(cls, value)
        made.meaning, made.source = meaning, source
        made.module = sys._getframe(1).f_globals["__name__"]  # as namedtuple does
        return made

    def __reduce__(self) -> tuple[type[float], tuple[float]]:
        return float, (float(self),)


@cache
def _modules(package: str) -> tuple[ModuleType, ...]:
    """The package and all modules in it."""
    top = import_module(package)
    inner = walk_packages(top.__path__, f"{package}.")
    return (top, *(import_module(each.name) for each in inner))


def collected(*packages: str) -> dict[str, Parameter]:
    """The parameters by name; imports all modules of the packages."""
    by_name: dict[str, Parameter] = {}
    for module in (module for package in packages for module in _modules(package)):
        for constant, bound in vars(module).items():
            if isinstance(bound, Parameter):
                bound.name = constant.lower()
                if by_name.setdefault(bound.name, bound) is not bound:
                    message = f"two parameters are called {constant}"
                    raise ValueError(message)
    return by_name


# --- Not yet beside their use: `candidates` and `model_claims` look them up by name.

LAUNCH_GAP_NS = Parameter(
    1500.0, "nanoseconds from the end of one kernel to the start of the next in a stream", "fit"
)
PARTIAL_WAVE = Parameter(
    0.4, "exponent: how waiting decreases when a grid below one wave gets more blocks", "fit"
)
MORE_IN_FLIGHT = Parameter(
    1.8, "factor of independent operations in flight after loads are issued earlier", "fit"
)
MOST_OCCUPANCY = Parameter(
    5.0, "largest factor of warps per SM from fixing the occupancy limiter", "fit"
)
COALESCED_WAITS = Parameter(
    1.3,
    "memory waiting that a fix removes, as a multiple of the load that it takes off a unit",
    "fit",
)
GATHERED = Parameter(
    0.9,
    "exponent of the share of sectors that a gather needs: below 1, reordering helps less",
    "fit",
)
UNRELATED_WAITS = Parameter(
    0.8, "share of other waiting that stays when shared memory is relieved", "fit"
)
NARROW_INSTRUCTIONS = Parameter(
    1.0, "share of access and address instructions that wide accesses save", "fit"
)
BARRIER_WAITS = Parameter(0.75, "share of the waiting at barriers that a fix removes", "fit")
CONVERGED = Parameter(
    0.85, "exponent of the active threads' share: how much divergence can be removed", "fit"
)
PER_DOUBLE = Parameter(
    2.1, "instructions removed per double-precision instruction or conversion", "fit"
)
OVERHEAD_BASE = Parameter(
    0.4, "share of address and control instructions that every kernel needs", "fit"
)
OVERHEAD_REMOVED = Parameter(
    0.95, "share of the address and control instructions beyond it that a fix removes", "fit"
)
PER_DIVISION = Parameter(7.0, "instructions of an integer division per MUFU.RCP", "fit")
SPECIAL_FUNCTIONS = Parameter(0.3, "share of the XU work that is left after a rewrite", "judgement")
TENSOR_WORK = Parameter(
    0.1, "share of the SM work of a matrix product that is left on tensor cores", "fit"
)
REPLAYED = Parameter(
    2.0, "largest ratio of L1 busy to LSU busy for accesses without replays", "judgement"
)
REUSE = Parameter(0.5, "exponent: how many of the L2 reads beyond DRAM's can be saved", "fit")
PIPE_WORK = Parameter(
    0.6, "share of a saturated pipe's work that is left after reuse in registers", "fit"
)
PROMOTED = Parameter(
    0.02,
    "float-double conversions per FP64 instruction from which FP64 counts as unintended",
    "fit",
)
REPEATED = Parameter(
    1.4, "requested over distinct bytes from which data counts as read again", "fit"
)

_MOVED = dict.fromkeys(
    ("sharpness", "most_removed", "indirect", "worth", "leads", "passes_on"), "time_model"
) | dict.fromkeys(("least_kernel_ns", "short_kernel_ns", "balanced"), "kernel.grid_use")


def parameter(name: str) -> float:
    home = f"keet.analysis.{_MOVED.get(name, 'parameters')}"
    return float(getattr(sys.modules[home], name.upper()))
