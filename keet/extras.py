"""The parts of keet whose packages are not in the core install, and how to install them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from keet.errors import NotAvailable, one_line
from keet.records import NamedTuple

DISTRIBUTION = "keet-ncu"
"""The name on the package index, where `keet` is another project
(docs/decisions/0019-distribution.md)."""


class Extra(NamedTuple):
    """A group of packages that pip installs by one name (pyproject.toml)."""

    packages: tuple[str, ...]
    """Distributions that keet imports. What they depend on in turn is not listed."""
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
    """Adds an extra to an environment that has keet, which pip then leaves as it is."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def require(module: str, extra: str) -> ModuleType:
    """Import a package of an extra. Raises NotAvailable, which names the extra."""
    try:
        return import_module(module)
    except ImportError as error:
        raise not_available(error, module, extra) from error


def check(module: str, extra: str) -> None:
    """The same without loading it: for what is needed later, or in another process."""
    package = module.partition(".")[0]
    if not is_installed(package):
        raise NotAvailable(missing(package, extra))


def is_installed(module: str) -> bool:
    """Whether a package of the top level can be found."""
    return find_spec(module) is not None


def not_available(error: ImportError, module: str, extra: str) -> NotAvailable:
    """What to tell when `module` could not be imported. It may be there and not load, for example
    when a shared library is too old."""
    if isinstance(error, ModuleNotFoundError):
        return NotAvailable(missing((error.name or module).partition(".")[0], extra))
    return NotAvailable(
        f"{module} is installed but does not load ({one_line(str(error))}); "
        f"install it again: pip install --force-reinstall {module.partition('.')[0]}"
    )


def missing(package: str, extra: str) -> str:
    """One line, for those who raise an error of their own."""
    package = package.replace("_", "-")
    return f"{package} is not installed; add keet's extra {extra!r}: {install_command(extra)}"
