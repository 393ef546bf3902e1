"""Converts values to the types that the fields of a document declare.

Integers become floats if the field is a float, so that 1 is printed as 1.0. Tuples become lists,
and mappings become documents. Annotations are read as text: evaluating them would import `typing`
and take longer than writing most documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Protocol

    class _DocumentType(Protocol):
        """The methods of `fields.Document` that this module uses."""

        __name__: str

        def fits(self, value: Any) -> bool: ...
        def made_of(self, value: Any) -> Any: ...


Converter = Callable[[Any], Any]
"""Converts a value that is not None."""
Names = Mapping[str, Any]
"""What names mean in the module that contains the annotation."""


def converter(kind: str, names: Names) -> Converter | None:
    """Returns None if values need no conversion."""
    options = [each for each in _split(kind, "|") if each != "None"]
    return _choice(options, names) if len(options) > 1 else _single(options[0], names)


def _single(kind: str, names: Names) -> Converter | None:
    outer, bracket, inner = kind.partition("[")
    if bracket:
        inner = inner[:-1]
        return _BRACKETS[outer](inner, names) if outer in _BRACKETS else None
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    document = _document(kind, names)
    return document.made_of if document else None


def _choice(options: list[str], names: Names) -> Converter | None:
    """For a union of types: numbers become floats if the union has float but not int."""
    documents = [each for each in (_document(kind, names) for kind in options) if each]
    if documents:
        return _one_of(documents)
    whole = "int" in options or "Number" in options
    return _float_unless_text if "float" in options and not whole else None


def _document(kind: str, names: Names) -> _DocumentType | None:
    named: Any = names.get(kind)
    return named if hasattr(named, "declared") else None


def _one_of(documents: list[_DocumentType]) -> Converter:
    def convert(value: Any) -> Any:
        for each in documents:
            if each.fits(value):
                return each.made_of(value)
        raise TypeError(f"neither of {', '.join(each.__name__ for each in documents)}: {value!r}")

    return convert


def _list(inner: str, names: Names) -> Converter:
    each = converter(inner, names)
    if each is None:
        return _as_list
    return lambda values: [value if value is None else each(value) for value in values]


def _as_list(values: Any) -> list[Any]:
    return values if type(values) is list else list(values)


def _dict(inner: str, names: Names) -> Converter:
    each = converter(inner.partition(",")[2].strip(), names)
    if each is None:
        return _as_dict
    return lambda values: {
        name: value if value is None else each(value) for name, value in values.items()
    }


def _as_dict(values: Any) -> dict[str, Any]:
    return values if type(values) is dict else dict(values)


def _tuple(inner: str, names: Names) -> Converter | None:
    parts = [converter(kind, names) for kind in _split(inner, ",")]
    if not any(parts):
        return None
    return lambda values: tuple(
        value if value is None or convert is None else convert(value)
        for value, convert in zip(values, parts, strict=True)
    )


def _float(value: Any) -> float:
    return value if type(value) is float else float(value)


def _float_unless_text(value: Any) -> Any:
    return value if isinstance(value, str) else float(value)


def _int(value: Any) -> int:
    if type(value) is int:
        return value
    whole = int(value)
    if whole != value:
        raise TypeError(f"not a whole number: {value!r}")
    return whole


_BRACKETS: dict[str, Callable[[str, Names], Converter | None]] = {
    "list": _list,
    "dict": _dict,
    "tuple": _tuple,
}
_NUMBERS: dict[str, Converter] = {"int": _int, "float": _float}


def _split(text: str, separator: str) -> Iterator[str]:
    """Splits at separators outside of brackets."""
    depth = start = 0
    for at, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == separator and not depth:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()
