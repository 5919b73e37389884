"""A broker of three nodes, each with a replica of topic `t`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kafkalite.ports.clock import AdjustableClock
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def three_nodes() -> AsyncIterator[Broker]:
    running = Broker(
        Settings(
            listen=("127.0.0.1:0",),
            brokers=3,
            topics={"t": 1},
            config={"default.replication.factor": "3"},
        ),
        clock=AdjustableClock(rate=0, now_ms=0),
    )
    await running.start()
    yield running
    await running.stop(grace_s=0)


def leader_of(broker: Broker) -> int:
    assert broker.cluster is not None
    return broker.cluster.metadata.image.topics["t"].partitions[0].leader
