"""Codecs for long messages: they parse, build and free messages in steps, with pauses in between.

A pausing variant is the source of a generated codec, compiled with a pausing generator around the
iterable of each loop. So both do the same. It is compiled when the first long message of its kind
arrives. A bounded variant is made in the same way; it refuses long lists.

Kafka reads at most MAX_LIST_ELEMENTS elements of a list. A request of `socket.request.max.bytes`
has room for many such lists, whose objects would take gigabytes. So the sum of all elements of a
message has the same limit.
"""

from __future__ import annotations

import linecache
import re
import sys
from functools import cache, partial
from struct import calcsize
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.ports.turns import (
    ELEMENTS_PER_PAUSE,
    NeedsWorkerError,
    count_elements,
    iterate_with_pauses,
    limit_elements,
    pause,
)
from kafkalite.protocol import codec_helpers
from kafkalite.protocol.codec_helpers import MAX_LIST_ELEMENTS
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from kafkalite.protocol.message import Message

T = TypeVar("T")

_CODECS = "kafkalite.protocol._generated.codecs."
_FUNCTION = re.compile(r"^(?=def )", re.MULTILINE)
_LOOP = re.compile(r"^( +for [\w, ]+ in )(.+):$", re.MULTILINE)
_LENGTH_CHECK = re.compile(r"^( +)(?=if (n)(?: \* \d+)? > (?:end|stop) - pos:$)", re.MULTILINE)
_LENGTH_CHECK_REPLACEMENT = r"\1count_list(\2)\n\1"
_BYTES = re.compile(r"\bbytes\(buf\[pos:(\w+)\]\)")
_BYTES_REPLACEMENT = r"bytes(memoryview(buf)[pos:\1])"
"""A slice of the buffer would be copied twice."""
_LOOP_REPLACEMENTS = (
    (("def build_response(", "def build_request_v"), r"\1each_joined(\2, out):"),
    (("def tags_",), r"\1each_tag(\2):"),
    (("",), r"\1each(\2):"),
)
"""(beginnings of functions, the replacement of their loops)."""
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


def pausing_variant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a variant of a generated codec's function that pauses in its loops.

    A builder must be called with `JoinedPieces`. A function of a module without source code is
    returned unchanged.
    """
    return _variant(function, "pausing")


def long_message_parser(
    function: Callable[..., Any], max_elements: int = MAX_LIST_ELEMENTS
) -> Callable[..., Any]:
    """Return a variant of a generated parser that pauses and refuses more than `max_elements`.

    It raises ProtocolViolation before it creates the elements.
    """
    parse = pausing_variant(function)

    def parse_with_limit(buf: bytes | bytearray, pos: int, end: int) -> tuple[Any, int]:
        limit_elements(max_elements)
        message: tuple[Any, int] = parse(buf, pos, end)
        return message

    return parse_with_limit


def bounded_variant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a variant of a generated parser for short lists.

    It raises NeedsWorkerError for a list with more than ELEMENTS_PER_PAUSE elements.
    """
    return _variant(function, "bounded")


def _variant(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    module = sys.modules.get(function.__module__)
    is_codec = module is not None and module.__name__.startswith(_CODECS)
    variant = _variant_module(module, name) if module is not None and is_codec else None
    return function if variant is None else getattr(variant, function.__name__, function)


@cache
def _variant_module(module: ModuleType, name: str) -> ModuleType | None:
    source = _source_of(module)
    if source is None:
        return None
    replaced = []
    for text in _FUNCTION.split(source):
        counted = _LENGTH_CHECK.sub(_LENGTH_CHECK_REPLACEMENT, text)
        copied = _BYTES.sub(_BYTES_REPLACEMENT, counted)
        replaced.append(_LOOP.sub(_loop_replacement(text), copied))
    variant = ModuleType(f"{module.__name__}.{name}")
    exec(compile("".join(replaced), variant.__name__, "exec"), variant.__dict__)  # noqa: S102 - own code
    variant.__dict__.update(_FUNCTIONS[name])  # some replace helpers that the source imports
    return variant


def _loop_replacement(text: str) -> str:
    return next(each for starts, each in _LOOP_REPLACEMENTS if text.startswith(starts))


def _source_of(module: ModuleType) -> str | None:
    """Return the source code of a module; None if it has none."""
    path = module.__file__
    if path is None:
        return None
    source = "".join(linecache.getlines(path, module.__dict__))
    linecache.cache.pop(path, None)  # otherwise the lines would remain in memory
    return source or None


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


def _each_tag(tags: range) -> Iterator[int]:
    _count_elements(len(tags))
    return iterate_with_pauses(tags)


def _count_short_list(count: int) -> None:
    if count > ELEMENTS_PER_PAUSE:
        raise NeedsWorkerError


def _read_tags_with_pauses(
    buf: bytes | bytearray, pos: int, end: int, count: int, message: Message
) -> int:
    """Do the same as `read_unknown_tags`, count the tagged fields, and pause."""
    pos = codec_helpers.read_unknown_tags(buf, pos, end, count, message)
    if message.unknown_tags is not None:
        _count_elements(len(message.unknown_tags))
    pause()
    return pos


def _read_numbers_with_pauses(code: str, buf: bytes | bytearray, pos: int, count: int) -> list[int]:
    """Do the same as `read_numbers`, and pause."""
    if count <= _NUMBERS_PER_PAUSE:
        return codec_helpers.read_numbers(code, buf, pos, count)
    return _read_fixed_with_pauses(
        partial(codec_helpers.read_numbers, code), calcsize(f">{code}"), buf, pos, count
    )


def _read_uuids_with_pauses(buf: bytes | bytearray, pos: int, count: int) -> list[bytes]:
    """Do the same as `read_uuids`, and pause."""
    return _read_fixed_with_pauses(codec_helpers.read_uuids, _UUID_BYTES, buf, pos, count)


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


def _each_bounded(elements: Iterable[T]) -> Iterator[T]:
    for count, element in enumerate(elements):
        if count == ELEMENTS_PER_PAUSE:
            raise NeedsWorkerError
        yield element


def _each_joined(elements: Iterable[T], out: JoinedPieces) -> Iterator[T]:
    """Yield the elements; join the built pieces and pause every ELEMENTS_PER_PAUSE of them."""
    remaining = ELEMENTS_PER_PAUSE
    for element in elements:
        yield element
        remaining -= 1
        if not remaining:
            remaining = ELEMENTS_PER_PAUSE
            out.join(_PIECES_PER_JOIN)
            pause()


_FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "pausing": {
        "each": iterate_with_pauses,
        "each_joined": _each_joined,
        "each_tag": _each_tag,
        "count_list": _count_list,
        "read_unknown_tags": _read_tags_with_pauses,
        "read_numbers": _read_numbers_with_pauses,
        "read_uuids": _read_uuids_with_pauses,
    },
    "bounded": {
        "each": _each_bounded,
        "each_joined": _each_joined,
        "each_tag": _each_bounded,
        "count_list": _count_short_list,
    },
}
"""Functions that the source of each variant calls."""


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
        if value.__class__ is not list or not value:
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
