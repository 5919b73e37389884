"""A broker whose event loop did not run for longer than the sessions of members."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.unit.server.client import Client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

SESSION_MS = 1_000
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}


@pytest.fixture
def stall(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after which one and a half sessions have passed."""
    now_ns = 1_700_000_000_000_000_000

    def stall() -> None:
        nonlocal now_ns
        now_ns += SESSION_MS * 1_500_000

    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    return stall


@pytest.fixture
async def connect(stall: Callable[[], None]) -> AsyncIterator[Callable[[], Awaitable[Client]]]:
    """Return a function that connects a client to a broker."""
    del stall  # the broker's clock begins with the patched time
    clients = []

    async def connect() -> Client:
        clients.append(client := await Client.to(broker.bootstrap_servers))
        return client

    broker = Broker(Settings(listen=("127.0.0.1:0",), config=CONFIG))
    await broker.start()
    # Creates the topic of the coordinators.
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    found = await (await connect()).ask(request, 4)
    assert not found.coordinators[0].error_code
    yield connect
    for client in clients:
        await client.close()
    await broker.stop(grace_s=0.1)


async def join(client: Client, group_id: str) -> HeartbeatRequest:
    """Let a classic member join; return its heartbeat."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    joined = await client.ask(
        JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        ),
        3,
    )
    assert not joined.error_code
    facts = {
        "group_id": group_id,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    await client.ask(SyncGroupRequest(**facts, assignments=[]), 3)
    return HeartbeatRequest(**facts)


async def test_requests_after_a_stall_see_which_members_are_alive(
    connect: Callable[[], Awaitable[Client]], stall: Callable[[], None]
) -> None:
    """A member whose heartbeat waits in its socket is alive; the session of a silent one ended."""
    member, silent, admin, other_admin = [await connect() for _ in range(4)]
    heartbeat = await join(member, "live")
    await join(silent, "silent")
    deletion = DeleteGroupsRequest(groups_names=["silent", "live"])
    description = DescribeGroupsRequest(groups=["silent", "live"])
    stall()
    admin.send(deletion, 2)
    other_admin.send(description, 5)
    member.send(heartbeat, 4)
    described = await other_admin.receive(description, 5)
    deleted = await admin.receive(deletion, 2)
    assert not (await member.receive(heartbeat, 4)).error_code
    codes = {result.group_id: result.error_code for result in deleted.results}
    assert codes == {"silent": ErrorCode.NONE, "live": ErrorCode.NON_EMPTY_GROUP}
    states = {group.group_id: group.group_state for group in described.groups}
    assert states["silent"] != "Stable"
    assert states["live"] == "Stable"
    listed = await admin.ask(ListGroupsRequest(states_filter=[]), 4)
    assert [group.group_id for group in listed.groups] == ["live"]


async def test_an_instance_id_is_free_after_a_stall(
    connect: Callable[[], Awaitable[Client]], stall: Callable[[], None]
) -> None:
    client = await connect()
    joins = [
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=f"{name:022}",
            instance_id="i",
            member_epoch=0,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        for name in "ab"
    ]
    assert not (await client.ask(joins[0], 0)).error_code
    refused = await client.ask(joins[1], 0)
    assert refused.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    stall()
    assert not (await client.ask(joins[1], 0)).error_code
