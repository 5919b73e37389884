"""Codecs for long messages: they parse, build and free messages in steps, with pauses in between.

A pausing variant is the source of a generated codec, compiled with a pausing generator around the
iterable of each loop. So both do the same. It is compiled when the first long message of its kind
arrives. A bounded variant is made in the same way; it refuses long lists.
"""

from __future__ import annotations

import linecache
import re
import sys
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from kafkalite.ports.turns import ELEMENTS_PER_PAUSE, NeedsWorkerError, iterate_with_pauses, pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")

_CODECS = "kafkalite.protocol._generated.codecs."
_FUNCTION = re.compile(r"^(?=def )", re.MULTILINE)
_LOOP = re.compile(r"^( +for [\w, ]+ in )(.+):$", re.MULTILINE)
_LOOP_REPLACEMENTS = {True: r"\1each_joined(\2, out):", False: r"\1each(\2):"}
_BUILDERS = ("def build_response(", "def build_request_v")
_PIECES_PER_JOIN = 16_384
"""Number of pieces that are joined at a time while a message is built."""


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
    return _variant(function, "pausing", iterate_with_pauses)


def bounded_variant(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a variant of a generated parser for short lists.

    It raises NeedsWorkerError for a list with more than ELEMENTS_PER_PAUSE elements.
    """
    return _variant(function, "bounded", _each_bounded)


def _variant(
    function: Callable[..., Any], name: str, each: Callable[[Iterable[T]], Iterator[T]]
) -> Callable[..., Any]:
    module = sys.modules.get(function.__module__)
    is_codec = module is not None and module.__name__.startswith(_CODECS)
    variant = _variant_module(module, name, each) if module is not None and is_codec else None
    return function if variant is None else getattr(variant, function.__name__, function)


@cache
def _variant_module(
    module: ModuleType, name: str, each: Callable[[Iterable[T]], Iterator[T]]
) -> ModuleType | None:
    source = _source_of(module)
    if source is None:
        return None
    functions = _FUNCTION.split(source)
    replaced = [
        _LOOP.sub(_LOOP_REPLACEMENTS[text.startswith(_BUILDERS)], text) for text in functions
    ]
    variant = ModuleType(f"{module.__name__}.{name}")
    variant.__dict__.update(each=each, each_joined=_each_joined)
    exec(compile("".join(replaced), variant.__name__, "exec"), variant.__dict__)  # noqa: S102 - own code
    return variant


def _source_of(module: ModuleType) -> str | None:
    """Return the source code of a module; None if it has none."""
    path = module.__file__
    if path is None:
        return None
    source = "".join(linecache.getlines(path, module.__dict__))
    linecache.cache.pop(path, None)  # otherwise the lines would remain in memory
    return source or None


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
