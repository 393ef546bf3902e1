"""How much of a launch is the setup of cuRAND's generators.

`curand_init` with a sequence number skips ahead in one sequence: each thread multiplies its state
by a matrix per digit of the number, which takes far longer than the random numbers themselves.
"""

from __future__ import annotations

from keet.analysis.kernel.library import is_of_toolkit
from keet.analysis.launch_view import LaunchView, cached_per_view
from keet.analysis.parameters import Parameter
from keet.documents.finding import Place
from keet.evidence import Evidence
from keet.profile.names import file_name
from keet.units import Quantity

_HEADER = "curand_kernel.h"
MATRIX_LINES = Parameter(
    500,
    "line of curand_kernel.h before which are the matrices of skip-ahead (281 to 332 in CUDA 11.1, "
    "319 to 326 in 12), and behind which are the generators (from 745 and 871 on)",
    "judgement",
)


@cached_per_view
def _skipping(view: LaunchView) -> dict[int, int]:
    """Samples (executions without them) by instruction of the matrix products."""
    weight = view.table.weight
    located = view.launch.locate(list(weight))
    return {
        address: weight[address]
        for address, line in located.items()
        if line.line < MATRIX_LINES and file_name(line.file) == _HEADER
    }


def skipped_ahead(view: LaunchView) -> float:
    """Share of the samples (of the executed instructions without them) in the matrix products of
    `curand_init`, 0 to 1; 0 without source lines."""
    every = sum(view.table.weight.values())
    return sum(_skipping(view).values()) / every if every else 0.0


def skipped_ahead_share(view: LaunchView) -> Evidence | None:
    """The same as evidence; None if there is no such work."""
    part, source = skipped_ahead(view), view.get("samples_total") or view.get("inst_executed")
    if not part or source is None:
        return None
    of = "samples" if view.table.samples else "executed instructions"
    label = f"of the {of} are where curand_init skips ahead"
    return view.ledger.derived("skipped_ahead", Quantity(100 * part, "%"), label, source)


def init_places(view: LaunchView) -> tuple[Place, ...]:
    """The program's own calls of `curand_init`, by the source text or by the callers of the
    header's code; else the header's lines."""
    calls = view.declared("curand_init", "calls of curand_init", r"\bcurand_init\s*\(")
    own = tuple(each for each in calls if not is_of_toolkit(each.file))
    found = view.places_by("samples that skip ahead", _skipping(view))
    return own or tuple(sorted(found, key=lambda each: file_name(each.file) == _HEADER))
