"""Refusals of requests, and of single rows in them, by the description of rows in the catalogue."""

# ruff: noqa: ANN401 - requests, responses and rows of any API
from __future__ import annotations

import re
from collections import Counter, defaultdict
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.waiting import chain
from kafkalite.protocol.catalogue import ROWS, ErrorPlace, Position, RefusalText
from kafkalite.protocol.codec import response_class
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.message import with_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from kafkalite.protocol.catalogue import Row
    from kafkalite.protocol.errors import KafkaError

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
        fields[level.answered] = [level.refuse(each, code, text) for each in rows]
    return described.response(**fields)


class SplitRequest(NamedTuple):
    """A request without some of its rows, and the answers to those."""

    key: int
    request: Any
    """A copy of the request with the other rows."""
    has_rows: bool
    """Whether the request has other rows."""
    refused: list[Any]
    """The answers to the rows that were removed; rows around them have no error."""
    requested: Any
    """The request with all rows."""

    def merge(self, response: Any, position: Position | None = None) -> Any:
        """Return a response to the request with the answers to the rows that were removed.

        Their position is that of the catalogue, if none is given.
        """
        described = _described(self.key)
        level = described.level
        assert level is not None
        position = position or described.position
        answers = getattr(response, level.answered)
        if position is Position.FIRST:
            merged = level.merge(self.refused, answers)
        else:
            merged = level.merge(answers, self.refused)
        if position is Position.REQUESTED:
            merged = level.sort(merged, getattr(self.requested, level.requested))
        return with_fields(response, **{level.answered: merged})

    def answer(
        self,
        handle: Callable[[Any], Any],
        position: Position | None = None,
        *,
        is_handled_without_rows: bool = False,
    ) -> Any:
        """Return the answer of `handle(request)` with those to the rows that were removed.

        If no row remains, it is called only with `is_handled_without_rows`. Without a response, the
        answers to removed rows are the response.
        """
        if not self.refused:
            return handle(self.request)
        if not self.has_rows and not is_handled_without_rows:
            return self.merge(self._empty_response())

        def merge(response: Any) -> Any:
            return self.merge(self._empty_response() if response is None else response, position)

        return chain(handle(self.request), merge)

    def replace(self, response: Any) -> Any:
        """Return a response to all rows, with the answers to the refused rows in their places."""
        level = _described(self.key).level
        assert level is not None
        answers = level.without(getattr(response, level.answered), self.refused)
        others = with_fields(response, **{level.answered: answers})
        return self.merge(others, Position.REQUESTED)

    def _empty_response(self) -> Any:
        """Return a response without rows and without an error."""
        described = _described(self.key)
        fields = dict(described.values) | described.fields.of(ErrorCode.NONE, None)
        return described.response(**fields)


def split(
    key: int, request: Any, depth: int, error_of: Callable[[Sequence[Any]], KafkaError | None]
) -> SplitRequest:
    """Remove the rows with an error from a request, and answer them with it.

    `error_of` returns the error of a row at a depth, or None; its argument has the rows around the
    row, the outermost first, and the row itself.
    """
    described = _described(key)
    level = described.level
    assert level is not None

    def refuse(level: _Level, path: tuple[Any, ...], rows: Collection[Any]) -> tuple[Any, Any]:
        remaining, refused = [], []
        for row in rows:
            here = (*path, row)
            inner = level.inner
            if len(here) > depth:
                error = error_of(here)
                if error is None:
                    remaining.append(row)
                else:
                    text = described.text_of(error.code, error.message)
                    refused.append(level.refuse(row, error.code, text))
                continue
            assert inner is not None
            inside, answers = refuse(inner, here, getattr(row, inner.requested) or ())
            if not answers:
                remaining.append(row)
                continue
            refused.append(level.answer(**level.copies(row), **{inner.answered: answers}))
            if inside:
                remaining.append(with_fields(row, **{inner.requested: inside}))
        return remaining, refused

    remaining, refused = refuse(level, (), getattr(request, level.requested) or ())
    changed = with_fields(request, **{level.requested: remaining}) if refused else request
    return SplitRequest(key, changed, bool(remaining), refused, request)


def depths_with_errors(key: int) -> set[int]:
    """Return the depths whose rows can have an error, in themselves or in the rows inside them."""
    level, depth, deepest = _described(key).level, 0, -1
    while level is not None:
        deepest = depth if level.fields.code else deepest
        level, depth = level.inner, depth + 1
    return set(range(deepest + 1))


def depth_of_refusal(key: int) -> int | None:
    """Return the depth of the rows that get the error of a whole request; None if none do."""
    described = _described(key)
    level, depth = described.level, 0
    if described.error_place is not ErrorPlace.ROWS:
        return None
    while level is not None and not level.fields.code:
        level, depth = level.inner, depth + 1
    return depth


def refused_row(key: int, depth: int, row: Any, code: ErrorCode, message: str | None = None) -> Any:
    """Return the answer to a row at a depth with an error."""
    described = _described(key)
    level = described.level
    for _ in range(depth):
        assert level is not None
        level = level.inner
    assert level is not None
    return level.refuse(row, code, described.text_of(code, message))


def paths_of_rows(key: int, request: Any, depth: int) -> Iterator[tuple[Any, ...]]:
    """Yield each row of a request at a depth, after the rows around it."""
    level = _described(key).level
    assert level is not None
    paths: Iterable[tuple[Any, ...]] = ((row,) for row in getattr(request, level.requested) or ())
    for _ in range(depth):
        assert level.inner is not None
        level = level.inner
        paths = _inner_paths(paths, level.requested)
    yield from paths


def _inner_paths(paths: Iterable[tuple[Any, ...]], name: str) -> Iterator[tuple[Any, ...]]:
    for path in paths:
        for row in getattr(path[-1], name) or ():
            yield (*path, row)


def repetition(key: int, request: Any) -> Callable[[Any], bool]:
    """Return a function: whether a row of the outermost list occurs several times in a request.

    Rows are equal if the fields are that answers copy.
    """
    level = _described(key).level
    assert level is not None

    def identity(row: Any) -> tuple[object, ...]:
        return tuple(level.copies(row).values())

    counts = Counter(identity(row) for row in getattr(request, level.requested))
    return lambda row: counts[identity(row)] > 1


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
        fields = self.copies(row) | self.fields.of(code, text)
        fields.update(self.values)
        inner = self.inner
        if inner is not None and not self.fields.code:
            rows = getattr(row, inner.requested) or ()
            fields[inner.answered] = [inner.refuse(each, code, text) for each in rows]
        return self.answer(**fields)

    def copies(self, row: Any) -> dict[str, object]:
        """Return the fields of an answer that are copies of those of the row."""
        return {name: getattr(row, source) if source else row for name, source in self.copied}

    def merge(self, answers: Sequence[Any], more: Sequence[Any]) -> list[Any]:
        """Return answers and, after them or inside the same rows, more answers."""
        merged = list(answers)
        inner = self.inner
        positions = {}
        if inner is not None:
            positions = {self._identity(each): index for index, each in enumerate(merged)}
        for each in more:
            position = positions.get(self._identity(each))
            if inner is None or position is None:
                merged.append(each)
                continue
            name = inner.answered
            inside = inner.merge(getattr(merged[position], name), getattr(each, name))
            merged[position] = with_fields(merged[position], **{name: inside})
        return merged

    def without(self, answers: Sequence[Any], removed: Sequence[Any]) -> list[Any]:
        """Return answers without those to the same rows as `removed`, or inside them."""
        by_identity = {self._identity(each): each for each in removed}
        inner, remaining = self.inner, []
        for each in answers:
            other = by_identity.get(self._identity(each))
            if other is None:
                remaining.append(each)
            elif inner is not None and not self.fields.code:
                name = inner.answered
                inside = inner.without(getattr(each, name), getattr(other, name))
                if inside:
                    remaining.append(with_fields(each, **{name: inside}))
        return remaining

    def sort(self, answers: Sequence[Any], rows: Sequence[Any]) -> list[Any]:
        """Return answers in the order of the rows, and those inside them in the same way."""
        indexes = defaultdict[tuple[object, ...], list[int]](list)
        for index in reversed(range(len(rows))):
            indexes[tuple(self.copies(rows[index]).values())].append(index)
        by_index = []
        for answer in answers:
            pending = indexes[self._identity(answer)]
            index, inner = pending.pop() if pending else len(rows), self.inner
            if inner is not None and index < len(rows):
                inside = getattr(rows[index], inner.requested)
                ordered = inner.sort(getattr(answer, inner.answered), inside)
                by_index.append((index, with_fields(answer, **{inner.answered: ordered})))
            else:
                by_index.append((index, answer))
        return [answer for _, answer in sorted(by_index, key=itemgetter(0))]

    def _identity(self, answer: Any) -> tuple[object, ...]:
        return tuple(getattr(answer, name) for name, _ in self.copied)


class _Described(NamedTuple):
    """The description of an API with the classes of its messages."""

    response: Any
    level: _Level | None
    error_place: ErrorPlace
    position: Position
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
        Position.LAST if rows is None else rows.position,
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
