"""Codecs for long messages: they parse, build and free messages in steps, with pauses in between.

They are the generated codecs of brokers with other hooks: see `codec_helpers.Hooks`. The hooks for
short lists refuse long ones.

Kafka reads at most MAX_LIST_ELEMENTS elements of a list. A request of `socket.request.max.bytes`
has room for many such lists, whose objects would take gigabytes. So the sum of all elements of a
message has the same limit.
"""

from __future__ import annotations

import sys
from functools import cache, partial
from struct import calcsize
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.ports.turns import (
    ELEMENTS_PER_PAUSE,
    NeedsWorkerError,
    PausingList,
    count_elements,
    iterate_with_pauses,
    limit_elements,
    pause,
    pausing,
)
from kafkalite.protocol.codec_helpers import (
    MAX_LIST_ELEMENTS,
    Hooks,
    read_numbers,
    read_unknown_tags,
    read_uuids,
)
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalite.protocol.message import Message

T = TypeVar("T")

_PIECES_PER_JOIN = 16_384
"""Number of pieces that are joined at a time while a message is built."""
_UUID_BYTES = 16
_NUMBERS_PER_PAUSE = 4096
"""Number of numbers that are read between two pauses: they are read together."""


class JoinedPieces(list[bytes | memoryview]):
    """Pieces of a message that is being built; `join` joins those added since the last call."""

    __slots__ = ("_joined",)

    def __init__(self) -> None:
        super().__init__()
        self._joined = 0

    def join(self, min_pieces: int = 1) -> None:
        """Join the pieces added since the last call, if there are `min_pieces` or more."""
        if len(self) - self._joined >= min_pieces:
            self[self._joined :] = [b"".join(self[self._joined :])]
            self._joined += 1


def pausing_variant(
    function: Callable[..., Any], pausing_lists: frozenset[str] = frozenset()
) -> Callable[..., Any]:
    """Return a variant of a function of a broker's codec that pauses in its loops.

    A parser makes long lists in the fields `pausing_lists` a `PausingList`. A builder must be
    called with `JoinedPieces`. Another function is returned unchanged.
    """
    return _variant(function, _pausing_hooks(pausing_lists))


def long_message_parser(
    function: Callable[..., Any],
    max_elements: int = MAX_LIST_ELEMENTS,
    pausing_lists: frozenset[str] = frozenset(),
) -> Callable[..., Any]:
    """Return a variant of a generated parser that pauses and refuses more than `max_elements`.

    It raises ProtocolViolation before it creates the elements. Lists as in `pausing_variant`.
    """
    parse = pausing_variant(function, pausing_lists)

    def parse_with_limit(buf: bytes | bytearray, pos: int, end: int) -> tuple[Any, int]:
        limit_elements(max_elements)
        message: tuple[Any, int] = parse(buf, pos, end)
        return message

    return parse_with_limit


def bounded_variant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a variant of a generated parser for short lists.

    It raises NeedsWorkerError for a list with more than ELEMENTS_PER_PAUSE elements.
    """
    return _variant(function, _BOUNDED)


def _variant(function: Callable[..., Any], hooks: Hooks) -> Callable[..., Any]:
    create = getattr(sys.modules.get(function.__module__), "create_codec", None)
    return function if create is None else _codec(create, hooks)[function.__name__]


@cache
def _codec(
    create: Callable[..., tuple[Callable[..., Any], ...]], hooks: Hooks
) -> dict[str, Callable[..., Any]]:
    return {function.__name__: function for function in create(*hooks)}


def _count_list(count: int) -> None:
    """Count the elements of a list before they are read; refuse too many."""
    if count > MAX_LIST_ELEMENTS:
        raise ProtocolViolation(
            f"a list of {count} elements, above the maximum of {MAX_LIST_ELEMENTS}"
        )
    _count_elements(count)


def _count_elements(count: int) -> None:
    exceeding = count_elements(count)
    if exceeding is not None:
        raise ProtocolViolation(
            f"the lists have {exceeding.elements} elements or more, above the maximum of "
            f"{exceeding.maximum} for this API"
        )


def _rows(count: int) -> Iterator[int]:
    return iterate_with_pauses(range(count))


def _tags(count: int) -> Iterator[int]:
    _count_elements(count)
    return iterate_with_pauses(range(count))


def _each(elements: Iterable[T], out: list[Any] | None = None) -> Iterator[T]:
    """Yield the elements; join the built pieces and pause every ELEMENTS_PER_PAUSE of them."""
    remaining = ELEMENTS_PER_PAUSE
    for element in elements:
        yield element
        remaining -= 1
        if not remaining:
            remaining = ELEMENTS_PER_PAUSE
            if out.__class__ is JoinedPieces:
                out.join(_PIECES_PER_JOIN)
            pause()


def _read_tags_with_pauses(
    buf: bytes | bytearray, pos: int, end: int, count: int, message: Message
) -> int:
    """Do the same as `read_unknown_tags`, count the tagged fields, and pause."""
    pos = read_unknown_tags(buf, pos, end, count, message)
    if message.unknown_tags is not None:
        _count_elements(len(message.unknown_tags))
    pause()
    return pos


def _read_numbers_with_pauses(code: str, buf: bytes | bytearray, pos: int, count: int) -> list[int]:
    """Do the same as `read_numbers`, and pause."""
    if count <= _NUMBERS_PER_PAUSE:
        return read_numbers(code, buf, pos, count)
    return _read_fixed_with_pauses(
        partial(read_numbers, code), calcsize(f">{code}"), buf, pos, count
    )


def _read_uuids_with_pauses(buf: bytes | bytearray, pos: int, count: int) -> list[bytes]:
    """Do the same as `read_uuids`, and pause."""
    _count_list(count)
    return _read_fixed_with_pauses(read_uuids, _UUID_BYTES, buf, pos, count)


def _read_fixed_with_pauses(
    read: Callable[[bytes | bytearray, int, int], list[T]],
    size: int,
    buf: bytes | bytearray,
    pos: int,
    count: int,
) -> list[T]:
    elements: list[T] = []
    while len(elements) < count:
        start = pos + len(elements) * size
        elements += read(buf, start, min(_NUMBERS_PER_PAUSE, count - len(elements)))
        pause()
    return elements


@cache
def _pausing_hooks(pausing_lists: frozenset[str]) -> Hooks:
    def new_list(field: str, count: int) -> list[Any]:
        _count_list(count)
        return PausingList() if count > ELEMENTS_PER_PAUSE and field in pausing_lists else []

    def read_numbers_(
        code: str, buf: bytes | bytearray, pos: int, count: int, field: str
    ) -> list[int]:
        _count_list(count)
        numbers = _read_numbers_with_pauses(code, buf, pos, count)
        return pausing(numbers) if field in pausing_lists else numbers

    return Hooks(
        new_list=new_list,
        rows=_rows,
        tags=_tags,
        each=_each,
        read_unknown_tags=_read_tags_with_pauses,
        read_numbers=read_numbers_,
        read_uuids=_read_uuids_with_pauses,
    )


def _check_short(count: int) -> None:
    if count > ELEMENTS_PER_PAUSE:
        raise NeedsWorkerError


def _new_short_list(_: str, count: int) -> list[Any]:
    _check_short(count)
    return []


def _few_tags(count: int) -> range:
    _check_short(count)
    return range(count)


def _read_few_numbers(code: str, buf: bytes | bytearray, pos: int, count: int, _: str) -> list[int]:
    _check_short(count)
    return read_numbers(code, buf, pos, count)


def _read_few_uuids(buf: bytes | bytearray, pos: int, count: int) -> list[bytes]:
    _check_short(count)
    return read_uuids(buf, pos, count)


_BOUNDED: Final = Hooks(
    new_list=_new_short_list,
    rows=range,
    tags=_few_tags,
    each=iter,
    read_unknown_tags=read_unknown_tags,
    read_numbers=_read_few_numbers,
    read_uuids=_read_few_uuids,
)


class _Probe:
    __slots__ = ("elements",)

    def __init__(self) -> None:
        self.elements: list[object] = []


def _count_references(message: object, name: str) -> int:
    return sys.getrefcount(getattr(message, name))


_UNSHARED_REFERENCES = _count_references(_Probe(), "elements") + 1
"""References to a list in one message, and in a local variable.

It is measured, because Python 3.14 does not count the references of all calls.
"""


def free_in_steps(message: object) -> None:
    """Free the lists in a message that is no longer needed, with pauses in between.

    Python frees a list of a million elements at once, which takes up to a second. Short lists of
    other objects than messages, and lists with other references, are left unchanged.
    """
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name, None)
        if not isinstance(value, list) or not value:
            continue
        has_messages = hasattr(value[0], "__slots__")
        if has_messages or len(value) > ELEMENTS_PER_PAUSE:
            is_shared = _count_references(message, name) > _UNSHARED_REFERENCES
            if not is_shared:
                _free_list_in_steps(value, has_messages=has_messages)


def _free_list_in_steps(elements: list[object], *, has_messages: bool) -> None:
    while elements:
        if has_messages:
            for message in elements[-ELEMENTS_PER_PAUSE:]:
                free_in_steps(message)
        del elements[-ELEMENTS_PER_PAUSE:]
        pause()
