"""Requests that wait until the clock has made the calls that are due, such as ends of sessions.

After a stall of the event loop, requests are read before overdue calls are made: a member whose
heartbeat waits in its socket is alive. But the answer to a request that asks about members would
describe sessions that ended during the stall. Such a request waits, for one turn of the loop.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkalite.gateway.deferred_request import DeferredRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler
    from kafkalite.ports.waiting import Waiting

Q = TypeVar("Q")
R = TypeVar("R")

MAX_REQUEST_BYTES: Final = 16 * 1024
"""Maximum size of a request that waits, because it is handled without pauses after the wait."""


def after_overdue_calls(
    call: Call,
    request: Q,
    handler: Callable[[Call, Q], R | Waiting[R]],
) -> R | Waiting[R]:
    """Return the answer of `handler`, which is called after the calls that are due now."""
    if call.request_bytes > MAX_REQUEST_BYTES:
        return handler(call, request)
    deferred: DeferredRequest[R] = DeferredRequest(
        lambda _: handler(call.without_pauses(), request)
    )
    timer = call.node.clock.after_due_calls(deferred.resume)
    if timer is None:
        return handler(call, request)
    deferred.wait(timer.cancel)
    return deferred.waiting


def sees_ended_sessions(handler: Callable[[Call, Any], Any]) -> Handler:
    """Return a handler of requests whose answers depend on the sessions of members."""

    @wraps(handler)
    def handle(call: Call, request: Any) -> Any:  # noqa: ANN401 - as every handler
        return after_overdue_calls(call, request, handler)

    return handle
