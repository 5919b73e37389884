"""Requests to the controller of a cluster, and to each of its brokers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from kafkalite.client.client import KafkaClient
    from kafkalite.protocol.message import Message
    from kafkalite.protocol.versions import Versions


async def ask_controller(client: KafkaClient, request: Message, versions: Versions) -> Any:  # noqa: ANN401 - any response class
    """Return the response of the broker that the metadata names as the controller.

    A cluster with ZooKeeper refuses such a request elsewhere. With KRaft, each broker forwards it.
    """
    metadata = await client.metadata()
    for broker in metadata.brokers:
        if broker.node_id == metadata.controller_id:
            return await client.ask(Address(broker.host, broker.port), request, versions)
    return await client.ask_any(request, versions)


async def ask_each_broker(
    client: KafkaClient, request: Message, versions: Versions
) -> dict[int, Any]:
    """Return the response of each broker by its id; raises UnreachableError without one of them."""
    brokers = (await client.metadata()).brokers
    responses = await asyncio.gather(
        *(client.ask(Address(each.host, each.port), request, versions) for each in brokers)
    )
    return {each.node_id: response for each, response in zip(brokers, responses, strict=True)}
