"""Optional dependencies: which extra has which packages, and how to install it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import NamedTuple

from keet.errors import NotAvailable, one_line

DISTRIBUTION = "keet-ncu"
"""The name on the package index, where `keet` is another project
(docs/decisions/0019-distribution.md)."""


class Extra(NamedTuple):
    """A group of packages that pip installs by one name (pyproject.toml)."""

    packages: tuple[str, ...]
    """Distributions that keet imports directly."""
    purpose: str


EXTRAS = {
    "model": Extra(
        ("langchain", "langchain-openai"),
        "keet ask, --model of explain and insights, keet eval ask",
    ),
    "batch": Extra(
        ("duckdb", "numpy", "pandas"), "keet batch, top, query, insights, Parquet, pandas frames"
    ),
    "collect": Extra(("nsight-python",), "keet profile --function"),
    "mcp": Extra(("mcp",), "keet mcp"),
    "dask": Extra(("distributed",), "keet batch --dask"),
}


def install_command(extra: str) -> str:
    """The pip command that adds an extra to an environment with keet."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def require(module: str, extra: str) -> ModuleType:
    """Import a package of an extra. Raises NotAvailable with the extra and the pip command."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise NotAvailable(missing(package, extra)) from error
    except ImportError as error:  # a shared library may be too old, for example
        raise NotAvailable(
            f"{module} is installed but does not load ({one_line(str(error))}); "
            f"install it again: pip install --force-reinstall {module.partition('.')[0]}"
        ) from error


def check(module: str, extra: str) -> None:
    """Check without importing: for a package that is needed later, or in another process."""
    package = module.partition(".")[0]
    if not is_installed(package):
        raise NotAvailable(missing(package, extra))


def is_installed(module: str) -> bool:
    """Whether a top-level package can be found."""
    return find_spec(module) is not None


def missing(package: str, extra: str) -> str:
    """The message, for callers that raise another error."""
    package = package.replace("_", "-")
    return f"{package} is not installed; add keet's extra {extra!r}: {install_command(extra)}"
