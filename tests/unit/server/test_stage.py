"""Somebody else answers in the broker's place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkalite.protocol.messages.metadata import MetadataRequest
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.unit.server.client import METADATA_VERSION, Client

if TYPE_CHECKING:
    from kafkalite.apis.context import RequestContext, Services
    from kafkalite.server.stage import Dispatch
    from kafkalite.wire.session import Owed, Pieces


class Counting:
    """Passes on what comes, and counts it."""

    def __init__(self) -> None:
        self.served = 0
        self.has_left = False

    def enter(self, services: Services, dispatch: Dispatch) -> Dispatch:
        assert services.cluster_id

        def serve(
            context: RequestContext, buffer: bytearray, start: int, end: int, out: Pieces
        ) -> int | Owed:
            self.served += 1
            return dispatch(context, buffer, start, end, out)

        return serve

    def leave(self) -> None:
        self.has_left = True


async def test_a_stage_serves_until_the_broker_stops() -> None:
    stage = Counting()
    broker = Broker(Settings(listen=("127.0.0.1:0",)), stage=stage)
    await broker.start()
    client = await Client.to(broker.bootstrap_servers)
    for _ in range(3):
        await client.ask(MetadataRequest(topics=None), METADATA_VERSION)
    assert (stage.served, stage.has_left) == (3, False)

    await client.close()
    await broker.stop()
    await asyncio.sleep(0)

    assert stage.has_left
