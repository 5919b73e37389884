"""Safety of consumer groups for any requests and any passage of time.

These hold after every step:

- the log has the complete state;
- no partition has two owners;
- epochs only grow;
- no rule accepts a zombie's commit (KAFKA-19779): one at an earlier epoch of the member, for a
  partition that it owned at that epoch and that has had another owner since;
- under `assignment-epoch`, a member's commits of a partition are accepted at every epoch since the
  assignment of the partition, as long as the member owns it;
- if member ids are validated as UUIDs, no member joins with the id of a member that has confirmed
  its join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.settings import MEMBER_ID_KEY, MEMBER_ID_UUID
from kafkalite.groups.group import CommitClaim
from kafkalite.groups.modern.member import Client
from kafkalite.groups.modern.offset_commit_fencing import (
    ASSIGNMENT_EPOCH,
    FENCING_KEY,
    REVOCATION_EPOCH,
    RULES,
    STRICT,
)
from kafkalite.groups.offsets import OffsetToCommit
from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.effort import examples
from tests.scenarios.group_coordinator import ManualGroupCoordinator, answered, topic_image
from tests.unit.groups.consumer.stage import hard_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.groups.consumer.member import CurrentAssignment
    from kafkalite.groups.shard import GroupShard
    from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatResponse,
    )

pytestmark = pytest.mark.endurance  # it takes ten seconds

G = "g"
TOPICS = {"t": 3, "u": 2}
CLIENT = Client("client", "/127.0.0.1")
CLIENTS = st.sampled_from(["a", "b", "c"])
SUBSCRIPTIONS = st.sampled_from([["t", "u"], ["t", "u"], ["t"], ["u"]])
TIMES_MS = st.sampled_from([1, 400, 1_000, 1_000, 20_000, 45_000, 60_000])

Partition = tuple[bytes, int]


class ClientState(NamedTuple):
    """The client's view of its own state."""

    member_id: str
    epoch: int
    owned: frozenset[Partition]
    instance: str | None
    knows_ids: bool


def assignment_epochs(current: CurrentAssignment) -> Iterator[tuple[Partition, int]]:
    """Yield each partition of a member, also those to release, with its assignment epoch."""
    for owned in (current.assigned, current.pending_revocation):
        for topic_id, epochs in owned.items():
            for partition, since in epochs.items():
                yield (topic_id, partition), since


def hard_state(machine: GroupShard) -> dict[str, object]:
    """Return the durable state of the group."""
    group = machine.directory.groups.get(G)
    if not isinstance(group, ConsumerGroup):
        return {}
    return hard_fields(group) | {"offsets": sorted(machine.offsets.all_committed())}


class ConsumerGroupSafety(RuleBasedStateMachine):
    """Members join, send any requests, lag behind, leave and return; topics and rules change."""

    @initialize(validation=st.sampled_from(["kafka", "uuid"]))
    def begin(self, validation: str) -> None:
        self.coordinator = ManualGroupCoordinator(
            {MEMBER_ID_KEY: validation},
            topics=[topic_image(name, count) for name, count in TOPICS.items()],
        )
        self.compares_incarnations = validation == MEMBER_ID_UUID
        self.confirmed: set[str] = set()
        self.client_states: dict[str, ClientState] = {}
        self.last_epochs: tuple[int, int] = (0, 0)
        self.last_assignments: dict[str, CurrentAssignment] = {}
        # (member, partition) → epochs at which the member owned it; those at which it is a zombie.
        self.owned_epochs: dict[tuple[str, Partition], set[int]] = {}
        self.zombies: dict[tuple[str, Partition], set[int]] = {}
        self.zombies_of_earlier_members: dict[tuple[str, Partition], set[int]] = {}

    # Requests of clients

    def send(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat as the handler does: try the steady path first."""
        steady = self.coordinator.shard.read(
            lambda machine, now_ms: machine.consumer.steady_heartbeat(request, CLIENT, now_ms)
        )
        if steady is not None:
            return steady
        return answered(
            self.coordinator.shard.write(
                lambda machine, now_ms: machine.consumer.heartbeat(request, CLIENT, now_ms)
            )
        )

    def receive(
        self, name: str, state: ClientState, answer: ConsumerGroupHeartbeatResponse
    ) -> None:
        """Update a client's owned partitions from a response."""
        owned = state.owned
        if answer.assignment is not None:
            owned = frozenset(
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            )
        self.client_states[name] = state._replace(
            member_id=answer.member_id or "", epoch=answer.member_epoch, owned=owned
        )

    @rule(
        name=CLIENTS,
        topics=SUBSCRIPTIONS,
        instance=st.sampled_from([None, None, None, None, "i", "j"]),
        knows_ids=st.booleans(),
        is_received=st.sampled_from([True, True, False]),
    )
    def join(
        self,
        name: str,
        topics: list[str],
        instance: str | None,
        *,
        knows_ids: bool,
        is_received: bool,
    ) -> None:
        state = ClientState(name if knows_ids else "", 0, frozenset(), instance, knows_ids)
        request = ConsumerGroupHeartbeatRequest(
            group_id=G,
            member_id=state.member_id,
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
        assert instance is not None or answer.member_id not in self.confirmed
        self.confirmed.discard(answer.member_id or "")
        if is_received:
            self.receive(name, state, answer)

    @rule(
        name=CLIENTS,
        releases=st.sampled_from([True, True, False]),
        is_received=st.sampled_from([True, True, True, False]),
        topics=st.sampled_from([None, None, None, ["t"], ["t", "u"]]),
    )
    def beat(
        self, name: str, topics: list[str] | None, *, releases: bool, is_received: bool
    ) -> None:
        state = self.client_states.get(name)
        if state is None:
            return
        reported: dict[bytes, list[int]] = {}
        for topic_id, partition in sorted(state.owned):
            reported.setdefault(topic_id, []).append(partition)
        request = ConsumerGroupHeartbeatRequest(
            group_id=G,
            member_id=state.member_id,
            member_epoch=state.epoch,
            instance_id=state.instance,
            subscribed_topic_names=topics,
            topic_partitions=[
                ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic, partitions=indexes)
                for topic, indexes in reported.items()
            ]
            if releases
            else None,
        )
        try:
            answer = self.send(request)
        except KafkaError:
            del self.client_states[name]
            self.confirmed.discard(state.member_id)
            return
        if self.compares_incarnations and state.epoch > 0 and state.instance is None:
            self.confirmed.add(state.member_id)
        if is_received:
            self.receive(name, state, answer)

    @rule()
    def all_beat(self) -> None:
        for name in sorted(self.client_states):
            self.beat(name, None, releases=True, is_received=True)

    @rule(name=CLIENTS, joins=st.booleans(), rounds=st.integers(2, 4))
    def join_or_leave(self, name: str, rounds: int, *, joins: bool) -> None:
        """Let one member join or leave, and the others release or receive partitions."""
        if joins and name not in self.client_states:
            self.join(name, ["t", "u"], None, knows_ids=True, is_received=True)
        elif not joins:
            self.leave(name, -1)
        self.reconcile(rounds)

    @rule(rounds=st.integers(1, 3))
    def reconcile(self, rounds: int) -> None:
        """Let the remaining members reconcile for some rounds."""
        self.coordinator.clock.advance(1_000)
        for _ in range(rounds):
            self.all_beat()
            self.invariants_hold()

    @rule(name=CLIENTS, epoch=st.sampled_from([-1, -2]))
    def leave(self, name: str, epoch: int) -> None:
        state = self.client_states.pop(name, None)
        if state is None or (epoch == -2 and state.instance is None):
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=G,
            member_id=state.member_id,
            member_epoch=epoch,
            instance_id=state.instance,
        )
        try:
            self.send(request)
        except KafkaError as refusal:
            assert refusal.code is not ErrorCode.UNKNOWN_SERVER_ERROR  # noqa: PT017

    @rule(ms=TIMES_MS)
    def wait(self, ms: int) -> None:
        self.coordinator.clock.advance(ms)

    @rule(count=st.integers(1, 4))
    def recreate_topic(self, count: int) -> None:
        deleted = self.coordinator.topics["u"]
        self.coordinator.topics["u"] = topic_image("u", count, self.coordinator.entropy.uuid())
        self.coordinator.show(
            MetadataDelta(deleted=(deleted,), created=(self.coordinator.topics["u"],))
        )

    @rule(name=CLIENTS, partition=st.integers(0, 2), back=st.integers(0, 3))
    def commit(self, name: str, partition: int, back: int) -> None:
        state = self.client_states.get(name)
        if state is not None:
            self.set_rule(ASSIGNMENT_EPOCH)
            self.try_commit(state.member_id, state.epoch - back, ("t", partition))

    @rule()
    def restart(self) -> None:
        self.coordinator = self.coordinator.restarted()

    # Commits, and whether they are accepted

    def set_rule(self, fencing: str) -> None:
        self.coordinator.config.publish({FENCING_KEY: fencing}, {})

    def try_commit(self, member_id: str, epoch: int, member_partition: tuple[str, int]) -> bool:
        """Commit, and return whether the commit was accepted."""
        name, partition = member_partition
        claim = CommitClaim(
            member_id=member_id, group_instance_id=None, generation_id_or_member_epoch=epoch
        )
        offset_to_commit = OffsetToCommit(
            topic=name,
            topic_id=self.coordinator.topics[name].topic_id,
            partition=partition,
            offset=1,
        )
        try:
            self.coordinator.shard.write(
                lambda machine, now_ms: machine.offsets.commit(
                    G,
                    claim,
                    [offset_to_commit],
                    now_ms,
                    unknown_group=ErrorCode.GROUP_ID_NOT_FOUND,
                    retention_ms=None,
                )
            )
        except KafkaError:
            return False
        return True

    def would_accept(self, group: ConsumerGroup, member_id: str, epoch: int, of: Partition) -> bool:
        """Return whether a commit would be accepted, without committing."""
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

    # Invariants after every step

    @invariant()
    def invariants_hold(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        group = self.coordinator.machine.directory.groups.get(G)
        if not isinstance(group, ConsumerGroup):
            self.confirmed.clear()
            self.last_epochs, self.last_assignments = (0, 0), {}
            self.owned_epochs.clear()
            self.zombies.clear()
            return
        self.confirmed &= group.members.keys()
        self.check_epochs(group)
        self.check_owners(group)
        self.record_ownership(group)
        self.check_commits(group)

    def check_epochs(self, group: ConsumerGroup) -> None:
        assert group.target_epoch <= group.epoch
        assert self.last_epochs <= (group.epoch, group.target_epoch)
        assert self.last_epochs[1] <= group.target_epoch
        self.last_epochs = (group.epoch, group.target_epoch)
        for member_id, current in group.current.items():
            epoch = current.member_epoch
            if epoch > 0:
                assert current.revocation.epoch < epoch <= group.target_epoch
            before = self.last_assignments.get(member_id)
            if before is not None and before.member_epoch > 0 and epoch > 0:
                assert before.member_epoch <= epoch
                assert before.revocation.epoch <= current.revocation.epoch
        self.last_assignments = dict(group.current)

    def check_owners(self, group: ConsumerGroup) -> None:
        owners: dict[Partition, str] = {}
        for member_id, current in group.current.items():
            for partition, since in assignment_epochs(current):
                assert since <= group.target_epoch
                assert owners.setdefault(partition, member_id) == member_id
                assert group.owner_of(*partition) == member_id

    def record_ownership(self, group: ConsumerGroup) -> None:
        """Record the epochs at which members own partitions, and ownerships that have ended."""
        for (member_id, partition), epochs in list(self.owned_epochs.items()):
            if member_id not in group.members:
                life = self.zombies_of_earlier_members.setdefault((member_id, partition), set())
                life |= self.owned_epochs.pop((member_id, partition))
                life |= self.zombies.pop((member_id, partition), set())
            elif group.owner_of(*partition) not in (None, member_id):
                self.zombies.setdefault((member_id, partition), set()).update(epochs)
        for member_id, current in group.current.items():
            if current.member_epoch > 0:
                for partition, _ in assignment_epochs(current):
                    self.owned_epochs.setdefault((member_id, partition), set()).add(
                        current.member_epoch
                    )

    def check_commits(self, group: ConsumerGroup) -> None:
        for fencing in RULES:
            self.set_rule(fencing)
            for (member_id, partition), epochs in self.zombies.items():
                # A commit at the member's current epoch is always accepted, as in Kafka.
                for epoch in epochs - {group.current_of(member_id).member_epoch}:
                    assert not self.would_accept(group, member_id, epoch, partition)
        self.set_rule(ASSIGNMENT_EPOCH)
        for member_id, current in group.current.items():
            for partition, since in assignment_epochs(current):
                for epoch in range(max(since, 1), current.member_epoch + 1):
                    assert self.would_accept(group, member_id, epoch, partition)
        for fencing in (STRICT, REVOCATION_EPOCH):
            self.set_rule(fencing)
            for member_id, current in group.current.items():
                for partition, _ in assignment_epochs(current):
                    assert current.member_epoch <= 0 or self.would_accept(
                        group, member_id, current.member_epoch, partition
                    )

    @invariant()
    def replay_equals_state(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        decided = hard_state(self.coordinator.machine)
        assert (
            hard_state(self.coordinator.restarted(self.coordinator.log.with_short_runs()).machine)
            == decided
        )
        assert (
            hard_state(self.coordinator.restarted(self.coordinator.log.compact()).machine)
            == decided
        )


ConsumerGroupSafety.TestCase.settings = settings(
    max_examples=examples(80),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestConsumerGroupSafety = ConsumerGroupSafety.TestCase
