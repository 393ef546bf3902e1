"""Pydantic models of the documents: `keet schema` publishes them, and tests check types with them.

No other command needs them: importing pydantic and building the models takes longer than explaining
a report.
"""

from __future__ import annotations

import re
import sys
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model, model_serializer

from keet.render.json.encoding.fields import Declared, Document, PartlyFilled


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _PartlyFilledModel(_Model):
    optional: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="plain")
    def _serialize(self):  # type: ignore[no-untyped-def]
        # Not annotated on purpose: pydantic would publish the return type as the schema.
        unset = self.optional - self.model_fields_set
        return {name: value for name, value in self if name not in unset}


_MODELS: dict[type[Document], type[BaseModel]] = {
    Document: _Model,
    PartlyFilled: _PartlyFilledModel,
}


def model_of(document: type[Document]) -> type[BaseModel]:
    """A model with the fields, types and descriptions of the document and its nested documents."""
    if document not in _MODELS:
        _MODELS[document] = _made(document)
    return _MODELS[document]


def _made(document: type[Document]) -> type[BaseModel]:
    own = (name for name in document.__annotations__ if name in document.declared)
    bases = tuple(model_of(base) for base in document.__bases__ if issubclass(base, Document))
    model: type[BaseModel] = create_model(  # type: ignore[call-overload]
        document.__name__,
        __base__=bases,
        __doc__=document.__doc__,
        __module__=document.__module__,
        **{name: _field(document, document.declared[name]) for name in own},
    )
    if issubclass(model, _PartlyFilledModel):
        model.optional = document.optional
    return model


def _field(document: type[Document], declared: Declared) -> tuple[Any, Any]:
    kind = eval(declared.kind, _names(document, declared))
    given: dict[str, Any] = {}
    if not declared.required:
        given["default"] = _default(declared.default)
    if declared.description is not None:
        given["description"] = declared.description
    return kind, Field(**given)


def _names(document: type[Document], declared: Declared) -> dict[str, Any]:
    """The names in the annotation and their meaning, with models in place of documents. A document
    that contains itself is referred to by name, because its model does not exist yet."""
    known = vars(sys.modules[declared.module])
    found = {name: known[name] for name in re.findall(r"\w+", declared.kind) if name in known}
    for name, value in found.items():
        if isinstance(value, type) and issubclass(value, Document):
            found[name] = name if value is document else model_of(value)
    return found


def _default(value: Any) -> Any:
    return model_of(type(value))(**vars(value)) if isinstance(value, Document) else value


def schema_of(document: type[Document]) -> dict[str, Any]:
    """The JSON Schema of the written document."""
    return model_of(document).model_json_schema(mode="serialization")
