"""Exchanges of requests, as a gateway gives them to observers."""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kafkalite.gateway.call import ConnectionContext
from kafkalite.gateway.exchanges import Observers
from kafkalite.metadata.image import MetadataImage
from kafkalite.testing.clock import ManualClock
from tests.unit.frames import request_content, response_frame

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.gateway.exchanges import Exchange, Observer

CLIENT_ID = "me"


def new_exchange(
    context: ConnectionContext, request: Any, version: int, *observers: Observer
) -> Exchange:
    """Return the exchange of a request on a connection; its answer is pending."""
    client_id = None if context.client_id is None else context.client_id.encode()
    content = request_content(request, version, correlation_id=7, client_id=client_id)
    return Observers(observers, report_no_error).begin(
        context, bytearray(content), 0, len(content), request
    )


def pending_exchange(request: Any, version: int, *observers: Observer) -> Exchange:
    """Return the exchange of a request whose answer is pending."""
    node = cast("Node", SimpleNamespace(id=1, image=MetadataImage(), clock=ManualClock()))
    context = ConnectionContext(
        node=node, listener="PLAINTEXT", client_host="/127.0.0.1", client_id=CLIENT_ID
    )
    return new_exchange(context, request, version, *observers)


def end(exchange: Exchange, response: Any = None) -> Exchange:
    """End an exchange with a response, or without one, and return it."""
    if response is None:
        exchange.end([], 0)
    else:
        frame = response_frame(response, exchange.version, correlation_id=exchange.correlation_id)
        exchange.end([frame], len(frame), response)
    return exchange


def ended_exchange(request: Any, version: int, response: Any = None) -> Exchange:
    """Return the exchange of a request that has ended."""
    return end(pending_exchange(request, version), response)


def report_no_error(key: int, error: Exception) -> None:
    """Raise AssertionError, because no observer may fail."""
    raise AssertionError(f"an observer of API {key} failed") from error
