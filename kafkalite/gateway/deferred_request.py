"""DeferredRequest: a request that is handled later, outside of the turn of its connection.

All code that handles a request later uses it: delays of faults, requests for the controller that
wait at an isolated node, requests that wait for overdue calls, and transactional writes that wait
for the end of a transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kafkalite.gateway.steps import DisconnectError
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.errors import KafkaError, ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.cluster.waiting_budget import WaitingBudget

T = TypeVar("T")


class DeferredRequest(Generic[T]):
    """A request whose handler is called later, and its answer.

    `handle(self)` returns or raises as a handler does. The three kinds of errors are distinguished
    as for a request that is handled at once: a KafkaError is answered, a ProtocolViolation closes
    the connection, and the gateway reports any other exception. `handle` may also call `wait` again
    and return `waiting`; then it is called once more.

    No worker serves the request then, so its `Call` must have no pauses, and its records must not
    be views of the receive buffer.
    """

    __slots__ = ("_cancel_wait", "_handle", "_pending_answer", "_release", "waiting")

    def __init__(self, handle: Callable[[DeferredRequest[T]], T | Waiting[T]]) -> None:
        self._handle = handle
        self._cancel_wait: Callable[[], None] | None = None
        self._release: Callable[[], None] | None = None
        self._pending_answer: Waiting[T] | None = None
        self.waiting: Waiting[T] = Waiting(on_abandon=self._abandon)
        """The answer, or the exception of the handler."""

    def take_memory(self, budget: WaitingBudget, size_bytes: int) -> bool:
        """Reserve memory until the request has been handled; return False if there is none."""
        if not budget.take(size_bytes):
            return False
        self._release = lambda: budget.release(size_bytes)
        return True

    def wait(self, cancel: Callable[[], None] | None = None) -> None:
        """Begin to wait until `resume` or `refuse` is called.

        `cancel` is called when the connection closes during the wait, and drops the request.
        Without it the request is handled nevertheless.
        """
        self._cancel_wait = cancel

    def resume(self) -> None:
        """Handle the request now; only called while no other handler is running."""
        self._cancel_wait = None
        answer: T | Waiting[T] | Exception
        try:
            answer = self._handle(self)
        except KafkaError as refusal:
            answer = refusal.without_traceback()
        except ProtocolViolation as violation:
            answer = DisconnectError(violation.reason)
        except Exception as error:  # noqa: BLE001 - the gateway reports it like that of any handler
            answer = error
        if answer is not self.waiting:
            self._end(answer)

    def refuse(self, error: Exception) -> None:
        """End the wait with an error; the request is not handled."""
        self._cancel_wait = None
        self._end(error)

    def _end(self, answer: T | Waiting[T] | Exception) -> None:
        self._release_memory()
        if isinstance(answer, Waiting):
            self._pending_answer = answer
            answer.then(self.waiting.resolve)
        else:
            self.waiting.resolve(cast("Any", answer))

    def _release_memory(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def _abandon(self) -> None:
        """Drop the request, because its connection is closed."""
        cancel, self._cancel_wait = self._cancel_wait, None
        if cancel is not None:
            cancel()
            self._release_memory()
        elif self._pending_answer is not None:
            self._pending_answer.abandon()
