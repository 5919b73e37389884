"""The step that lets requests for the controller wait at a node that does not reach it.

As in Kafka, a node forwards them to the controller. An isolated node does so when it is connected
again, and answers REQUEST_TIMED_OUT if that takes too long. It gives the same answer at once to a
large request, and while waiting requests use all the memory that they may use.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cluster.node import NodeState
from kafkalite.gateway.deferred_request import DeferredRequest
from kafkalite.protocol.catalogue import AnsweringNode, row
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler
    from kafkalite.ports.waiting import Waiting

_RETRY_TIMEOUT_MS: Final = 60_000
"""The time in which a broker of Kafka tries to forward a request."""

MAX_REQUEST_BYTES: Final = 16 * 1024
"""Maximum size of a request that waits, because it is handled without pauses after the wait."""


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
    deferred: DeferredRequest[Any] = DeferredRequest(
        partial(_forward_later, handler, call.without_pauses(), request)
    )
    if call.request_bytes > MAX_REQUEST_BYTES or not deferred.take_memory(
        call.node.forwarding_budget, call.request_bytes
    ):
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    return _wait_for_controller(call.node, deferred)


def _forward_later(
    handler: Handler,
    call: Call,
    request: Any,  # noqa: ANN401 - as every handler
    deferred: DeferredRequest[Any],
) -> Any:  # noqa: ANN401 - as every handler
    """Handle the request, outside of the connection's turn, if the node is still connected."""
    node = call.node
    if node.state is NodeState.ISOLATED:
        return _wait_for_controller(node, deferred)
    if not node.is_reachable:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION)
    return handler(call, request)


def _wait_for_controller(node: Node, deferred: DeferredRequest[Any]) -> Waiting[Any]:
    # As in Kafka, the request is forwarded even if its client disconnects.
    deferred.wait()
    node.wait_for_connection(_RETRY_TIMEOUT_MS).then(
        lambda refusal: deferred.resume() if refusal is None else deferred.refuse(refusal)
    )
    return deferred.waiting


FORWARDING: Final = ForwardingStep()
"""The step; it has no state."""
