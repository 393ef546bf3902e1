"""Writes documents as JSON text, whole or in pieces.

The bytes are those that pydantic would write for its models (`models`), because stores and scripts
have such texts. If Python and pydantic write a number differently (1e-05, 0.00001), pydantic's form
is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from json.encoder import encode_basestring as quoted
from typing import Any, Generic, TypeVar

from keet.render.json.encoding.fields import Document

D = TypeVar("D", bound=Document)


class Streamed(Generic[D]):
    """A document that is computed while it is written, so that it need not fit in memory.

    `fields` yields the fields one by one, in the order of the document. A field may be an iterator
    that yields the entries of a list in the same way; fields after a list may depend on entries
    that were already written. Fields with defaults may be left out.
    """

    def __init__(self, kind: type[D], fields: Iterable[tuple[str, Any]]) -> None:
        self.kind = kind
        self._fields = fields

    def document(self) -> D:
        """The whole document, in memory."""
        return self.kind(
            **{
                name: list(value) if isinstance(value, Iterator) else value
                for name, value in self._fields
            }
        )

    def fields(self) -> Iterator[tuple[str, Any]]:
        """Adds fields that were left out. Raises TypeError if names are wrong or out of order."""
        waiting = iter(self.kind.declared.items())
        for name, value in self._fields:
            yield from self._defaults_before(name, waiting)
            yield name, value if isinstance(value, Iterator) else self._converted(name, value)
        yield from self._defaults_before(None, waiting)

    def _defaults_before(self, name: str | None, waiting: Iterator[Any]) -> Iterator[Any]:
        for passed, declared in waiting:
            if passed == name:
                return
            if declared.required:
                raise TypeError(f"{self.kind.__name__} lacks its field {passed!r} before {name!r}")
            if passed not in self.kind.optional:
                yield passed, declared.default
        if name is not None:
            raise TypeError(f"{self.kind.__name__} has no field {name!r}, or has it earlier")

    def _converted(self, name: str, value: Any) -> Any:
        convert = self.kind.declared[name].converter()
        return value if convert is None or value is None else convert(value)


def json_text(document: Any) -> str:
    """The format of the commands: one value per line, with a newline at the end."""
    return _text(document, "\n") + "\n"


def json_line(document: Any) -> str:
    """A document, or mappings and lists that have its fields, on one line without a newline."""
    return _text(document, "")


def json_pieces(document: Document | Streamed[Any], *, line: bool = False) -> Iterator[str]:
    """The same text in pieces, with a newline at the end; `line`: all on one line."""
    if isinstance(document, Document):
        yield json_line(document) + "\n" if line else json_text(document)
        return
    end = "" if line else "\n"
    inner, colon = _inside(end)
    before = "{"
    for name, value in document.fields():
        yield f"{before}{inner}{quoted(name)}{colon}"
        if isinstance(value, Iterator):
            yield from _entries(value, inner)
        else:
            yield _text(value, inner)
        before = ","
    yield f"{end}}}\n"


def _entries(values: Iterator[Any], line: str) -> Iterator[str]:
    inner, _ = _inside(line)
    before = "["
    for value in values:
        yield f"{before}{inner}{_text(value, inner)}"
        before = ","
    yield "[]" if before == "[" else f"{line}]"


def _inside(line: str) -> tuple[str, str]:
    """The separators inside of brackets whose closing one is on `line`: before each value, and
    after a name."""
    return (line + " ", ": ") if line else ("", ":")


def _text(value: Any, line: str) -> str:
    """`line`: a newline and the indentation of the line that the value ends on; empty to write
    everything on one line."""
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        return scalar(value)
    if isinstance(value, list | tuple):
        return _list(value, line)
    if isinstance(value, dict):
        return _mapping(value, line)
    if isinstance(value, Document):
        return _mapping(vars(value), line)
    return _of_other_type(value)


def _list(values: Sequence[Any], line: str) -> str:
    if not values:
        return "[]"
    inner = line and line + " "
    parts = [
        write(value) if (write := _SCALARS.get(type(value))) else _text(value, inner)
        for value in values
    ]
    return f"[{inner}{f',{inner}'.join(parts)}{line}]"


def _mapping(fields: dict[str, Any], line: str) -> str:
    """Objects with few fields are written with a template that is cached by their names: most of
    the time is spent on such objects, and their names are then quoted only once."""
    inner = line and line + " "
    parts = [
        write(value) if (write := _SCALARS.get(type(value))) else _text(value, inner)
        for value in fields.values()
    ]
    names = tuple(fields)
    if len(names) > _MOST_IN_TEMPLATE:
        return _template(names, line) % tuple(parts)
    template = _TEMPLATES.get((names, line))
    if template is None:
        template = _template(names, line)
        if len(_TEMPLATES) > _MOST_KEPT:
            _TEMPLATES.clear()
        _TEMPLATES[names, line] = template
    return template % tuple(parts)


def _template(names: tuple[str, ...], line: str) -> str:
    if not names:
        return "{}"
    inner, colon = _inside(line)
    parts = (f"{quoted(name).replace('%', '%%')}{colon}%s" for name in names)
    return f"{{{inner}{f',{inner}'.join(parts)}{line}}}"


def _of_other_type(value: Any) -> str:
    """For subclasses of the scalar types."""
    for kind, write in _SCALARS.items():
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


def _float_text(value: float) -> str:
    text = float.__repr__(value)
    if "e-0" in text:
        return _small(text)
    return "null" if "n" in text else text  # JSON has no nan or inf


def _small(text: str) -> str:
    """As pydantic writes them: `1.5e-05` becomes `0.000015`, `1.5e-06` becomes `1.5e-6`."""
    digits, _, exponent = text.partition("e-0")
    if exponent != "5":
        return f"{digits}e-{exponent}"
    sign, digits = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
    return f"{sign}0.0000{digits.replace('.', '')}"


_MOST_IN_TEMPLATE = 30
"""Templates of larger mappings are not cached: their names rarely repeat, for example evidence."""
_MOST_KEPT = 2000
_TEMPLATES: dict[tuple[tuple[str, ...], str], str] = {}
_SCALARS: dict[type, Callable[[Any], str]] = {
    str: quoted,
    int: int.__repr__,
    float: _float_text,
    bool: {True: "true", False: "false"}.__getitem__,
    type(None): {None: "null"}.__getitem__,
}
