"""What no member of a consumer group can bring about, whatever it sends and however time passes.

The log tells all there is to tell; no partition has two owners; epochs only grow; the invariant of
KAFKA-19779 holds; a zombie commits nothing under any rule, and under `assignment-epoch` whoever
kept a partition commits it at every epoch since. A zombie's commit is one at an epoch that the
member has left, and at which it had the partition that has been another's since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.groups.consumer.beat import Client
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.settings import MEMBER_ID_KEY
from kafkalite.groups.fencing import (
    ASSIGNMENT_EPOCH,
    FENCING_KEY,
    REVOCATION_EPOCH,
    RULES,
    STRICT,
)
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.effort import examples
from tests.scenarios.group_world import GroupWorld, answered, topic_image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.groups.consumer.member import CurrentAssignment
    from kafkalite.groups.shard import GroupShard
    from kafkalite.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatResponse,
    )

G = "g"
TOPICS = {"t": 3, "u": 2}
CLIENT = Client("client", "/127.0.0.1")
CLIENTS = st.sampled_from(["a", "b", "c"])
SUBSCRIPTIONS = st.sampled_from([["t", "u"], ["t", "u"], ["t"], ["u"]])
TIMES_MS = st.sampled_from([1, 400, 1_000, 1_000, 20_000, 45_000, 60_000])

Partition = tuple[bytes, int]


class Known(NamedTuple):
    """What a client believes of itself."""

    member_id: str
    epoch: int
    owned: frozenset[Partition]
    instance: str | None
    knows_ids: bool


def held(current: CurrentAssignment) -> Iterator[tuple[Partition, int]]:
    """Yield each partition a member has, be it to give up, and since which epoch."""
    for owned in (current.assigned, current.pending_revocation):
        for topic_id, epochs in owned.items():
            for partition, since in epochs.items():
                yield (topic_id, partition), since


def hard_state(machine: GroupShard) -> dict[str, object]:
    """Return all of the group that must last."""
    group = machine.directory.groups.get(G)
    if not isinstance(group, ConsumerGroup):
        return {}
    return {
        name: getattr(group, name) for name in group.__slots__ if name[0] != "_" and name != "soft"
    } | {"offsets": sorted(machine.offsets.committed())}


class ConsumerGroupSafety(RuleBasedStateMachine):
    """Members join, obey or not, lag behind, go and come back; topics and rules change."""

    @initialize(validation=st.sampled_from(["kafka", "uuid"]))
    def begin(self, validation: str) -> None:
        self.world = GroupWorld(
            {MEMBER_ID_KEY: validation},
            topics=[topic_image(name, count) for name, count in TOPICS.items()],
        )
        self.known: dict[str, Known] = {}
        self.seen: tuple[int, int] = (0, 0)
        self.standing: dict[str, CurrentAssignment] = {}
        # (member, partition) → the epochs at which it had it; those that are zombies by now.
        self.had: dict[tuple[str, Partition], set[int]] = {}
        self.zombies: dict[tuple[str, Partition], set[int]] = {}
        self.earlier_life: dict[tuple[str, Partition], set[int]] = {}

    # What clients do.

    def send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat as the handler does: the short way first."""
        steady = self.world.shard.read(
            lambda machine, now_ms: machine.consumer.steady(request, CLIENT, now_ms)
        )
        if steady is not None:
            return steady
        return answered(
            self.world.shard.write(
                lambda machine, now_ms: machine.consumer.heartbeat(request, CLIENT, now_ms)
            )
        )

    def told(self, name: str, known: Known, answer: ConsumerGroupHeartbeatResponse) -> None:
        """Let a client learn from an answer what it may own."""
        owned = known.owned
        if answer.assignment is not None:
            owned = frozenset(
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            )
        self.known[name] = known._replace(
            member_id=answer.member_id or "", epoch=answer.member_epoch, owned=owned
        )

    @rule(
        name=CLIENTS,
        topics=SUBSCRIPTIONS,
        instance=st.sampled_from([None, None, None, None, "i", "j"]),
        knows_ids=st.booleans(),
        hears=st.sampled_from([True, True, False]),
    )
    def join(
        self, name: str, topics: list[str], instance: str | None, *, knows_ids: bool, hears: bool
    ) -> None:
        known = Known(name if knows_ids else "", 0, frozenset(), instance, knows_ids)
        request = ConsumerGroupHeartbeatRequest(
            group_id=G,
            member_id=known.member_id,
            member_epoch=0,
            instance_id=instance,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=topics,
            topic_partitions=[],
        )
        try:
            answer = self.send(request)
        except KafkaError:
            return
        if hears:
            self.told(name, known, answer)

    @rule(
        name=CLIENTS,
        lets_go=st.sampled_from([True, True, False]),
        hears=st.sampled_from([True, True, True, False]),
        topics=st.sampled_from([None, None, None, ["t"], ["t", "u"]]),
    )
    def beat(self, name: str, topics: list[str] | None, *, lets_go: bool, hears: bool) -> None:
        known = self.known.get(name)
        if known is None:
            return
        reported: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(known.owned):
            reported.setdefault(topic_id, []).append(partition)
        request = ConsumerGroupHeartbeatRequest(
            group_id=G,
            member_id=known.member_id,
            member_epoch=known.epoch,
            instance_id=known.instance,
            subscribed_topic_names=topics,
            topic_partitions=[
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic, partitions=indexes)
                for topic, indexes in reported.items()
            ]
            if lets_go
            else None,
        )
        try:
            answer = self.send(request)
        except KafkaError:
            del self.known[name]
            return
        if hears:
            self.told(name, known, answer)

    @rule()
    def all_beat(self) -> None:
        for name in sorted(self.known):
            self.beat(name, None, lets_go=True, hears=True)

    @rule(name=CLIENTS, comes=st.booleans(), rounds=st.integers(2, 4))
    def come_or_go(self, name: str, rounds: int, *, comes: bool) -> None:
        """Let one come or go, and the others make room or take over, as most groups live."""
        if comes and name not in self.known:
            self.join(name, ["t", "u"], None, knows_ids=True, hears=True)
        elif not comes:
            self.leave(name, -1)
        self.settle(rounds)

    @rule(rounds=st.integers(1, 3))
    def settle(self, rounds: int) -> None:
        """Let everybody who is left come to what it should have, or nearly."""
        self.world.clock.advance(1_000)
        for _ in range(rounds):
            self.all_beat()
            self.safe()

    @rule(name=CLIENTS, epoch=st.sampled_from([-1, -2]))
    def leave(self, name: str, epoch: int) -> None:
        known = self.known.pop(name, None)
        if known is None or (epoch == -2 and known.instance is None):
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=G,
            member_id=known.member_id,
            member_epoch=epoch,
            instance_id=known.instance,
        )
        try:
            self.send(request)
        except KafkaError as refusal:
            assert refusal.code is not ErrorCode.UNKNOWN_SERVER_ERROR  # noqa: PT017

    @rule(ms=TIMES_MS)
    def wait(self, ms: int) -> None:
        self.world.clock.advance(ms)

    @rule(count=st.integers(1, 4))
    def recreate_topic(self, count: int) -> None:
        deleted = self.world.topics["u"]
        self.world.topics["u"] = topic_image("u", count, self.world.entropy.uuid())
        self.world.show(MetadataDelta(deleted=(deleted,), created=(self.world.topics["u"],)))

    @rule(name=CLIENTS, partition=st.integers(0, 2), back=st.integers(0, 3))
    def commit(self, name: str, partition: int, back: int) -> None:
        known = self.known.get(name)
        if known is not None:
            self.set_rule(ASSIGNMENT_EPOCH)
            self.is_taken(known.member_id, known.epoch - back, ("t", partition))

    @rule()
    def restart(self) -> None:
        self.world = self.world.restarted()

    # Commits, and what may become of them.

    def set_rule(self, fencing: str) -> None:
        self.world.config.publish({FENCING_KEY: fencing}, {})

    def is_taken(self, member_id: str, epoch: int, wanted: tuple[str, int]) -> bool:
        """Commit, and say whether that was accepted."""
        name, partition = wanted
        claim = CommitClaim(
            member_id=member_id, group_instance_id=None, generation_id_or_member_epoch=epoch
        )
        wish = OffsetToCommit(
            topic=name, topic_id=self.world.topics[name].topic_id, partition=partition, offset=1
        )
        try:
            self.world.shard.write(
                lambda machine, now_ms: machine.offsets.commit(
                    G,
                    claim,
                    [wish],
                    now_ms,
                    unknown_group=ErrorCode.GROUP_ID_NOT_FOUND,
                    retention_ms=None,
                )
            )
        except KafkaError:
            return False
        return True

    def would_take(self, group: ConsumerGroup, member_id: str, epoch: int, of: Partition) -> bool:
        """Say whether a commit would be accepted, without committing."""
        claim = CommitClaim(
            member_id=member_id, group_instance_id=None, generation_id_or_member_epoch=epoch
        )
        try:
            check = group.validate_offset_commit(claim)
            if check is not None:
                check("topic", *of)
        except KafkaError:
            return False
        return True

    # What holds after every step.

    @invariant()
    def safe(self) -> None:
        if not hasattr(self, "world"):
            return
        group = self.world.machine.directory.groups.get(G)
        if not isinstance(group, ConsumerGroup):
            self.seen, self.standing = (0, 0), {}
            self.had.clear()
            self.zombies.clear()
            return
        self.check_epochs(group)
        self.check_owners(group)
        self.remember(group)
        self.check_commits(group)

    def check_epochs(self, group: ConsumerGroup) -> None:
        assert group.target_epoch <= group.epoch
        assert self.seen <= (group.epoch, group.target_epoch)
        assert self.seen[1] <= group.target_epoch
        self.seen = (group.epoch, group.target_epoch)
        for member_id, current in group.current.items():
            epoch = current.member_epoch
            if epoch > 0:
                assert current.revocation.epoch < epoch <= group.target_epoch
            before = self.standing.get(member_id)
            if before is not None and before.member_epoch > 0 and epoch > 0:
                assert before.member_epoch <= epoch
                assert before.revocation.epoch <= current.revocation.epoch
        self.standing = dict(group.current)

    def check_owners(self, group: ConsumerGroup) -> None:
        owners: dict[Partition, str] = {}
        for member_id, current in group.current.items():
            for partition, since in held(current):
                assert since <= group.target_epoch
                assert owners.setdefault(partition, member_id) == member_id
                assert group.owner_of(*partition) == member_id

    def remember(self, group: ConsumerGroup) -> None:
        """Keep who had what at which epoch, and which of that is another's since."""
        for (member_id, partition), epochs in list(self.had.items()):
            if member_id not in group.members:
                life = self.earlier_life.setdefault((member_id, partition), set())
                life |= self.had.pop((member_id, partition))
                life |= self.zombies.pop((member_id, partition), set())
            elif group.owner_of(*partition) not in (None, member_id):
                self.zombies.setdefault((member_id, partition), set()).update(epochs)
        for member_id, current in group.current.items():
            if current.member_epoch > 0:
                for partition, _ in held(current):
                    self.had.setdefault((member_id, partition), set()).add(current.member_epoch)

    def check_commits(self, group: ConsumerGroup) -> None:
        for fencing in RULES:
            self.set_rule(fencing)
            for (member_id, partition), epochs in self.zombies.items():
                # At its present epoch nobody is a zombie: Kafka lets it commit whatever it had.
                for epoch in epochs - {group.current_of(member_id).member_epoch}:
                    assert not self.would_take(group, member_id, epoch, partition)
        self.set_rule(ASSIGNMENT_EPOCH)
        for member_id, current in group.current.items():
            for partition, since in held(current):
                for epoch in range(max(since, 1), current.member_epoch + 1):
                    assert self.would_take(group, member_id, epoch, partition)
        for fencing in (STRICT, REVOCATION_EPOCH):
            self.set_rule(fencing)
            for member_id, current in group.current.items():
                for partition, _ in held(current):
                    assert current.member_epoch <= 0 or self.would_take(
                        group, member_id, current.member_epoch, partition
                    )

    @invariant()
    def the_law(self) -> None:
        if not hasattr(self, "world"):
            return
        decided = hard_state(self.world.machine)
        assert hard_state(self.world.restarted(self.world.log.in_runs()).machine) == decided
        assert hard_state(self.world.restarted(self.world.log.compacted()).machine) == decided


ConsumerGroupSafety.TestCase.settings = settings(
    max_examples=examples(80),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestConsumerGroupSafety = ConsumerGroupSafety.TestCase
