"""The cost of a rebalance of one consumer group with many members and partitions.

Members behave like clients: they join, accept assigned partitions, report what they own, and
release revoked partitions at once. Their heartbeats pass through codec, state machine and log. The
clock is virtual, so a rebalance takes several rounds of heartbeats but no waiting.
"""

from __future__ import annotations

import gc
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from tests.perf.pipeline import frame
from tests.perf.socketless_broker import SocketlessBroker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GROUP = "big"
_TOPICS = 10
_VERSION = 1
_JOIN_EPOCH = 0
_LEAVE_EPOCH = -1
_HEARTBEAT_MS = 5_000
_MAX_ROUNDS = 20
_TopicPartitions = ConsumerGroupHeartbeatRequest.TopicPartitions


class RebalanceCost(NamedTuple):
    """The cost until a group was stable."""

    cpu_seconds: float
    """Of the broker only, without the members."""
    heartbeats: int
    longest_seconds: float
    """The longest time of one heartbeat."""


class _Member:
    """The client side of the protocol."""

    def __init__(self, number: int, topics: Sequence[str], assignor: str) -> None:
        self.member_id = f"member-{number:04d}-{'x' * 24}"
        self.epoch = _JOIN_EPOCH
        self.owned: dict[bytes, tuple[int, ...]] = {}
        self._reported: dict[bytes, tuple[int, ...]] | None = None
        self._topics = list(topics)
        self._assignor = assignor

    def next_frame(self) -> bytes:
        """Return the next heartbeat, which contains only changed fields."""
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=_GROUP, member_id=self.member_id, member_epoch=self.epoch
        )
        if self.epoch == _JOIN_EPOCH:
            heartbeat.rebalance_timeout_ms = 300_000
            heartbeat.subscribed_topic_names = self._topics
            heartbeat.server_assignor = self._assignor
            heartbeat.topic_partitions = []
        elif self.owned != self._reported:
            heartbeat.topic_partitions = [
                _TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in self.owned.items()
            ]
            self._reported = dict(self.owned)
        return frame(heartbeat, _VERSION)

    def leave(self) -> bytes:
        """Return the heartbeat that leaves the group."""
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=_GROUP, member_id=self.member_id, member_epoch=_LEAVE_EPOCH
        )
        return frame(heartbeat, _VERSION)


class BigGroup:
    """The group, its topics and its members."""

    def __init__(
        self,
        directory: str,
        *,
        assignor: str,
        members: int,
        partitions: int,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        limits = {"group.consumer.max.size": str(members)}
        self._broker = SocketlessBroker(directory, {**limits, **(settings or {})})
        topics = {f"topic-{number}": partitions // _TOPICS for number in range(_TOPICS)}
        for topic, count in topics.items():
            self._broker.cluster.create_missing_topics({topic: count})
        self._members = [_Member(number, sorted(topics), assignor) for number in range(members)]
        self._partitions = partitions // _TOPICS * _TOPICS
        self._reset()

    def _reset(self) -> None:
        self._cpu_seconds = self._longest_seconds = 0.0
        self._heartbeats = 0

    def join(self) -> RebalanceCost:
        """Let all members join, a millisecond apart, and rebalance until stable."""
        self._reset()
        for member in self._members:
            self._send_heartbeat(member)
            self._broker.clock.advance(1)
        return self._rebalance()

    def remove_member(self) -> RebalanceCost:
        """Let one member leave, and rebalance until stable."""
        self._reset()
        self._serve(self._members.pop().leave())
        return self._rebalance()

    def close(self) -> None:
        """Close the directory."""
        self._broker.close()

    def _rebalance(self) -> RebalanceCost:
        for _ in range(_MAX_ROUNDS):
            self._broker.clock.advance(_HEARTBEAT_MS)
            before = self._assignments()
            for member in self._members:
                self._send_heartbeat(member)
            if self._assignments() == before and self._is_complete():
                return RebalanceCost(self._cpu_seconds, self._heartbeats, self._longest_seconds)
        raise AssertionError(f"not stable after {_MAX_ROUNDS} rounds")

    def _assignments(self) -> list[tuple[int, dict[bytes, tuple[int, ...]]]]:
        return [(member.epoch, member.owned) for member in self._members]

    def _is_complete(self) -> bool:
        sizes = [sum(map(len, member.owned.values())) for member in self._members]
        owned = {
            (topic_id, partition)
            for member in self._members
            for topic_id, partitions in member.owned.items()
            for partition in partitions
        }
        return len(owned) == sum(sizes) == self._partitions

    def _send_heartbeat(self, member: _Member) -> None:
        data = self._serve(member.next_frame())
        response = self._broker.parse(ConsumerGroupHeartbeatRequest, _VERSION, data)
        assert not response.error_code, response
        member.epoch = response.member_epoch
        if response.assignment is not None:
            member.owned = {
                assigned.topic_id: tuple(assigned.partitions)
                for assigned in response.assignment.topic_partitions
            }

    def _serve(self, request: bytes) -> bytes:
        started = time.process_time()
        data = self._broker.serve(request)
        elapsed_s = time.process_time() - started
        self._cpu_seconds += elapsed_s
        self._longest_seconds = max(self._longest_seconds, elapsed_s)
        self._heartbeats += 1
        return data


def measure(
    assignor: str, *, members: int, partitions: int, settings: Mapping[str, str] | None = None
) -> tuple[RebalanceCost, RebalanceCost]:
    """Return the cost after all have joined, and after one has left."""
    with tempfile.TemporaryDirectory() as directory:
        group = BigGroup(
            directory,
            assignor=assignor,
            members=members,
            partitions=partitions,
            settings=settings,
        )
        gc.collect()
        try:
            return group.join(), group.remove_member()
        finally:
            group.close()
