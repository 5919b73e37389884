"""The OpenAPI 3.1 document of the control API, made from the table of commands."""

from __future__ import annotations

import json
from dataclasses import MISSING, is_dataclass
from typing import TYPE_CHECKING, Any, Final, get_args, get_origin

from kafkalite import __version__
from kafkalite.config.typed_json import About, fields_of, to_json
from kafkalite.control.command_table import JSON_LINES, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalite.config.typed_json import Field
    from kafkalite.control.command_table import Row

Json = dict[str, Any]

_ANSWERS: Final[Mapping[type, Json]] = {
    str: {"type": "string"},
    bytes: {"type": "string", "format": "binary"},
}
_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NO_ABOUT: Final = About("")
_REFERENCE: Final = "#/components/schemas/"
_ERROR: Final = {
    "description": "The error in one sentence.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {"error": {"type": "string"}},
            }
        }
    },
}


def openapi_document() -> Json:
    """Return the document as JSON."""
    paths: Json = {}
    kinds: dict[str, type] = {}
    for row in rows():
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, kinds)
    schemas: Json = {}
    while missing := kinds.keys() - schemas.keys():
        for name in sorted(missing):
            schemas[name] = _object_schema(kinds[name], fields_of(kinds[name]), kinds)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Control API of kafkalite",
            "version": __version__,
            "description": "Commands to a running broker.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def json_schema(kind: type) -> Json:
    """Return the JSON Schema of a dataclass, whose other dataclasses are in `$defs`."""
    kinds: dict[str, type] = {}
    schema = _object_schema(kind, fields_of(kind), kinds)
    definitions: Json = {}
    while missing := kinds.keys() - definitions.keys():
        for name in sorted(missing):
            definitions[name] = _object_schema(kinds[name], fields_of(kinds[name]), kinds)
    text = json.dumps({**schema, "$defs": dict(sorted(definitions.items()))})
    document: Json = json.loads(text.replace(_REFERENCE, "#/$defs/"))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}


def _operation(row: Row, kinds: dict[str, type]) -> Json:
    operation: Json = {
        "operationId": row.kind.__name__,
        "summary": row.purpose,
        "description": " ".join((row.kind.__doc__ or "").split()),
        "parameters": list(_parameters(row, kinds)),
        "responses": {
            **{status: _answer(row, kinds) for status in _statuses(row)},
            **({"404": _ERROR} if row.not_found else {}),
            "default": _ERROR,
        },
    }
    if row.has_body:
        content: Json = {"schema": _object_schema(row.kind, row.sent_fields, kinds)}
        if row.example is not None:
            content["example"] = row.example
        operation["requestBody"] = {"required": True, "content": {"application/json": content}}
    if not row.needs_token:
        operation["security"] = [{}]
    return operation


def _statuses(row: Row) -> tuple[str, ...]:
    possible = (row.status,) if isinstance(row.status, int) else row.status.possible
    return tuple(map(str, possible))


def _answer(row: Row, kinds: dict[str, type]) -> Json:
    schema = _ANSWERS.get(row.answer, {"type": "object"})
    if is_dataclass(row.answer):
        schema = _schema(row.answer, _NO_ABOUT, kinds)
    media_type = row.media_type.partition(";")[0]
    content: Json = {media_type: {"schema": schema}}
    if row.json_lines is not None:
        content[JSON_LINES] = {"schema": {"type": "string"}}
    return {
        "description": " ".join((row.answer.__doc__ or "").split())
        if is_dataclass(row.answer)
        else "The answer.",
        "content": content,
    }


def _parameters(row: Row, kinds: dict[str, type]) -> Iterator[Json]:
    for field in fields_of(row.kind):
        is_in_path = field.name in row.path_fields
        if is_in_path or not row.has_body:
            yield {
                "name": field.name,
                "in": "path" if is_in_path else "query",
                "required": is_in_path,
                "description": field.about.text,
                "schema": _schema(field.type, field.about, kinds),
            }


def _object_schema(kind: type, fields: tuple[Field, ...], kinds: dict[str, type]) -> Json:
    properties: Json = {}
    for field in fields:
        about = field.about
        schema = _schema(field.type, about, kinds)
        if field.is_optional:
            schema = {"anyOf": [schema, {"type": "null"}]}
        if field.default not in (MISSING, None) and not getattr(kind, "OMITS_DEFAULTS", False):
            schema = {**schema, "default": to_json(field.default)}
        properties[field.name] = {**schema, "description": about.text}
        if about.alias is not None:
            text: Json = {"type": "string"}
            properties[about.alias] = {
                **({"anyOf": [text, {"type": "null"}]} if field.is_optional else text),
                "description": f"{about.text}; in place of {field.name}",
            }
    schema = {
        "type": "object",
        "description": " ".join((kind.__doc__ or "").split()),
        "properties": properties,
        "additionalProperties": False,
    }
    required = [field.name for field in fields if field.is_required]
    if getattr(kind, "OMITS_DEFAULTS", False):
        required = []
    return {**schema, "required": required} if required else schema


def _schema(kind: Any, about: About, kinds: dict[str, type]) -> Json:  # noqa: ANN401 - any type
    if about.schema is not None:
        return dict(about.schema)
    if about.names is not None:
        return {"type": "string", "enum": list(about.names())}
    if is_dataclass(kind):
        assert isinstance(kind, type)
        kinds[kind.__name__] = kind
        return {"$ref": f"{_REFERENCE}{kind.__name__}"}
    origin, members = get_origin(kind), get_args(kind)
    if origin is tuple:
        return {"type": "array", "items": _schema(members[0], about, kinds)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(members[1], _NO_ABOUT, kinds)}
    limits = {
        "minimum": about.minimum,
        "maximum": about.maximum,
        "exclusiveMinimum": about.above,
        "maxLength": about.max_length,
        "enum": list(about.choices) or None,
    }
    types = {} if kind is object else {"type": _TYPES[kind]}
    return types | {name: value for name, value in limits.items() if value is not None}
