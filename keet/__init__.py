"""keet explains what limits a GPU kernel, from its Nsight Compute report.

>>> import keet
>>> explanation = keet.explain("kernels_samples/matrix_flip/slow.ncu-rep")
>>> explanation.launches[0].headline
'L2 is at 83% of peak; main cause: uncoalesced global access at slow.cu:7.'
>>> explanation.findings[0].action[:60]
'Let the threads of a warp store along the fastest axis of th'

`read_profile`, `explain`, `hotspots`, `diff`, `amounts`, `roofline`, `verify`, `batch`, `insights`
and `open_store` are the functions; docs/python.md describes them and what they return.
"""

from __future__ import annotations

from keet.version import __version__

TYPE_CHECKING = False
"""The same as `typing.TYPE_CHECKING`: importing `typing` would take most of the import time."""
if TYPE_CHECKING:
    from keet.analysis.roofline.launch_roofline import LaunchRoofline
    from keet.api.corpus import BatchResult, InsightsResult, batch, insights
    from keet.api.diff import DiffPair, DiffResult, diff
    from keet.api.explain import (
        AccountPart,
        AccountTable,
        ExplainedLaunch,
        ExplainResult,
        FindingTable,
        LaunchFinding,
        explain,
    )
    from keet.api.result import read_profile
    from keet.api.views import (
        AmountsResult,
        HotspotsResult,
        RooflineResult,
        VerifyResult,
        amounts,
        hotspots,
        roofline,
        verify,
    )
    from keet.corpus.store.reader import Store, open_store
    from keet.documents.explain import LaunchVerdict
    from keet.errors import IngestError, KeetError, NotAvailable, NotComparable, UsageError
    from keet.profile import Launch, Profile

__all__ = [
    "AccountPart",
    "AccountTable",
    "AmountsResult",
    "BatchResult",
    "DiffPair",
    "DiffResult",
    "ExplainResult",
    "ExplainedLaunch",
    "FindingTable",
    "HotspotsResult",
    "IngestError",
    "InsightsResult",
    "KeetError",
    "Launch",
    "LaunchFinding",
    "LaunchRoofline",
    "LaunchVerdict",
    "NotAvailable",
    "NotComparable",
    "Profile",
    "RooflineResult",
    "Store",
    "UsageError",
    "VerifyResult",
    "__version__",
    "amounts",
    "batch",
    "diff",
    "explain",
    "hotspots",
    "insights",
    "open_store",
    "read_profile",
    "roofline",
    "verify",
]

_MODULES = {
    "keet.analysis.roofline.launch_roofline": "LaunchRoofline",
    "keet.api.corpus": "BatchResult InsightsResult batch insights",
    "keet.api.diff": "DiffPair DiffResult diff",
    "keet.api.explain": "AccountPart AccountTable ExplainResult ExplainedLaunch FindingTable"
    " LaunchFinding explain",
    "keet.api.result": "read_profile",
    "keet.api.views": "AmountsResult HotspotsResult RooflineResult VerifyResult amounts hotspots"
    " roofline verify",
    "keet.corpus.store.reader": "Store open_store",
    "keet.documents.explain": "LaunchVerdict",
    "keet.errors": "IngestError KeetError NotAvailable NotComparable UsageError",
    "keet.profile": "Launch Profile",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        """Load a name when it is first used: `keet --help` imports this package."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'keet' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(_MODULE_OF[name]), name)
        globals()[name] = value
        return value
