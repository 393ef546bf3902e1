"""The shapes in which a model has to answer, and how its words are turned into them.

Models differ in what they keep to: a reply may have a fence around it, words before it, a field
missing or one too many. What can be understood is taken; what can't is a `NoAnswer` that says why.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from keet.findings import findings

_FENCE = re.compile(r"```(?:json)?\s*+(?=\{)")
_TRIED = 20
"""Positions in a reply at which parsing is tried."""
_LONGEST = 4000
"""Characters of one text; the rest is cut."""
_LONGEST_CODE = 8000
"""Characters of one code block of an edit. keet asks for answers of about 10,000 in all."""
MOST_CORRECTIONS = 40
_BETWEEN = re.compile(r";|\}\s*+(?:,\s*+)?\{")


class NoAnswer(Exception):
    """The reply does not match the schema; the message says why."""


def _text(value: object) -> str:
    """Models also write null for an empty text and a list for its lines."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(map(_text, value[:_LONGEST]))[:_LONGEST]
    return str(value)[:_LONGEST]


def _code(value: object) -> str:
    """Code that is too long is rejected: a part of it would be a different edit."""
    lines = value if isinstance(value, list) else [value]
    text = "\n".join("" if line is None else str(line) for line in lines)
    if len(text) > _LONGEST_CODE:
        raise ValueError(f"more than {_LONGEST_CODE} characters; change fewer lines at a time")
    return text


def expressions_of(value: object) -> list[str]:
    """A list, or one text such as `"{a}; b > c"`. Braces are removed."""
    if value is None:
        return []
    parts = value if isinstance(value, list) else _BETWEEN.split(str(value)[: 12 * _LONGEST])
    plain = (str(part)[:_LONGEST].strip().strip("{}").strip() for part in parts)
    return list(islice(filter(None, plain), 12))


def _line(value: object) -> int | None:
    match = re.search(r"\d+", str(value or ""))
    return int(match[0]) if match and len(match[0]) < 9 else None


def _changes(value: object) -> object:
    """Also accepts one change without a list, and a text, which is a diff."""
    if value is None:
        return []
    if isinstance(value, str):
        return [{"diff": value}]
    return [value] if isinstance(value, dict) else value


def _claims(value: object) -> list[object]:
    """Models write null, an empty object or a text for no claim, and an object for one."""
    parts = value if isinstance(value, list) else [value]
    return [part for part in parts if isinstance(part, dict) and part.get("kind")]


Text = Annotated[str, BeforeValidator(_text)]
Code = Annotated[str, BeforeValidator(_code)]
Expressions = Annotated[list[str], BeforeValidator(expressions_of)]
Line = Annotated[int | None, BeforeValidator(_line)]


class _Lenient(BaseModel):
    model_config = ConfigDict(extra="ignore")


class RawClaim(_Lenient):
    """An amount of work that is needed, or the share that can be removed."""

    kind: Text
    of: Text = ""
    needed: Text = ""
    """An expression."""
    removed: Text = ""
    """An expression: a share, 0 to 1."""


Claims = Annotated[list[RawClaim], BeforeValidator(_claims), Field(max_length=4)]


class RawCause(_Lenient):
    finding: Text
    text: Text
    because: Expressions = Field(default_factory=list)
    file: Text = ""
    line: Line = None
    claims: Claims = Field(default_factory=list, validation_alias=AliasChoices("claims", "claim"))


class RawChange(_Lenient):
    file: Text = ""
    line: Line = None
    old: Code = ""
    new: Code = ""
    diff: Code = ""
    """For models that write a diff although old and new lines were asked for."""


Changes = Annotated[list[RawChange], BeforeValidator(_changes), Field(max_length=12)]


class RawEdit(_Lenient):
    finding: Text = ""
    what: Text
    changes: Changes = Field(default_factory=list)
    instead_of: Line = None
    """Number of the edit that it is an alternative to, from 1."""
    risk: Text = ""
    check: Text = ""


class Conclusion(_Lenient):
    """What a model says about a launch."""

    summary: Text
    purpose: Text = ""
    causes: list[RawCause] = Field(default_factory=list, max_length=8)
    objections: list[RawCause] = Field(default_factory=list, max_length=8)
    edits: list[RawEdit] = Field(default_factory=list, max_length=8)


class Correction(_Lenient):
    number: Line = None
    text: Text = ""
    changes: Changes = Field(default_factory=list)
    claims: Claims = Field(default_factory=list)


class Corrections(_Lenient):
    corrections: list[Correction] = Field(default_factory=list, max_length=MOST_CORRECTIONS)


class TextAnswer(_Lenient):
    """The answer to a question."""

    answer: Text


Shape = TypeVar("Shape", bound=BaseModel)


def understand(text: str, shape: type[Shape]) -> Shape:
    try:
        return shape.model_validate(_json_object(text))
    except RecursionError:
        raise NoAnswer("it is nested too deeply") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the object"
        raise NoAnswer(f"{where}: {first['msg']}") from None


def _json_object(text: str) -> dict[str, Any]:
    """The first JSON object in the text; fences and words around it are skipped."""
    fenced = _FENCE.search(text)
    starts = [match.start() for match in islice(re.finditer(r"\{", text), _TRIED)]
    for start in [*([fenced.end()] if fenced else []), *starts]:
        try:
            parsed, _ = json.JSONDecoder(strict=False).raw_decode(text, start)
        except (ValueError, RecursionError):  # a number of 5,000 digits is a ValueError too
            continue
        if isinstance(parsed, dict):
            return parsed
    raise NoAnswer("there is no JSON object in it")


def known_finding(said: str) -> str | None:
    """The finding id, or None if there is no such finding."""
    plain = re.sub(r"[\s-]+", "_", said.strip().lower())
    return plain if plain in findings() else None


def schema_of(shape: type[BaseModel]) -> dict[str, Any]:
    """As strict servers require: all fields required, no others allowed, no defaults or titles."""
    strict: dict[str, Any] = _strict(shape.model_json_schema(mode="serialization"))
    return strict


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(part) for part in node]
    if not isinstance(node, dict):
        return node
    plain = {name: _strict(part) for name, part in node.items() if name not in _NOISE}
    if "properties" in node:
        fields = {name: _strict(part) for name, part in node["properties"].items()}
        plain |= {"properties": fields, "required": list(fields), "additionalProperties": False}
    return plain


_NOISE = {"title", "default", "description", "maxLength", "maxItems", "examples"}
