"""Refusals of requests, and of single rows in them, by the description of rows in the catalogue."""

# ruff: noqa: ANN401 - requests, responses and rows of any API
from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalite.ports.turns import in_steps
from kafkalite.protocol.catalogue import ROWS, ErrorPlace, RefusalText
from kafkalite.protocol.codec import response_class
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kafkalite.protocol.catalogue import Row

_ERROR_FIELDS: Final = ("error_code", "partition_error_code")
_MESSAGE_FIELD: Final = "error_message"
_TEXTS: Final[Mapping[RefusalText, Callable[[ErrorCode, str | None], str | None]]] = {
    RefusalText.GIVEN: lambda _, message: message,
    RefusalText.STANDARD: lambda code, message: message or code.message,
    RefusalText.STANDARD_IF_EXPECTED: lambda code, message: (
        None if code is ErrorCode.UNKNOWN_SERVER_ERROR else message or code.message
    ),
    RefusalText.NOT_NULL: lambda _, message: message or "",
    RefusalText.NONE: lambda _, _message: None,
}
_LIST_OF_STRUCTS: Final = re.compile(r"list\[\w+\.(\w+)\]")


def refusal(key: int, request: Any, code: ErrorCode, message: str | None) -> Any:
    """Return the response with an error for a whole request."""
    described = _described(key)
    text = described.text_of(code, message)
    place = described.error_place
    fields = dict(described.values)
    if place is not ErrorPlace.ROWS:
        fields |= described.fields.of(code, text)
    if place is not ErrorPlace.REQUEST and (level := described.level) is not None:
        rows = getattr(request, level.requested) or ()
        fields[level.answered] = [level.refuse(each, code, text) for each in in_steps(rows)]
    return described.response(**fields)


class _ErrorFields(NamedTuple):
    """The fields for an error in a response or in a row of it; empty if there is none."""

    code: str
    message: str

    def of(self, code: ErrorCode, text: str | None) -> dict[str, object]:
        fields: dict[str, object] = {}
        if self.code:
            fields[self.code] = code
            if self.message:
                fields[self.message] = text
        return fields


class _Level(NamedTuple):
    """A list of rows, and how a refused row is answered."""

    requested: str
    answered: str
    answer: Any
    """The class of the rows in the response."""
    copied: Sequence[tuple[str, str]]
    """Fields of the answer and of the row; the second name is empty if rows are plain values."""
    values: Mapping[str, object]
    fields: _ErrorFields
    inner: _Level | None

    def refuse(self, row: Any, code: ErrorCode, text: str | None) -> Any:
        """Return the answer to a row with an error, which may be in the rows inside it."""
        fields = {
            name: getattr(row, source) if source else row for name, source in self.copied
        } | self.fields.of(code, text)
        fields.update(self.values)
        inner = self.inner
        if inner is not None and not self.fields.code:
            rows = getattr(row, inner.requested) or ()
            fields[inner.answered] = [inner.refuse(each, code, text) for each in in_steps(rows)]
        return self.answer(**fields)


class _Described(NamedTuple):
    """The description of an API with the classes of its messages."""

    response: Any
    level: _Level | None
    error_place: ErrorPlace
    values: Mapping[str, object]
    fields: _ErrorFields
    text: RefusalText

    def text_of(self, code: ErrorCode, message: str | None) -> str | None:
        """Return the error message of a refusal."""
        return _TEXTS[self.text](code, message)


@cache
def _described(key: int) -> _Described:
    row, response = ROWS[key], response_class(key)
    rows = row.rows
    return _Described(
        response,
        None if rows is None else _level(row, response, response, 0),
        ErrorPlace.REQUEST if rows is None else rows.error_place,
        _values(row, ""),
        _error_fields(response),
        row.refusal_text,
    )


def _level(row: Row, response: Any, owner: Any, depth: int) -> _Level | None:
    """Return the list of rows at a depth; `owner` is the class with the list of the answers."""
    rows = row.rows
    assert rows is not None
    if depth == len(rows.copied):
        return None
    path = rows.answered.split(".")
    answered = path[depth]
    struct = _LIST_OF_STRUCTS.match(owner.__annotations__[answered])
    assert struct is not None
    answer = getattr(response, struct.group(1))
    return _Level(
        rows.requested.split(".")[depth],
        answered,
        answer,
        tuple(_pairs(rows.copied[depth].split())),
        _values(row, ".".join(path[: depth + 1])),
        _error_fields(answer),
        _level(row, response, answer, depth + 1),
    )


def _pairs(copied: Iterable[str]) -> Iterable[tuple[str, str]]:
    for each in copied:
        name, mark, source = each.partition("=")
        yield name, source if mark else name


def _values(row: Row, owner: str) -> dict[str, object]:
    places = {place.rpartition("."): value for place, value in row.refused.items()}
    return {name: value for (each, _, name), value in places.items() if each == owner}


def _error_fields(struct: Any) -> _ErrorFields:
    names = struct.__slots__
    return _ErrorFields(
        next((each for each in _ERROR_FIELDS if each in names), ""),
        _MESSAGE_FIELD if _MESSAGE_FIELD in names else "",
    )
