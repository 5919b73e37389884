"""Waiting: a value that arrives later.

It is used instead of asyncio futures because everything below the server must run without an event
loop. A `Waiting` resolves synchronously, so a test sees every consequence of a decision when the
call that caused it returns.

A refusal, which is an exception, can arrive in place of the value. The caller at the end of a chain
reports it; functions in between return it unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        """Whether the caller does not need the value any more."""
        return self._abandoned

    @property
    def value(self) -> T:
        """The value or refusal; LookupError while it has not arrived."""
        if self._value is _UNSET:
            raise LookupError("the value has not arrived")
        return cast("T", self._value)

    def resolve(self, value: T) -> None:
        """Deliver the value and run the callbacks; raises RuntimeError for a second delivery."""
        if self._value is not _UNSET:
            raise RuntimeError("the value was delivered twice")
        self._value = value
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(value)

    def refuse(self, refusal: Exception) -> None:
        """Deliver `refusal` instead of a value, to the same callbacks."""
        self.resolve(cast("T", refusal))

    def then(self, callback: Callable[[T], None]) -> None:
        """Call `callback` with the value or refusal, now or when it arrives."""
        if self._value is _UNSET:
            self._callbacks.append(callback)
        else:
            callback(self.value)

    def map(self, transform: Callable[[T], U]) -> Waiting[U]:
        """Return a Waiting for `transform` of this value; a refusal is delivered unchanged."""
        mapped: Waiting[U] = Waiting(on_abandon=self.abandon)

        def on_arrival(value: T) -> None:
            if isinstance(value, Exception):
                mapped.refuse(value)
            else:
                mapped.resolve(transform(value))

        self.then(on_arrival)
        return mapped

    def abandon(self) -> None:
        """Declare that the value is not needed; `on_abandon` can release its resources."""
        if self._value is not _UNSET or self._abandoned:
            return
        self._abandoned = True
        if self._on_abandon is not None:
            self._on_abandon()


def when(answer: T | Waiting[T], transform: Callable[[T], U]) -> U | Waiting[U]:
    """Apply `transform` to an answer that may not have arrived yet."""
    if isinstance(answer, Waiting):
        return answer.map(transform)
    return transform(answer)


def chain(
    answer: T | Waiting[T],
    transform: Callable[[T], U | Waiting[U]],
    recover: Callable[[Exception], U | Waiting[U]] | None = None,
) -> U | Waiting[U]:
    """Apply `transform`, whose result may be a Waiting too, to an answer.

    `recover` is applied to a refusal that a Waiting delivers. An exception of either becomes the
    refusal of the result; if nothing is waited for, it is raised here.
    """
    if not isinstance(answer, Waiting):
        return transform(answer)
    awaited: Waiting[Any] = answer

    def abandon() -> None:
        awaited.abandon()

    chained: Waiting[U] = Waiting(on_abandon=abandon)

    def on_arrival(value: T) -> None:
        nonlocal awaited
        if isinstance(value, Exception) and recover is None:
            chained.refuse(value)
            return
        try:
            if not isinstance(value, Exception):
                result = transform(value)
            elif recover is not None:
                result = recover(value)
        except Exception as refusal:  # noqa: BLE001 - delivered as a refusal, see the module docstring
            chained.refuse(refusal.with_traceback(None))
            return
        if isinstance(result, Waiting):
            awaited = result
            result.then(chained.resolve)
        else:
            chained.resolve(result)

    answer.then(on_arrival)
    return chained


def gather(
    answers: Sequence[T | Waiting[T] | Exception],
) -> Sequence[T | Exception] | Waiting[Sequence[T | Exception]]:
    """Return all answers once all have arrived; a refusal takes the place of its answer."""
    awaited = [answer for answer in answers if isinstance(answer, Waiting)]
    if not awaited:
        return cast("Sequence[T | Exception]", answers)

    def abandon() -> None:
        for answer in awaited:
            answer.abandon()

    remaining = len(awaited)

    def on_arrival(_: T) -> None:
        nonlocal remaining
        remaining -= 1
        if not remaining:
            result.resolve(
                [answer.value if isinstance(answer, Waiting) else answer for answer in answers]
            )

    result: Waiting[Sequence[T | Exception]] = Waiting(on_abandon=abandon)
    for answer in awaited:
        answer.then(on_arrival)
    return result
