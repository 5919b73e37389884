"""Exchanges of requests, as a gateway gives them to observers."""

# ruff: noqa: ANN401 - requests and responses of any API
from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from kafkalite.gateway.call import Call, ConnectionContext
from kafkalite.gateway.exchanges import Exchange
from kafkalite.metadata.image import MetadataImage
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node


def pending_exchange(
    request: Any, version: int, *, client_id: str | None = "me", request_bytes: int = 100
) -> Exchange:
    """Return the exchange of a request whose answer is pending."""
    node = cast("Node", SimpleNamespace(id=1, image=MetadataImage(), clock=ManualClock()))
    context = ConnectionContext(
        node=node, listener="PLAINTEXT", client_host="/127.0.0.1", client_id=client_id
    )
    call = Call(context, api_version=version, request_bytes=request_bytes)
    exchange = Exchange(call, (), report_no_error, node.clock.now_ms())
    return exchange.identify(type(request).API_KEY, version, 7, request)


def ended_exchange(
    request: Any, version: int, response: Any = None, *, answer_bytes: int = 50, **given: Any
) -> Exchange:
    """Return the exchange of a request that has ended."""
    exchange = pending_exchange(request, version, **given)
    exchange.end(response, answer_bytes)
    return exchange


def report_no_error(key: int, error: Exception) -> None:
    """Raise AssertionError, because no observer may fail."""
    raise AssertionError(f"an observer of API {key} failed") from error
