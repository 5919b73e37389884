"""Requests for the controller are sent to the broker that the metadata names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.client.brokers import ask_controller
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataResponse
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from kafkalite.client.client import KafkaClient

BROKER = MetadataResponse.MetadataResponseBroker


class Cluster:
    """A client of two brokers, which returns the address that it asked."""

    def __init__(self, controller: int) -> None:
        self.controller = controller

    async def metadata(self) -> MetadataResponse:
        brokers = [BROKER(node_id=node, host="h", port=node) for node in (1, 2)]
        return MetadataResponse(controller_id=self.controller, brokers=brokers)

    async def ask(self, address: Address, *_: Any) -> object:  # noqa: ANN401
        return address

    async def ask_any(self, *_: Any) -> object:  # noqa: ANN401
        return "any"


@pytest.mark.parametrize(("controller", "asked"), [(2, Address("h", 2)), (-1, "any")])
async def test_controller_is_asked(controller: int, asked: object) -> None:
    client = cast("KafkaClient", Cluster(controller))
    assert await ask_controller(client, CreateTopicsRequest(), Versions(2, 7)) == asked
