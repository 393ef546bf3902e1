"""What is made or imported only when it is used: dataclasses, and packages of an extra.

Making the constructors of a hundred classes took a fifth of the time of `keet explain`, which uses
a third of them. So dataclasses are made when they are first used, and share one constructor. A
field that is a cached property is computed from others, and is not given to the constructor.
"""

from __future__ import annotations

from _thread import RLock  # threading takes a millisecond to import
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple, Self

from keet.errors import NotAvailable, one_line

_FIELDS = "__dataclass_fields__"
_WAITING: dict[type, bool] = {}
"""Classes that are not made yet, and whether their fields are given by name only."""
_LOCK = RLock()
"""Of several threads, one makes a class; the others wait. A class needs its bases."""


class _Layout(NamedTuple):
    names: tuple[str, ...]
    by_position: tuple[str, ...]
    defaults: dict[str, Any]
    factories: dict[str, Callable[[], Any]]
    every: frozenset[str]
    """The names again: comparing with them takes no time."""


_LAYOUTS: dict[type, _Layout] = {}


class LazyDataclass:
    """A base whose subclasses call `make_on_use`."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        if cls in _WAITING:
            _make(cls)
        return super().__new__(cls)

    def __init__(self, *values: Any, **named: Any) -> None:
        """Does what the constructor of a dataclass does. `vars` has the order of the fields."""
        names, by_position, defaults, factories, every = _LAYOUTS[type(self)]
        given = {**defaults, **dict(zip(by_position, values)), **named}
        for name, make in factories.items():
            if name not in given:
                given[name] = make()
        if len(values) > len(by_position) or given.keys() != every:
            wrong = sorted(given.keys() ^ every) or "too many values"
            raise TypeError(f"{type(self).__name__}: wrong fields: {wrong}")
        vars(self).update({name: given[name] for name in names})
        self.__post_init__()

    def __post_init__(self) -> None:
        """For classes that compute some of their fields."""


def given_names(cls: type) -> tuple[str, ...]:
    """The fields that the constructor takes, of a class that has an instance."""
    return _LAYOUTS[cls].names


def make_on_use(cls: type, *, kw_only: bool = False) -> None:
    """Its first instance, or the first look at its fields, makes the class a dataclass."""
    _WAITING[cls] = kw_only
    setattr(cls, _FIELDS, _FieldsOnUse(cls))


class _FieldsOnUse:
    """Stands in a class for its fields, which the standard library and pydantic look up."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> Any:
        _make(self._cls)
        return self._cls.__dict__[_FIELDS]


def _make(cls: type) -> None:
    with _LOCK:
        if cls not in _WAITING:
            return
        text = cls.__doc__
        cls.__doc__ = text or cls.__name__  # without one, dataclass takes long to write one
        dataclass(init=False, kw_only=_WAITING[cls], eq=False, repr=False)(cls)
        cls.__doc__ = text
        for each in cls.__dict__[_FIELDS].values():
            is_computed = isinstance(getattr(cls, each.name, None), cached_property)
            each.init = each.init and not is_computed
        own = [each for each in cls.__dict__[_FIELDS].values() if each.init]
        _LAYOUTS[cls] = _Layout(
            tuple(each.name for each in own),
            tuple(each.name for each in own if not each.kw_only),
            {each.name: each.default for each in own if each.default is not MISSING},
            {
                each.name: each.default_factory
                for each in own
                if each.default_factory is not MISSING
            },
            frozenset(each.name for each in own),
        )
        del _WAITING[cls]


# --- optional dependencies: which extra has which packages, and how to install it

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
