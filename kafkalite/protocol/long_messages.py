"""Codecs for long messages, which parse, build and free them in steps and pause in between.

A pausing codec is the generated codec, compiled again with a pausing generator around the iterable
of each loop. So both do the same. It is compiled when the first long message of
its kind arrives. A bounded parser is made in the same way and refuses long lists.
"""

from __future__ import annotations

import inspect
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
_LOOP_OF = {True: r"\1each_joined(\2, out):", False: r"\1each(\2):"}
_BUILDERS = ("def build_response(", "def build_request_v")
_PIECES = 16_384
"""Number of pieces that are joined at a time while a message is built."""
_ONLY_HERE = 3
"""Reference count of a list that only its message refers to: slot, local variable and call."""


class JoinedPieces(list[bytes | memoryview]):
    """Pieces of a message that is being built; `join` joins those added since the last call."""

    __slots__ = ("_joined",)

    def __init__(self) -> None:
        super().__init__()
        self._joined = 0

    def join(self, least: int = 1) -> None:
        """Replace the pieces added since the last call by one, if there are at least `least`."""
        if len(self) - self._joined >= least:
            self[self._joined :] = [b"".join(self[self._joined :])]
            self._joined += 1


def pausing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a variant of a generated codec's function that pauses in its loops.

    A builder must be called with `JoinedPieces`. A function of a module without source code is
    returned unchanged.
    """
    return _twin(function, "pausing", iterate_with_pauses)


def bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a variant of a generated parser for short lists.

    It raises NeedsWorkerError for a list with more than ELEMENTS_PER_PAUSE elements.
    """
    return _twin(function, "bounded", _each_bounded)


def _twin(
    function: Callable[..., Any], name: str, each: Callable[[Iterable[T]], Iterator[T]]
) -> Callable[..., Any]:
    module = sys.modules.get(function.__module__)
    is_codec = module is not None and module.__name__.startswith(_CODECS)
    twin = _twin_module(module, name, each) if module is not None and is_codec else None
    return function if twin is None else getattr(twin, function.__name__, function)


@cache
def _twin_module(
    module: ModuleType, name: str, each: Callable[[Iterable[T]], Iterator[T]]
) -> ModuleType | None:
    try:
        source = inspect.getsource(module)
    except (OSError, TypeError):
        return None
    functions = _FUNCTION.split(source)
    looped = [_LOOP.sub(_LOOP_OF[text.startswith(_BUILDERS)], text) for text in functions]
    twin = ModuleType(f"{module.__name__}.{name}")
    twin.__dict__.update(each=each, each_joined=_each_joined)
    exec(compile("".join(looped), twin.__name__, "exec"), twin.__dict__)  # noqa: S102 - own code
    return twin


def _each_bounded(elements: Iterable[T]) -> Iterator[T]:
    for count, element in enumerate(elements):
        if count == ELEMENTS_PER_PAUSE:
            raise NeedsWorkerError
        yield element


def _each_joined(elements: Iterable[T], out: JoinedPieces) -> Iterator[T]:
    """Yield the elements; join the built pieces and pause every ELEMENTS_PER_PAUSE of them."""
    left = ELEMENTS_PER_PAUSE
    for element in elements:
        yield element
        left -= 1
        if not left:
            left = ELEMENTS_PER_PAUSE
            out.join(_PIECES)
            pause()


def dissolve(message: object) -> None:
    """Empty the lists of messages in a message that is not needed any more; pause in between.

    Python frees a list of a million messages at once, which takes up to a second. A list with other
    references is left unchanged.
    """
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name, None)
        if value.__class__ is list and value and hasattr(value[0], "__slots__"):
            is_shared = sys.getrefcount(value) > _ONLY_HERE
            if not is_shared:
                _dissolve_list(value)


def _dissolve_list(messages: list[object]) -> None:
    while messages:
        for message in messages[-ELEMENTS_PER_PAUSE:]:
            dissolve(message)
        del messages[-ELEMENTS_PER_PAUSE:]
        pause()
