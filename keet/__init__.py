"""keet tells what limits a GPU kernel, from its Nsight Compute report.

import keet
profile = keet.read_profile("report.ncu-rep")
profile.launches[0].get("duration")        # Quantity(value=69856.0, unit='ns')
store = keet.open_store("OUT")             # of `keet batch DIR -o OUT`
store.to_pandas()                          # one row a launch
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from keet.version import __version__

if TYPE_CHECKING:
    from keet.corpus.store import open_store
    from keet.ingest import read_profile

__all__ = ["__version__", "open_store", "read_profile"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """`keet --help` imports this package: the reader is loaded when it is first used."""
    if name == "read_profile":
        from keet.ingest import read_profile

        return read_profile
    if name == "open_store":
        from keet.corpus.store import open_store

        return open_store
    raise AttributeError(f"module 'keet' has no attribute {name!r}")
