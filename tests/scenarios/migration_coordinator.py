"""ManualMigrationCoordinator: a group shard whose groups have members of both protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.migration.consumer_protocol import encode_assignment, parse_assignment
from kafkalite.groups.modern.member import Client
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalite.protocol._generated.records.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
)
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.scenarios.group_coordinator import (
    ManualGroupCoordinator,
    answered,
    image_of,
    topic_image,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.metadata.image import TopicImage
    from kafkalite.ports.seeded_entropy import SeededEntropy
    from kafkalite.protocol._generated.messages.join_group import JoinGroupResponse
    from kafkalite.protocol._generated.messages.sync_group import SyncGroupResponse

CLIENT = Client("client", "/127.0.0.1")
AT_ONCE = {"group.initial.rebalance.delay.ms": "0", "group.consumer.assignment.interval.ms": "0"}


def words(*topics: str, owned: Mapping[str, Iterable[int]] | None = None) -> bytes:
    """Return the subscription of a consumer that retains the partitions it owned."""
    row = ConsumerProtocolSubscription.TopicPartition
    rows = [row(topic=name, partitions=list(retained)) for name, retained in (owned or {}).items()]
    subscription = ConsumerProtocolSubscription(topics=list(topics), owned_partitions=rows)
    return codec.encode_value(subscription, 3)


class ManualMigrationCoordinator(ManualGroupCoordinator):
    """A coordinator without delays, under one migration policy."""

    def __init__(
        self,
        policy: str = "bidirectional",
        config: Mapping[str, str] | None = None,
        *,
        log: MemoryCoordinatorLog | None = None,
        topics: Iterable[TopicImage] = (),
        clock: ManualClock | None = None,
        entropy: SeededEntropy | None = None,
    ) -> None:
        self._text = {"group.consumer.migration.policy": policy, **AT_ONCE, **(config or {})}
        self.policy = policy
        super().__init__(self._text, log, list(topics), clock, entropy)

    def reloaded(
        self, policy: str | None = None, log: MemoryCoordinatorLog | None = None
    ) -> ManualMigrationCoordinator:
        """Return a new coordinator that loads the log; the clock is unchanged."""
        return ManualMigrationCoordinator(
            policy or self.policy,
            {k: v for k, v in self._text.items() if k != "group.consumer.migration.policy"},
            log=log or MemoryCoordinatorLog(self.log.entries),
            topics=self.topics.values(),
            clock=ManualClock(self.clock.now_ms()),
            entropy=self.entropy,
        )

    def topic_id(self, name: str = "t") -> bytes:
        """Return the id of a topic."""
        return self.topics[name].topic_id

    def consumer_group(self, group: str = "g") -> ConsumerGroup:
        """Return a group, which must be a consumer group."""
        found = self.machine.group(group)
        assert isinstance(found, ConsumerGroup)
        return found

    def epochs(self, group: str = "g") -> tuple[int, int]:
        """Return the group epoch and the target epoch of a consumer group."""
        found = self.consumer_group(group)
        return found.epoch, found.target_epoch

    # Requests of members with the consumer protocol

    def consume(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        owned: Mapping[str, Iterable[int]] | None = None,
        group: str = "g",
        instance: str | None = None,
        topics: Iterable[str] = ("t",),
        regex: str | None = None,
        rebalance_ms: int = 60_000,
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat: a join has all fields, a later one the owned partitions, if given."""
        joins = epoch == 0
        row = ConsumerGroupHeartbeatRequest.TopicPartitions
        rows = [
            row(topic_id=self.topic_id(name), partitions=list(retained))
            for name, retained in (owned or {}).items()
            if retained
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=instance,
            rebalance_timeout_ms=rebalance_ms if joins else -1,
            subscribed_topic_names=list(topics) if joins else None,
            subscribed_topic_regex=regex,
            topic_partitions=rows if joins or owned is not None else None,
        )
        return answered(
            self.shard.write(
                lambda machine, now_ms: machine.consumer.heartbeat(request, CLIENT, now_ms)
            )
        )

    def given(self, answer: ConsumerGroupHeartbeatResponse, topic: str = "t") -> list[int]:
        """Return the partitions of a topic in a response with an assignment."""
        assert answer.assignment is not None
        return sorted(
            partition
            for row in answer.assignment.topic_partitions
            if row.topic_id == self.topic_id(topic)
            for partition in row.partitions
        )

    # Requests of members with the classic protocol

    def assignment(self, **partitions: Iterable[int]) -> bytes:
        """Return the bytes of a leader's assignment."""
        return encode_assignment(
            {self.topic_id(name): frozenset(given) for name, given in partitions.items()},
            image_of(*self.topics.values()),
            3,
        )

    def rejoin(
        self,
        member_id: str,
        *topics: str,
        owned: Mapping[str, Iterable[int]] | None = None,
        group: str = "g",
        instance: str | None = None,
        protocol: str = "range",
    ) -> JoinGroupResponse:
        """Join a consumer group as a classic member; the answer must be immediate."""
        protocols = {protocol: words(*(topics or ("t",)), owned=owned)}
        return answered(self.join(member_id, group=group, instance=instance, protocols=protocols))

    def synced(
        self, member_id: str, generation: int, topic: str = "t", instance: str | None = None
    ) -> list[int]:
        """Send SyncGroup and return the partitions of a topic in the response."""
        answer: SyncGroupResponse = answered(self.sync(member_id, generation, instance=instance))
        assert answer.error_code == 0, answer
        return sorted(parse_assignment(answer.assignment).partitions.get(topic, ()))

    # Several steps

    def classic(
        self, *shares: Iterable[int], topic: str = "t", group: str = "g", **fields: str
    ) -> list[str]:
        """Create a Stable classic group with these assignments; return the member ids."""
        instances = [fields.get(f"instance{index}") for index, _ in enumerate(shares)]
        joins = [
            self.join(group=group, instance=each, protocols={"range": words(topic)})
            for each in instances
        ]
        self.clock.advance(0)
        answers = [answered(join) for join in joins]
        ids = [answer.member_id for answer in answers]
        generation = answers[0].generation_id
        assigned = {
            member: self.assignment(**{topic: share})
            for member, share in zip(ids, shares, strict=True)
        }
        leader = answers[0].leader
        for member, instance in zip(ids, instances, strict=True):
            if member != leader:
                self.sync(member, generation, group=group, instance=instance)
        of_leader = instances[ids.index(leader)]
        self.sync(leader, generation, assigned, group=group, instance=of_leader)
        assert self.state(group) == "Stable"
        return ids

    def written_since(self, count: int) -> list[CoordinatorRecord[object, object]]:
        """Return the records after the first `count`."""
        return self.records()[count:]


def coordinator_of(
    partitions: int = 4, policy: str = "bidirectional", **config: str
) -> ManualMigrationCoordinator:
    """Return a coordinator with a topic `t` with that many partitions."""
    text = {name.replace("_", "."): value for name, value in config.items()}
    return ManualMigrationCoordinator(policy, text, topics=[topic_image("t", partitions)])
