"""Waiting: the answer that is not there yet.

Chosen instead of asyncio futures, because everything below the server must run without an event
loop: a `Waiting` resolves synchronously, so a test sees the whole consequence of a decision when
the call that caused it returns.

What arrives may also be a refusal: an exception that stands where the value would. Whoever asked at
the end of a chain tells it; nobody on the way there takes it for a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
U = TypeVar("U")

_UNSET = object()


class Waiting(Generic[T]):
    """A value that arrives once, and the callbacks to run when it does."""

    __slots__ = ("_abandoned", "_callbacks", "_on_abandon", "_value")

    def __init__(self, on_abandon: Callable[[], None] | None = None) -> None:
        self._value: object = _UNSET
        self._callbacks: list[Callable[[T], None]] = []
        self._on_abandon = on_abandon
        self._abandoned = False

    @property
    def is_resolved(self) -> bool:
        """Whether the value has arrived."""
        return self._value is not _UNSET

    @property
    def is_abandoned(self) -> bool:
        """Whether the asker has gone away."""
        return self._abandoned

    @property
    def value(self) -> T:
        """The value or refusal; LookupError while it has not arrived."""
        if self._value is _UNSET:
            raise LookupError("the answer has not arrived")
        return cast("T", self._value)

    def resolve(self, value: T) -> None:
        """Deliver the value and run the callbacks; a second delivery is a bug and raises."""
        if self._value is not _UNSET:
            raise RuntimeError("answered twice")
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)

    def refuse(self, refusal: Exception) -> None:
        """Deliver `refusal` instead of a value, to the same callbacks."""
        self.resolve(cast("T", refusal))

    def then(self, callback: Callable[[T], None]) -> None:
        """Run `callback` with the value or refusal: now if it is there, else when it arrives."""
        if self._value is _UNSET:
            self._callbacks.append(callback)
        else:
            callback(self.value)

    def map(self, transform: Callable[[T], U]) -> Waiting[U]:
        """Return what waits for this value and then for `transform` of it; a refusal stays one."""
        mapped: Waiting[U] = Waiting(on_abandon=self.abandon)

        def pass_on(value: T) -> None:
            if isinstance(value, Exception):
                mapped.refuse(value)
            else:
                mapped.resolve(transform(value))

        self.then(pass_on)
        return mapped

    def abandon(self) -> None:
        """Say that nobody will read the answer; whoever holds resources for it lets them go."""
        if self._value is not _UNSET or self._abandoned:
            return
        self._abandoned = True
        if self._on_abandon is not None:
            self._on_abandon()


def when(answer: T | Waiting[T], transform: Callable[[T], U]) -> U | Waiting[U]:
    """Apply `transform` to an answer that may or may not be there yet."""
    if isinstance(answer, Waiting):
        return answer.map(transform)
    return transform(answer)
