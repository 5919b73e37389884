"""The page of the control API, made from the table of commands."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, get_args, get_origin

from kafkalite.config.typed_json import About, fields_of
from kafkalite.control.command_table import rows
from kafkalite.control.openapi import openapi_document
from tests.reference.markdown import code, page, sentence, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.config.typed_json import Field
    from kafkalite.control.command_table import Row

_INTRODUCTION = """\
`kafkalite serve --control`, or `Broker(control=True)`, serves this API. Bodies and responses are
JSON; a request with a body needs the header `Content-Type: application/json`. By default only this
machine can reach the API. If it has a token, a request needs the header
`Authorization: Bearer TOKEN`. Requests from web pages are refused.
[Control a broker over HTTP](../how-to/control.md) has examples. `GET /v1/openapi.json` returns a
[description of the API](openapi.json) in the format of OpenAPI 3.1."""

_ERRORS = """\
An error is `{"error": "…"}` with one of these HTTP statuses: 400 invalid input, 403 a request from
a web page or for another host name, 401 without the token, 404 unknown path, fault, node, client or
key, 405 unknown method, 408 the request took more than 5 seconds to arrive, 413 a body of more than
64 KiB, 415 not JSON, 500 an error in the broker (see its log), 503 too many connections."""

_NAMES = {str: "str", int: "int", float: "float", bool: "bool", object: "any", dict: "object"}


def control_api_page() -> str:
    """Return the page of the control API."""
    all_rows = sorted(rows(), key=lambda row: row.path)
    return page(
        "Control API",
        _INTRODUCTION,
        "## Routes",
        table(
            ("Request", "Purpose", "Body or parameters", "Response"),
            [
                (code(_request(row)), _purpose(row), _sent(row), _type(row.answer))
                for row in all_rows
            ],
        ),
        "## Bodies",
        "Keys that are not required may be missing.",
        *(part for row in all_rows if row.has_body for part in _body(row)),
        "## Objects in bodies and responses",
        *(part for kind in _objects(all_rows) for part in _object(kind)),
        "## Errors",
        _ERRORS,
    )


def openapi_text() -> str:
    """Return the OpenAPI document."""
    return f"{json.dumps(openapi_document(), indent=1, ensure_ascii=False)}\n"


def _request(row: Row) -> str:
    return f"{row.method} {row.documented_path}"


def _purpose(row: Row) -> str:
    description = " ".join((row.kind.__doc__ or "").split())
    is_usual = row.status == HTTPStatus.OK or not isinstance(row.status, int)
    statuses = "" if is_usual else f" The HTTP status is {row.status}."
    unknown = " The HTTP status is 404 for an unknown id." if row.not_found else ""
    return f"{description}{statuses}{unknown}"


def _sent(row: Row) -> str:
    if row.has_body:
        return f"[{row.kind.__name__}](#{row.kind.__name__.lower()})"
    return " ".join(f"`{field.name}`: {_meaning(field)}" for field in row.sent_fields)


def _body(row: Row) -> Iterator[str]:
    yield f"### {row.kind.__name__}"
    example = json.dumps(row.example)
    yield f"`{_request(row)}`, for example `{example}`"
    yield _fields(row.sent_fields, shows_required=True)


def _objects(all_rows: list[Row]) -> list[type]:
    """Return the classes in bodies and responses, each once."""
    found: dict[type, None] = {}
    pending: list[Any] = [row.answer for row in all_rows]
    pending += [field.type for row in all_rows for field in row.sent_fields]
    while pending:
        kind = pending.pop(0)
        pending += get_args(kind)
        if is_dataclass(kind) and kind not in found:
            assert isinstance(kind, type)
            found[kind] = None
            pending += [field.type for field in fields_of(kind)]
    return sorted(found, key=lambda kind: kind.__name__)


def _object(kind: type) -> Iterator[str]:
    yield f"### {kind.__name__}"
    yield " ".join((kind.__doc__ or "").split())
    yield _fields(fields_of(kind))


def _fields(fields: tuple[Field, ...], *, shows_required: bool = False) -> str:
    rows_of_fields = []
    for field in fields:
        optional = " or null" if field.is_optional else ""
        meaning = f"{_meaning(field)}{' Required.' if shows_required and field.is_required else ''}"
        rows_of_fields.append((code(field.name), f"{_type(field.type)}{optional}", meaning))
        if field.about.alias is not None:
            text = f"The same as text, in place of `{field.name}`."
            rows_of_fields.append((code(field.about.alias), _NAMES[str], text))
    return table(("Key", "Type", "Meaning"), rows_of_fields)


def _meaning(field: Field) -> str:
    about = field.about
    text = sentence(about.text).replace("[", "\\[").replace("]", "\\]").replace("*", "\\*")
    limits = _limits(about)
    return f"{text} {limits}" if limits else text


def _limits(about: About) -> str:
    if about.choices:
        return f"{', '.join(map(code, about.choices))}."
    if about.above is not None:
        return f"Above {about.above:g}, at most {about.maximum:g}."
    if about.maximum is not None and about.maximum < 10**9:
        return f"From {about.minimum} to {about.maximum}."
    return ""


def _type(kind: Any) -> str:  # noqa: ANN401 - any type
    if is_dataclass(kind):
        assert isinstance(kind, type)
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    if get_origin(kind) is tuple:
        return f"list of {_type(get_args(kind)[0])}"
    if get_origin(kind) is dict:
        return f"object of {_type(get_args(kind)[1])}"
    return _NAMES.get(kind, "str")
