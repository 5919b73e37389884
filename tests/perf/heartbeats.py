"""Heartbeats of one real group member, encoded in advance and pipelined in one connection."""

from __future__ import annotations

import time
from typing import NamedTuple

from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from tests.conformance.raw import RawClient
from tests.perf.pipeline import Rate, frame, pump

_CHUNK = 500
_TIMEOUT_MS = 300_000
_TIMEOUT_S = 30.0


class Membership(NamedTuple):
    """A member of a group: its ID, and its generation or epoch."""

    member_id: str
    epoch: int


def join(port: int, group_id: str) -> Membership:
    """Join a classic group as its only member."""
    client = RawClient(port)
    _find_coordinator(client, group_id)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=_TIMEOUT_MS,
        rebalance_timeout_ms=_TIMEOUT_MS,
        protocol_type="consumer",
        protocols=[protocol],
    )
    while (joined := client.call(request, 9)).error_code:
        request.member_id = joined.member_id
        time.sleep(0.05)
    assignment = SyncGroupRequest.SyncGroupRequestAssignment(
        member_id=joined.member_id, assignment=b""
    )
    synced = client.call(
        SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment],
        ),
        5,
    )
    assert not synced.error_code, synced
    client.close()
    return Membership(joined.member_id, joined.generation_id)


def join_consumer_group(port: int, group_id: str, topic: str) -> Membership:
    """Join a consumer group as its only member, and wait for the assignment."""
    client = RawClient(port)
    _find_coordinator(client, group_id)
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="p" * 22,
        member_epoch=0,
        rebalance_timeout_ms=_TIMEOUT_MS,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    deadline = time.monotonic() + _TIMEOUT_S
    while (joined := client.call(request, 1)).error_code or not joined.assignment.topic_partitions:
        assert time.monotonic() < deadline, joined
        time.sleep(0.05)
    owned = [
        ConsumerGroupHeartbeatRequest.TopicPartitions(
            topic_id=assigned.topic_id, partitions=assigned.partitions
        )
        for assigned in joined.assignment.topic_partitions
    ]
    confirmed = client.call(
        ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=joined.member_id,
            member_epoch=joined.member_epoch,
            topic_partitions=owned,
        ),
        1,
    )
    assert not confirmed.error_code, confirmed
    client.close()
    return Membership(joined.member_id, confirmed.member_epoch)


def rate(port: int, pid: int, seconds: float) -> Rate:
    """Pipeline heartbeats of the classic protocol for a while."""
    membership = join(port, "beating")
    heartbeat = HeartbeatRequest(
        group_id="beating", generation_id=membership.epoch, member_id=membership.member_id
    )
    return _rate(port, pid, heartbeat, 4, seconds)


def consumer_rate(port: int, pid: int, seconds: float, *, topic: str) -> Rate:
    """Pipeline heartbeats of the consumer protocol for a while."""
    membership = join_consumer_group(port, "beating-too", topic)
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="beating-too", member_epoch=membership.epoch, member_id=membership.member_id
    )
    return _rate(port, pid, heartbeat, 1, seconds)


def _rate(
    port: int,
    pid: int,
    heartbeat: HeartbeatRequest | ConsumerGroupHeartbeatRequest,
    version: int,
    seconds: float,
) -> Rate:
    client = RawClient(port)
    answer = client.call(heartbeat, version)
    assert not answer.error_code, answer
    client.close()
    return pump(port, pid, [frame(heartbeat, version)] * _CHUNK, seconds)


def _find_coordinator(client: RawClient, group_id: str) -> None:
    request = FindCoordinatorRequest(coordinator_keys=[group_id])
    deadline = time.monotonic() + _TIMEOUT_S
    while client.call(request, 4).coordinators[0].error_code:
        assert time.monotonic() < deadline
        time.sleep(0.05)
