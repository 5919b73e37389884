"""The replay law for groups that change their protocol, and invariants for their members.

Clients of both kinds join, leave, time out and change their protocol in any order, under every
policy. After each step, replaying the log gives the decided state, no partition has two owners,
epochs have only grown, committed offsets still exist, and every waiting join is a group member's.
In the end the remaining members are stable, and each partition has one owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import MemberState
from kafkalite.groups.migration.consumer_protocol import parse_assignment
from kafkalite.groups.modern.member import STATIC_LEAVE_EPOCH
from kafkalite.metadata.image import MetadataDelta
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.join_group import JoinGroupResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.effort import examples
from tests.scenarios.group_coordinator import topic_image
from tests.scenarios.migration_coordinator import ManualMigrationCoordinator, words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.shard import GroupShard

PARTITIONS = 3
POLICIES = st.sampled_from(["bidirectional", "bidirectional", "upgrade", "downgrade", "disabled"])
INSTANCES = st.sampled_from([None, None, None, "one", "two"])
TOPICS = st.sampled_from([("t",), ("t",), ("t", "u"), ("u",)])
TIMES_MS = st.sampled_from([0, 1, 5_000, 9_999, 10_000, 45_000, 60_000])
INDEX = st.integers(0, 9)
ROUNDS = 30


def hard_state(machine: GroupShard) -> dict[str, object]:
    """Return the durable state."""
    state: dict[str, object] = {
        "offsets": sorted(machine.offsets.all_committed(), key=lambda row: (row[0], row[1], row[2]))
    }
    group = machine.group("g")
    if isinstance(group, ClassicGroup) and group.recorded is not None:
        state["classic"] = group.recorded
    if isinstance(group, ConsumerGroup):
        state["consumer"] = (
            group.epoch,
            group.metadata_hash,
            group.target_epoch,
            group.target_timestamp_ms,
            group.members,
            group.current,
            group.target,
            group.static_members,
        )
    return state


class MigrationHistory(RuleBasedStateMachine):
    """One group, with members of both protocols."""

    @initialize(policy=POLICIES, size=st.integers(0, 2), instance=INSTANCES)
    def begin(self, policy: str, size: int, instance: str | None) -> None:
        """Begin with a stable classic group, or with none."""
        self.coordinator = ManualMigrationCoordinator(
            policy, topics=[topic_image(name, PARTITIONS) for name in ("t", "u")]
        )
        self.classics: list[JoinGroupResponse | Waiting[JoinGroupResponse]] = []
        self.waiting: list[Waiting[object]] = []
        self.epoch = 0
        self.member_count = 0
        self.committed: Mapping[tuple[str, int], int] = {}
        for _ in range(size):
            self.join(instance, ("t",), knows_ids=False)
        self.coordinator.clock.advance(0)
        self.sync_all(overlaps=False)

    # Members

    def join_responses(self) -> list[JoinGroupResponse]:
        """Return the answers to joins that have arrived so far, the latest last."""
        answers = (join.value if isinstance(join, Waiting) and join.is_resolved else join
                   for join in self.classics)  # fmt: skip
        return [
            answer
            for answer in answers
            if isinstance(answer, JoinGroupResponse) and answer.member_id
        ]

    def store_if_pending(self, answer: object) -> None:
        if isinstance(answer, Waiting) and not answer.is_resolved:
            self.waiting.append(answer)

    def consumers(self) -> list[str]:
        group = self.coordinator.machine.group("g")
        return sorted(group.members) if isinstance(group, ConsumerGroup) else []

    def owned_by(self, member_id: str) -> dict[str, list[int]]:
        """Return the last assignment of a member of the consumer group."""
        group = self.coordinator.machine.group("g")
        if not isinstance(group, ConsumerGroup):
            return {}
        names = {topic.topic_id: name for name, topic in self.coordinator.topics.items()}
        assigned = group.current_of(member_id).assigned
        return {names[topic]: sorted(owned) for topic, owned in assigned.items() if topic in names}

    # Requests of classic members

    @rule(instance=INSTANCES, topics=TOPICS, knows_ids=st.booleans())
    def join(self, instance: str | None, topics: tuple[str, ...], *, knows_ids: bool) -> None:
        protocols = {"range": words(*topics)}
        answer = self.coordinator.join(instance=instance, protocols=protocols, knows_ids=knows_ids)
        self.classics.append(answer)
        self.store_if_pending(answer)

    @rule(index=INDEX, instance=INSTANCES, topics=TOPICS, is_eager=st.booleans())
    def rejoin(
        self, index: int, instance: str | None, topics: tuple[str, ...], *, is_eager: bool
    ) -> None:
        if responses := self.join_responses():
            member = responses[index % len(responses)].member_id
            owned = {} if is_eager else self.owned_by(member)
            protocols = {"range": words(*topics, owned=owned)}
            answer = self.coordinator.join(member, instance=instance, protocols=protocols)
            self.classics.append(answer)
            self.store_if_pending(answer)

    @rule(overlaps=st.booleans())
    def sync_all(self, *, overlaps: bool) -> None:
        for answer in self.join_responses():
            overlap = [PARTITIONS - 1] if overlaps else []
            self.store_if_pending(self.sync(answer, overlap))

    def sync(self, join_responses: JoinGroupResponse, shared: list[int]) -> object:
        """Sync as a member; a leader assigns partitions in turn, or some of them to all members."""
        assignments = {
            member.member_id: self.coordinator.assignment(
                t=[*shared, *range(PARTITIONS)[index :: len(join_responses.members)]]
            )
            for index, member in enumerate(join_responses.members)
        }
        return self.coordinator.sync(
            join_responses.member_id, join_responses.generation_id, assignments
        )

    @rule()
    def beat_all(self) -> None:
        for join_responses in self.join_responses():
            self.coordinator.heartbeat(join_responses.member_id, join_responses.generation_id)

    @rule(index=INDEX, instance=st.sampled_from([None, "one"]))
    def leave(self, index: int, instance: str | None) -> None:
        if responses := self.join_responses():
            self.coordinator.leave(
                (responses[index % len(responses)].member_id, None), ("", instance)
            )

    # Requests of members with the consumer protocol

    @rule(instance=INSTANCES, topics=TOPICS)
    def consume(self, instance: str | None, topics: tuple[str, ...]) -> None:
        self.member_count += 1
        self.heartbeat(f"c{self.member_count}", 0, instance=instance, topics=topics)

    @rule(index=INDEX, releases=st.booleans(), is_classic=st.booleans())
    def beat(self, index: int, *, releases: bool, is_classic: bool) -> None:
        """Send the next heartbeat of a member, possibly of one that was classic before."""
        group = self.coordinator.machine.group("g")
        if isinstance(group, ConsumerGroup):
            members = [m for m in sorted(group.members)
                       if is_classic or group.members[m].classic is None]  # fmt: skip
            if members:
                member_id = members[index % len(members)]
                self.heartbeat(
                    member_id,
                    group.current_of(member_id).member_epoch,
                    owned=self.owned_by(member_id) if releases else None,
                    instance=group.members[member_id].instance_id,
                )

    @rule(index=INDEX, epoch=st.sampled_from([-1, -1, STATIC_LEAVE_EPOCH, 0]))
    def leave_or_rejoin(self, index: int, epoch: int) -> None:
        if members := self.consumers():
            member_id = members[index % len(members)]
            instance = self.coordinator.consumer_group().members[member_id].instance_id
            self.heartbeat(member_id, epoch, instance=instance)

    @rule(index=INDEX)
    def join_with_classic_id(self, index: int) -> None:
        """Join by the consumer protocol with the id of a classic member."""
        if responses := self.join_responses():
            self.heartbeat(responses[index % len(responses)].member_id, 0)

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: Mapping[str, list[int]] | None = None,
        instance: str | None = None,
        topics: tuple[str, ...] = ("t",),
    ) -> None:
        try:
            self.coordinator.consume(
                member_id, epoch, owned=owned, instance=instance, topics=topics
            )
        except KafkaError as refusal:
            assert refusal.code is not ErrorCode.UNKNOWN_SERVER_ERROR or refusal.facts  # noqa: PT017

    # Other events

    @rule(partition=st.integers(0, PARTITIONS - 1), offset=st.integers(0, 9), index=INDEX)
    def commit(self, partition: int, offset: int, index: int) -> None:
        join_responses = self.join_responses()
        member, generation = "", -1
        if join_responses:
            response = join_responses[index % len(join_responses)]
            member, generation = response.member_id, response.generation_id
        try:
            self.coordinator.commit(
                {("t", partition): offset}, member_id=member, generation=generation
            )
        except KafkaError:
            return
        self.committed = self.coordinator.committed()

    @rule(ms=TIMES_MS)
    def wait(self, ms: int) -> None:
        self.coordinator.clock.advance(ms)

    @rule()
    def send_heartbeats_for_a_minute(self) -> None:
        """Send heartbeats for a minute, so that no session expires but other timers do."""
        for _ in range(8):
            self.coordinator.clock.advance(8_000)
            self.beat_all()
            for index in range(len(self.consumers())):
                self.beat(index, releases=False, is_classic=False)

    @rule()
    def recreate_topic(self) -> None:
        deleted = self.coordinator.topics["u"]
        self.coordinator.topics["u"] = topic_image("u", PARTITIONS, self.coordinator.entropy.uuid())
        self.coordinator.show(
            MetadataDelta(deleted=(deleted,), created=(self.coordinator.topics["u"],))
        )

    @rule(index=INDEX, leaves=st.booleans())
    def fail(self, index: int, *, leaves: bool) -> None:
        """Fill the disk for one append: the decision has no effect."""
        before = hard_state(self.coordinator.machine)
        self.coordinator.log.next_error = OSError(28, "disk full")
        if leaves and (members := self.consumers()):
            self.heartbeat(members[index % len(members)], -1)
        else:
            self.heartbeat("new-member", 0)
        if self.coordinator.log.next_error is None:
            assert hard_state(self.coordinator.machine) == before
        self.coordinator.log.next_error = None

    @rule(policy=POLICIES)
    def restart(self, policy: str) -> None:
        self.coordinator = self.coordinator.reloaded(policy)
        self.classics = [*self.join_responses()]
        self.waiting = []

    # Invariants

    @invariant()
    def replay_equals_state(self) -> None:
        if hasattr(self, "coordinator"):
            decided = hard_state(self.coordinator.machine)
            with_short_runs = self.coordinator.log.with_short_runs()
            assert hard_state(self.coordinator.reloaded(log=with_short_runs).machine) == decided
            for keep_tombstones in (False, True):
                log = self.coordinator.log.compact(keep_tombstones=keep_tombstones)
                assert hard_state(self.coordinator.reloaded(log=log).machine) == decided
            assert self.coordinator.machine.directory.unreplayed_groups == {}

    @invariant()
    def every_partition_has_one_owner(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        group = self.coordinator.machine.group("g")
        if isinstance(group, ConsumerGroup):
            owned_partitions = [
                (topic_id, partition)
                for current in group.current.values()
                for owned in (current.assigned, current.pending_revocation)
                for topic_id, partitions in owned.items()
                for partition in partitions
            ]
            assert len(owned_partitions) == len(set(owned_partitions))
            assert all(
                current.member_epoch <= group.target_epoch <= group.epoch
                for current in group.current.values()
            )

    @invariant()
    def epochs_only_grow(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        group = self.coordinator.machine.group("g")
        epoch = 0
        if isinstance(group, ConsumerGroup):
            epoch = group.epoch
        elif isinstance(group, ClassicGroup) and group.soft.members:
            epoch = group.soft.generation_id
        # A group that was empty in between begins with a low epoch again.
        is_empty = group is None or group.is_empty()
        assert is_empty or epoch >= self.epoch or epoch <= 2
        self.epoch = 0 if is_empty else epoch

    @invariant()
    def offsets_stay(self) -> None:
        if hasattr(self, "coordinator"):
            assert self.coordinator.committed() == self.committed

    @invariant()
    def every_waiting_request_is_of_a_member(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        self.waiting = [waiter for waiter in self.waiting if not waiter.is_resolved]
        group = self.coordinator.machine.group("g")
        members = group.soft.members.values() if isinstance(group, ClassicGroup) else ()
        waiters = [
            waiter
            for member in members
            for waiter in (member.awaiting_join, member.awaiting_sync)
            if waiter is not None
        ]
        assert len(self.waiting) <= len(waiters)

    # The end

    def teardown(self) -> None:
        """Let all remaining members behave as clients do, until they are stable."""
        if not hasattr(self, "coordinator"):
            return
        if self.consumers():
            # Partitions of members that left while the group changed its protocol have no owner
            # until the group has another reason to rebalance, as in Kafka.
            self.heartbeat("new-member", 0)
        for _ in range(ROUNDS):
            group = self.coordinator.machine.group("g")
            if isinstance(group, ConsumerGroup):
                self.every_member_takes_a_step(group)
            elif isinstance(group, ClassicGroup):
                self.every_member_joins(group)
            if self.coordinator.state() in ("Stable", "Empty", None):
                break
            self.coordinator.clock.advance(1)
        assert self.coordinator.state() in ("Stable", "Empty", None)
        group = self.coordinator.machine.group("g")
        if isinstance(group, ConsumerGroup) and group.members:
            read = group.subscribed_topics() & self.coordinator.topics.keys()
            assert self.owned_partitions(group) == {
                (self.coordinator.topic_id(name), index)
                for name in read
                for index in range(PARTITIONS)
            }

    def owned_partitions(self, group: ConsumerGroup) -> set[tuple[bytes, int]]:
        return {
            (topic_id, partition)
            for current in group.current.values()
            for topic_id, partitions in current.assigned.items()
            for partition in partitions
        }

    def every_member_takes_a_step(self, group: ConsumerGroup) -> None:
        for member_id in sorted(group.members):
            member = self.coordinator.machine.group("g")
            if member is not group or member_id not in group.members:
                return
            stored, current = group.members[member_id], group.current_of(member_id)
            instance, owned = stored.instance_id, self.owned_by(member_id)
            topics = tuple(sorted(stored.topic_names))
            if stored.classic is None:
                is_away = current.member_epoch == STATIC_LEAVE_EPOCH
                epoch = 0 if is_away else current.member_epoch
                name = f"{member_id}'" if is_away else member_id
                self.coordinator.consume(
                    name, epoch, owned={} if is_away else owned, instance=instance, topics=topics
                )
            elif self.coordinator.policy == "disabled":
                # The offset may stay, but not return; remove it as an administrator would.
                self.coordinator.leave((member_id, instance))
            else:
                join_responses = self.coordinator.rejoin(
                    member_id, *topics, owned=owned, instance=instance
                )
                assert join_responses.error_code == ErrorCode.NONE
                if group is self.coordinator.machine.group("g") and (
                    group.current_of(member_id).state is not MemberState.UNREVOKED_PARTITIONS
                ):
                    answer = self.coordinator.sync(
                        member_id, join_responses.generation_id, instance=instance
                    )
                    assert not isinstance(answer, Waiting)
                    assert answer.error_code == ErrorCode.NONE
                    assert parse_assignment(answer.assignment).partitions.keys() <= {"t", "u"}

    def every_member_joins(self, group: ClassicGroup) -> None:
        soft = group.soft
        for member_id in sorted(soft.pending_joins):
            self.coordinator.leave((member_id, None))
        answers = [
            self.coordinator.join(
                member.member_id,
                instance=member.group_instance_id,
                protocols=dict(member.protocols),
            )
            for member in [*soft.members.values()]
        ]
        self.coordinator.clock.advance(0)
        for answer in answers:
            join_responses = (
                answer.value if isinstance(answer, Waiting) and answer.is_resolved else answer
            )
            if isinstance(join_responses, JoinGroupResponse):
                member = soft.members.get(join_responses.member_id)
                instance = None if member is None else member.group_instance_id
                assignments = {member.member_id: b"" for member in join_responses.members}
                self.coordinator.sync(
                    join_responses.member_id,
                    join_responses.generation_id,
                    assignments,
                    instance=instance,
                )


MigrationHistory.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestMigrations = MigrationHistory.TestCase
