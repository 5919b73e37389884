"""InterBrokerCalls: requests of one node to another, through the routes of the gateway.

A request is passed as an object without being encoded. All installed steps see it like a client's
request. They can recognise it by `Call.sender` or its client id, `broker-` and the sender's id. A
step can delay it by returning a Waiting, or lose it by raising DisconnectError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.gateway.call import Call

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.gateway.gateway import Gateway
    from kafkalite.protocol.api_keys import ApiKey


class InterBrokerCalls:
    """Lets nodes answer each other's requests; a `cluster.node.Deliver`."""

    __slots__ = ("_calls", "_gateway")

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._calls: dict[tuple[int, int], Call] = {}

    def __call__(self, sender: Node, receiver: Node, key: ApiKey, request: Any) -> Any:  # noqa: ANN401 - any API's classes
        """Return the response or a Waiting; raises KafkaError NETWORK_EXCEPTION if it is lost."""
        pair = sender.id, receiver.id
        call = self._calls.get(pair)
        if call is None:
            call = self._calls[pair] = _connect(sender, receiver)
        return self._gateway.handle(call, key, request)


def _connect(sender: Node, receiver: Node) -> Call:
    listener = next(iter(receiver.endpoints), "PLAINTEXT")
    own = sender.endpoints.get(listener)
    call = Call(
        node=receiver,
        listener=listener,
        client_host="/127.0.0.1" if own is None else f"/{own.host}",
        sender=sender,
    )
    call.client_id = f"broker-{sender.id}"
    return call
