"""InterBrokerCalls: requests of one node to another, through the routes of the gateway.

A request is passed as an object, without encoding. All installed steps are called for it, as for a
client's request. A step can recognise such a request by `Call.sender`, or by the client id, which
is `broker-` and the id of the sender. A step can delay the request by returning a Waiting, or drop
it by raising DisconnectError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.gateway.call import ConnectionContext

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.gateway.gateway import Gateway
    from kafkalite.protocol.api_keys import ApiKey


class InterBrokerCalls:
    """Delivers the requests of nodes to other nodes; implements `cluster.node.Deliver`."""

    __slots__ = ("_contexts", "_gateway")

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._contexts: dict[tuple[int, int], ConnectionContext] = {}

    def __call__(self, sender: Node, receiver: Node, key: ApiKey, request: Any) -> Any:  # noqa: ANN401 - any API's classes
        """Return the response or a Waiting; raises KafkaError NETWORK_EXCEPTION if it is lost."""
        pair = sender.id, receiver.id
        context = self._contexts.get(pair)
        if context is None:
            context = self._contexts[pair] = _new_context(sender, receiver)
        return self._gateway.handle(context, key, request)


def _new_context(sender: Node, receiver: Node) -> ConnectionContext:
    listener = next(iter(receiver.endpoints), "PLAINTEXT")
    sender_endpoint = sender.endpoints.get(listener)
    return ConnectionContext(
        node=receiver,
        listener=listener,
        client_host="/127.0.0.1" if sender_endpoint is None else f"/{sender_endpoint.host}",
        sender=sender,
        client_id=f"broker-{sender.id}",
    )
