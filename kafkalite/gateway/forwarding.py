"""The step that lets requests for the controller wait at a node that does not reach it.

As in Kafka, a node forwards them to the controller. An isolated node does so when it is connected
again, and answers REQUEST_TIMED_OUT if that takes too long.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalite.cluster.node import NodeState
from kafkalite.gateway.faults import copy_views
from kafkalite.gateway.steps import DisconnectError
from kafkalite.ports.waiting import chain
from kafkalite.protocol.catalogue import AnsweringNode, row
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.steps import Handler
    from kafkalite.ports.waiting import Waiting

_RETRY_TIMEOUT_MS: Final = 60_000
"""The time in which a broker of Kafka tries to forward a request."""


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
    # The request may refer to the shared receive buffer.
    copy_views(request)
    connected: Waiting[Any] = call.node.wait_for_connection(_RETRY_TIMEOUT_MS)
    return chain(connected, lambda _: _handle_later(handler, call, request))


def _handle_later(handler: Handler, call: Call, request: Any) -> Any:  # noqa: ANN401 - as every handler
    """Call the handler, outside of the connection's turn."""
    try:
        return handler(call, request)
    except ProtocolViolation as violation:
        raise DisconnectError(violation.reason) from violation


FORWARDING: Final = ForwardingStep()
"""The step of all gateways; it has no state."""
