"""The step that lets requests for the controller wait at a node that does not reach it.

As in Kafka, a node forwards them to the controller. An isolated node does so when it is connected
again, and answers REQUEST_TIMED_OUT if that takes too long. It gives the same answer at once to a
large request, and while waiting requests use all the memory that they may use.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cluster.node import NodeState
from kafkalite.gateway.steps import DisconnectError
from kafkalite.ports.waiting import chain
from kafkalite.protocol.catalogue import AnsweringNode, row
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation

if TYPE_CHECKING:
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler
    from kafkalite.ports.waiting import Waiting

_RETRY_TIMEOUT_MS: Final = 60_000
"""The time in which a broker of Kafka tries to forward a request."""

MAX_REQUEST_BYTES: Final = 16 * 1024
"""Maximum size of a request that waits, because it is handled without pauses after the wait."""

MAX_WAITING_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of the waiting requests of one node; their objects take many times their size."""


class ForwardingStep:
    """Forwards requests for the controller; see `gateway.steps.Step`."""

    __slots__ = ()

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:  # noqa: ARG002 - see Step
        """Return a handler that waits while the node is isolated, and then calls `handler`."""
        is_forwarded = row(api.key).node is AnsweringNode.CONTROLLER
        return partial(_forward, handler) if is_forwarded else handler


def _forward(handler: Handler, call: Call, request: Any) -> Any:  # noqa: ANN401 - as every handler
    """Call the handler, or wait for the controller first."""
    if call.node.state is not NodeState.ISOLATED:
        return handler(call, request)
    return _wait(handler, call, request, call.request_bytes)


def _wait(
    handler: Handler,
    call: Call,
    request: Any,  # noqa: ANN401 - as every handler
    size_bytes: int,
) -> Waiting[Any]:
    node = call.node
    waiting_bytes = node.waiting_request_bytes + size_bytes
    if size_bytes > MAX_REQUEST_BYTES or waiting_bytes > MAX_WAITING_BYTES:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    node.waiting_request_bytes = waiting_bytes

    def release(_: object) -> None:
        node.waiting_request_bytes -= size_bytes

    def handle(_: object) -> Any:  # noqa: ANN401 - as every handler
        """Handle the request, outside of the connection's turn, if the node is still connected."""
        if node.state is NodeState.ISOLATED:
            return _wait(handler, call, request, size_bytes)
        if not node.is_reachable:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
        try:
            return handler(call, request)
        except ProtocolViolation as violation:
            raise DisconnectError(violation.reason) from violation

    connected: Waiting[Any] = node.wait_for_connection(_RETRY_TIMEOUT_MS)
    connected.then(release)
    answer: Waiting[Any] = chain(connected, handle)
    return answer


FORWARDING: Final = ForwardingStep()
"""The step; it has no state."""
