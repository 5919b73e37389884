"""The replay law for groups that change their protocol, and what nothing may cost their members.

Clients of both kinds come, go, fall silent and change sides in any order, under every policy. After
each step what was decided is what the log says, no partition has two owners, epochs have only
grown, committed offsets are there, and everybody who waits is known to the group it waits for. In
the end those who are left come to rest, each partition with one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import STATIC_LEAVE_EPOCH, MemberState
from kafkalite.groups.migration.embedded import assigned_of
from kafkalite.metadata.image import MetadataDelta
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.join_group import JoinGroupResponse
from tests.effort import examples
from tests.scenarios.group_world import topic_image
from tests.scenarios.migration_world import MigrationWorld, words

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
    """Return all that must last."""
    state: dict[str, object] = {
        "offsets": sorted(machine.offsets.committed(), key=lambda each: (each[0], each[1], each[2]))
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
    """One group, and whoever wants to be in it."""

    @initialize(policy=POLICIES, size=st.integers(0, 2), instance=INSTANCES)
    def begin(self, policy: str, size: int, instance: str | None) -> None:
        """Begin with a classic group that has come to rest, or with none."""
        self.world = MigrationWorld(
            policy, topics=[topic_image(name, PARTITIONS) for name in ("t", "u")]
        )
        self.classics: list[JoinGroupResponse | Waiting[JoinGroupResponse]] = []
        self.waiting: list[Waiting[object]] = []
        self.epoch = 0
        self.made = 0
        self.committed: Mapping[tuple[str, int], int] = {}
        for _ in range(size):
            self.join(instance, ("t",), knows_ids=False)
        self.world.clock.advance(0)
        self.sync_all(overlaps=False)

    # Who is there

    def joined(self) -> list[JoinGroupResponse]:
        """Return the answers to joins that have come so far, the last ones last."""
        answers = (each.value if isinstance(each, Waiting) and each.is_resolved else each
                   for each in self.classics)  # fmt: skip
        return [each for each in answers if isinstance(each, JoinGroupResponse) and each.member_id]

    def keep(self, answer: object) -> None:
        if isinstance(answer, Waiting) and not answer.is_resolved:
            self.waiting.append(answer)

    def consumers(self) -> list[str]:
        group = self.world.machine.group("g")
        return sorted(group.members) if isinstance(group, ConsumerGroup) else []

    def owned_by(self, member_id: str) -> dict[str, list[int]]:
        """Return what a member of the consumer group was given last."""
        group = self.world.machine.group("g")
        if not isinstance(group, ConsumerGroup):
            return {}
        names = {topic.topic_id: name for name, topic in self.world.topics.items()}
        assigned = group.current_of(member_id).assigned
        return {names[topic]: sorted(owned) for topic, owned in assigned.items() if topic in names}

    # What classic members do

    @rule(instance=INSTANCES, topics=TOPICS, knows_ids=st.booleans())
    def join(self, instance: str | None, topics: tuple[str, ...], *, knows_ids: bool) -> None:
        protocols = {"range": words(*topics)}
        answer = self.world.join(instance=instance, protocols=protocols, knows_ids=knows_ids)
        self.classics.append(answer)
        self.keep(answer)

    @rule(index=INDEX, instance=INSTANCES, topics=TOPICS, is_eager=st.booleans())
    def rejoin(
        self, index: int, instance: str | None, topics: tuple[str, ...], *, is_eager: bool
    ) -> None:
        if known := self.joined():
            member = known[index % len(known)].member_id
            owned = {} if is_eager else self.owned_by(member)
            protocols = {"range": words(*topics, owned=owned)}
            answer = self.world.join(member, instance=instance, protocols=protocols)
            self.classics.append(answer)
            self.keep(answer)

    @rule(overlaps=st.booleans())
    def sync_all(self, *, overlaps: bool) -> None:
        for answer in self.joined():
            given = [PARTITIONS - 1] if overlaps else []
            self.keep(self.sync(answer, given))

    def sync(self, joined: JoinGroupResponse, all_get: list[int]) -> object:
        """Sync as a member; a leader deals partitions out in turn, some perhaps to everybody."""
        shares = {
            each.member_id: self.world.assignment(
                t=[*all_get, *range(PARTITIONS)[index :: len(joined.members)]]
            )
            for index, each in enumerate(joined.members)
        }
        return self.world.sync(joined.member_id, joined.generation_id, shares)

    @rule()
    def beat_all(self) -> None:
        for joined in self.joined():
            self.world.heartbeat(joined.member_id, joined.generation_id)

    @rule(index=INDEX, instance=st.sampled_from([None, "one"]))
    def leave(self, index: int, instance: str | None) -> None:
        if known := self.joined():
            self.world.leave((known[index % len(known)].member_id, None), ("", instance))

    # What members of the consumer protocol do

    @rule(instance=INSTANCES, topics=TOPICS)
    def consume(self, instance: str | None, topics: tuple[str, ...]) -> None:
        self.made += 1
        self.heartbeat(f"c{self.made}", 0, instance=instance, topics=topics)

    @rule(index=INDEX, lets_go=st.booleans(), is_classic=st.booleans())
    def beat(self, index: int, *, lets_go: bool, is_classic: bool) -> None:
        """Send the next heartbeat of a member, perhaps of one that was classic until now."""
        group = self.world.machine.group("g")
        if isinstance(group, ConsumerGroup):
            members = [m for m in sorted(group.members)
                       if is_classic or group.members[m].classic is None]  # fmt: skip
            if members:
                member_id = members[index % len(members)]
                self.heartbeat(
                    member_id,
                    group.current_of(member_id).member_epoch,
                    owned=self.owned_by(member_id) if lets_go else None,
                    instance=group.members[member_id].instance_id,
                )

    @rule(index=INDEX, epoch=st.sampled_from([-1, -1, STATIC_LEAVE_EPOCH, 0]))
    def go(self, index: int, epoch: int) -> None:
        if members := self.consumers():
            member_id = members[index % len(members)]
            instance = self.world.consumer_group().members[member_id].instance_id
            self.heartbeat(member_id, epoch, instance=instance)

    @rule(index=INDEX)
    def go_over(self, index: int) -> None:
        """Join by the consumer protocol under the id of a classic member."""
        if known := self.joined():
            self.heartbeat(known[index % len(known)].member_id, 0)

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
            self.world.consume(member_id, epoch, owned=owned, instance=instance, topics=topics)
        except KafkaError as refusal:
            assert refusal.code is not ErrorCode.UNKNOWN_SERVER_ERROR or refusal.facts  # noqa: PT017

    # What the world does

    @rule(partition=st.integers(0, PARTITIONS - 1), offset=st.integers(0, 9), index=INDEX)
    def commit(self, partition: int, offset: int, index: int) -> None:
        joined = self.joined()
        member, generation = "", -1
        if joined:
            said = joined[index % len(joined)]
            member, generation = said.member_id, said.generation_id
        try:
            self.world.commit({("t", partition): offset}, member_id=member, generation=generation)
        except KafkaError:
            return
        self.committed = self.world.committed()

    @rule(ms=TIMES_MS)
    def wait(self, ms: int) -> None:
        self.world.clock.advance(ms)

    @rule()
    def spend_a_minute_alive(self) -> None:
        """Let nobody fall silent, so that other timers than sessions come to an end."""
        for _ in range(8):
            self.world.clock.advance(8_000)
            self.beat_all()
            for index in range(len(self.consumers())):
                self.beat(index, lets_go=False, is_classic=False)

    @rule()
    def make_topic_anew(self) -> None:
        deleted = self.world.topics["u"]
        self.world.topics["u"] = topic_image("u", PARTITIONS, self.world.entropy.uuid())
        self.world.show(MetadataDelta(deleted=(deleted,), created=(self.world.topics["u"],)))

    @rule(index=INDEX, leaves=st.booleans())
    def fail(self, index: int, *, leaves: bool) -> None:
        """Fill the disk for one append: whatever was decided comes to nothing."""
        before = hard_state(self.world.machine)
        self.world.log.fails_with = OSError(28, "disk full")
        if leaves and (members := self.consumers()):
            self.heartbeat(members[index % len(members)], -1)
        else:
            self.heartbeat("newcomer", 0)
        if self.world.log.fails_with is None:
            assert hard_state(self.world.machine) == before
        self.world.log.fails_with = None

    @rule(policy=POLICIES)
    def restart(self, policy: str) -> None:
        self.world = self.world.reloaded(policy)
        self.classics = [*self.joined()]
        self.waiting = []

    # What holds

    @invariant()
    def the_law(self) -> None:
        if hasattr(self, "world"):
            decided = hard_state(self.world.machine)
            in_runs = self.world.log.in_runs()
            assert hard_state(self.world.reloaded(log=in_runs).machine) == decided
            for keep_tombstones in (False, True):
                log = self.world.log.compacted(keep_tombstones=keep_tombstones)
                assert hard_state(self.world.reloaded(log=log).machine) == decided
            assert self.world.machine.directory.begun == {}

    @invariant()
    def every_partition_has_one_owner(self) -> None:
        if not hasattr(self, "world"):
            return
        group = self.world.machine.group("g")
        if isinstance(group, ConsumerGroup):
            held = [
                (topic_id, partition)
                for current in group.current.values()
                for owned in (current.assigned, current.pending_revocation)
                for topic_id, partitions in owned.items()
                for partition in partitions
            ]
            assert len(held) == len(set(held))
            assert all(
                current.member_epoch <= group.target_epoch <= group.epoch
                for current in group.current.values()
            )

    @invariant()
    def epochs_only_grow(self) -> None:
        if not hasattr(self, "world"):
            return
        group = self.world.machine.group("g")
        epoch = 0
        if isinstance(group, ConsumerGroup):
            epoch = group.epoch
        elif isinstance(group, ClassicGroup) and group.soft.members:
            epoch = group.soft.generation_id
        # A group that was empty in between begins anew.
        is_empty = group is None or group.is_empty()
        assert is_empty or epoch >= self.epoch or epoch <= 2
        self.epoch = 0 if is_empty else epoch

    @invariant()
    def offsets_stay(self) -> None:
        if hasattr(self, "world"):
            assert self.world.committed() == self.committed

    @invariant()
    def nobody_waits_in_vain(self) -> None:
        if not hasattr(self, "world"):
            return
        self.waiting = [each for each in self.waiting if not each.is_resolved]
        group = self.world.machine.group("g")
        members = group.soft.members.values() if isinstance(group, ClassicGroup) else ()
        tickets = [
            ticket
            for member in members
            for ticket in (member.awaiting_join, member.awaiting_sync)
            if ticket is not None
        ]
        assert len(self.waiting) <= len(tickets)

    # How it ends

    def teardown(self) -> None:
        """Let all who are left do what clients do, until they have come to rest."""
        if not hasattr(self, "world"):
            return
        if self.consumers():
            # What is left by members that go while a group changes its protocol is nobody's until
            # the group has another reason to rebalance, as in Kafka.
            self.heartbeat("newcomer", 0)
        for _ in range(ROUNDS):
            group = self.world.machine.group("g")
            if isinstance(group, ConsumerGroup):
                self.everybody_takes_a_step(group)
            elif isinstance(group, ClassicGroup):
                self.everybody_joins(group)
            if self.world.state() in ("Stable", "Empty", None):
                break
            self.world.clock.advance(1)
        assert self.world.state() in ("Stable", "Empty", None)
        group = self.world.machine.group("g")
        if isinstance(group, ConsumerGroup) and group.members:
            read = group.subscribed_topics() & self.world.topics.keys()
            assert self.held(group) == {
                (self.world.topic_id(name), index) for name in read for index in range(PARTITIONS)
            }

    def held(self, group: ConsumerGroup) -> set[tuple[bytes, int]]:
        return {
            (topic_id, partition)
            for current in group.current.values()
            for topic_id, partitions in current.assigned.items()
            for partition in partitions
        }

    def everybody_takes_a_step(self, group: ConsumerGroup) -> None:
        for member_id in sorted(group.members):
            member = self.world.machine.group("g")
            if member is not group or member_id not in group.members:
                return
            stored, current = group.members[member_id], group.current_of(member_id)
            instance, owned = stored.instance_id, self.owned_by(member_id)
            topics = tuple(sorted(stored.topic_names))
            if stored.classic is None:
                is_away = current.member_epoch == STATIC_LEAVE_EPOCH
                epoch = 0 if is_away else current.member_epoch
                name = f"{member_id}'" if is_away else member_id
                self.world.consume(
                    name, epoch, owned={} if is_away else owned, instance=instance, topics=topics
                )
            elif self.world.policy == "disabled":
                # It may stay as it is, but not come back: as by an administrator's hand it goes.
                self.world.leave((member_id, instance))
            else:
                joined = self.world.rejoin(member_id, *topics, owned=owned, instance=instance)
                assert joined.error_code == ErrorCode.NONE
                if group is self.world.machine.group("g") and (
                    group.current_of(member_id).state is not MemberState.UNREVOKED_PARTITIONS
                ):
                    answer = self.world.sync(member_id, joined.generation_id, instance=instance)
                    assert not isinstance(answer, Waiting)
                    assert answer.error_code == ErrorCode.NONE
                    assert assigned_of(answer.assignment).partitions.keys() <= {"t", "u"}

    def everybody_joins(self, group: ClassicGroup) -> None:
        soft = group.soft
        for each in sorted(soft.pending_joins):
            self.world.leave((each, None))
        answers = [
            self.world.join(
                member.member_id,
                instance=member.group_instance_id,
                protocols=dict(member.protocols),
            )
            for member in [*soft.members.values()]
        ]
        self.world.clock.advance(0)
        for answer in answers:
            joined = answer.value if isinstance(answer, Waiting) and answer.is_resolved else answer
            if isinstance(joined, JoinGroupResponse):
                member = soft.members.get(joined.member_id)
                instance = None if member is None else member.group_instance_id
                shares = {each.member_id: b"" for each in joined.members}
                self.world.sync(joined.member_id, joined.generation_id, shares, instance=instance)


MigrationHistory.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestMigrations = MigrationHistory.TestCase
