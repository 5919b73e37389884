"""One consumer group of many members and partitions: what it costs until it is stable.

Members do what a client does: they join, adopt what they are given, report what they own, and let
go of what is taken from them at once. Their heartbeats go through codec, machine and log; the
clock is virtual, so a rebalance takes the rounds it takes and no time is spent waiting.
"""

from __future__ import annotations

import gc
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.perf.groups_world import World
from tests.perf.pipeline import frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GROUP = "big"
_TOPICS = 10
_VERSION = 1
_JOIN_EPOCH = 0
_LEAVE_EPOCH = -1
_HEARTBEAT_MS = 5_000
_MOST_ROUNDS = 20
_TopicPartitions = ConsumerGroupHeartbeatRequest.TopicPartitions


class Settled(NamedTuple):
    """What it took for a group to become stable."""

    cpu_seconds: float
    """Of the broker alone; the members' own work is not counted."""
    heartbeats: int
    longest_seconds: float
    """The heartbeat that held up everybody else for longest."""


class _Member:
    """A client's half of the protocol, as far as it goes into a heartbeat."""

    def __init__(self, number: int, topics: Sequence[str], assignor: str) -> None:
        self.member_id = f"member-{number:04d}-{'x' * 24}"
        self.epoch = _JOIN_EPOCH
        self.owned: dict[bytes, tuple[int, ...]] = {}
        self._reported: dict[bytes, tuple[int, ...]] | None = None
        self._topics = list(topics)
        self._assignor = assignor

    def next_frame(self) -> bytes:
        """Return the next heartbeat; it says only what the last one did not."""
        beat = ConsumerGroupHeartbeatRequest(
            group_id=_GROUP, member_id=self.member_id, member_epoch=self.epoch
        )
        if self.epoch == _JOIN_EPOCH:
            beat.rebalance_timeout_ms = 300_000
            beat.subscribed_topic_names = self._topics
            beat.server_assignor = self._assignor
            beat.topic_partitions = []
        elif self.owned != self._reported:
            beat.topic_partitions = [
                _TopicPartitions(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in self.owned.items()
            ]
            self._reported = dict(self.owned)
        return frame(beat, _VERSION)

    def leave(self) -> bytes:
        """Return the last heartbeat."""
        beat = ConsumerGroupHeartbeatRequest(
            group_id=_GROUP, member_id=self.member_id, member_epoch=_LEAVE_EPOCH
        )
        return frame(beat, _VERSION)


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
        self._world = World(directory, {**limits, **(settings or {})})
        topics = {f"topic-{number}": partitions // _TOPICS for number in range(_TOPICS)}
        for topic, count in topics.items():
            self._world.cluster.have_topics({topic: count})
        self._members = [_Member(number, sorted(topics), assignor) for number in range(members)]
        self._partitions = partitions // _TOPICS * _TOPICS
        self._begin()

    def _begin(self) -> None:
        self._cpu = self._longest = 0.0
        self._heartbeats = 0

    def join(self) -> Settled:
        """Let everybody join, a millisecond apart, and go on until all is handed out."""
        self._begin()
        for member in self._members:
            self._beat(member)
            self._world.clock.advance(1)
        return self._settle()

    def lose_one(self) -> Settled:
        """Let one member leave, and go on until the others have all that was its."""
        self._begin()
        self._serve(self._members.pop().leave())
        return self._settle()

    def close(self) -> None:
        """Let the directory go."""
        self._world.close()

    def _settle(self) -> Settled:
        for _ in range(_MOST_ROUNDS):
            self._world.clock.advance(_HEARTBEAT_MS)
            before = self._standing()
            for member in self._members:
                self._beat(member)
            if self._standing() == before and self._is_complete():
                return Settled(self._cpu, self._heartbeats, self._longest)
        raise AssertionError(f"not stable after {_MOST_ROUNDS} rounds")

    def _standing(self) -> list[tuple[int, dict[bytes, tuple[int, ...]]]]:
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

    def _beat(self, member: _Member) -> None:
        data = self._serve(member.next_frame())
        response = self._world.parse(ConsumerGroupHeartbeatRequest, _VERSION, data)
        assert not response.error_code, response
        member.epoch = response.member_epoch
        if response.assignment is not None:
            member.owned = {
                given.topic_id: tuple(given.partitions)
                for given in response.assignment.topic_partitions
            }

    def _serve(self, request: bytes) -> bytes:
        begun = time.process_time()
        data = self._world.serve(request)
        taken = time.process_time() - begun
        self._cpu += taken
        self._longest = max(self._longest, taken)
        self._heartbeats += 1
        return data


def measure(
    assignor: str, *, members: int, partitions: int, settings: Mapping[str, str] | None = None
) -> tuple[Settled, Settled]:
    """Return what it takes after all have joined, and after one has left."""
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
            return group.join(), group.lose_one()
        finally:
            group.close()
