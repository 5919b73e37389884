"""The replay law: what a shard decided is what its log, compacted or not, makes of a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.groups.classic.describe import described
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.classic.states import ClassicState
from kafkalite.groups.consumer.beat import Client
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.intents import ShareStart
from kafkalite.metadata.image import MetadataDelta
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafkalite.protocol.messages.join_group import JoinGroupResponse
from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.effort import examples
from tests.scenarios.group_world import (
    GroupWorld,
    Producer,
    answered,
    subscription,
    topic_image,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.groups.shard import GroupShard

GROUPS = st.sampled_from(["g", "h"])
INSTANCES = st.sampled_from([None, None, "one", "two"])
PRODUCERS = st.builds(Producer, st.integers(1, 3), st.integers(0, 1))
PARTITIONS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1))
TIMES_MS = st.sampled_from([0, 1, 5_000, 10_000, 60_000, 600_000, 8 * 24 * 3_600_000])


def hard_state(machine: GroupShard) -> dict[str, object]:
    """Return all that must last; a simple group is no more than its offsets."""
    state: dict[str, object] = {
        "offsets": sorted(
            machine.offsets.committed(), key=lambda each: (each[0], each[1], each[2])
        ),
        # The order in which transactions wrote says which of them will count.
        "pending": sorted(
            (place, list(waiting.items())) for place, waiting in machine.offsets.pending.all()
        ),
    }
    for group_id, group in machine.directory.groups.items():
        if isinstance(group, ClassicGroup) and group.recorded is not None:
            state[group_id] = group.recorded
        if isinstance(group, ConsumerGroup):
            state[group_id] = (
                group.epoch,
                group.metadata_hash,
                group.target_epoch,
                group.target_timestamp_ms,
                group.members,
                group.current,
                group.target,
            )
        if isinstance(group, ShareGroup):
            state[group_id] = {
                name: getattr(group, name) for name in group.__slots__ if name != "soft"
            }
    return state


def settled(machine: GroupShard) -> Iterator[object]:
    """Yield what clients see of groups that are in the middle of nothing."""
    for _, group in sorted(machine.directory.groups.items()):
        if (
            isinstance(group, ClassicGroup)
            and group.recorded is not None
            and group.soft.state is ClassicState.STABLE
        ):
            yield described(group)


class GroupHistory(RuleBasedStateMachine):
    """Clients do what they like, in any order; the law holds after every step."""

    @initialize()
    def begin(self) -> None:
        self.world = GroupWorld(topics=[topic_image("t", 2), topic_image("u", 2)])
        self.epochs: dict[tuple[str, str], int] = {}
        self.share_epochs: dict[tuple[str, str], int] = {}
        self.joins: list[JoinGroupResponse | Waiting[JoinGroupResponse]] = []

    def known(self) -> list[JoinGroupResponse]:
        """Return the answers that have come so far."""
        answers = [join.value if isinstance(join, Waiting) and join.is_resolved else join
                   for join in self.joins]  # fmt: skip
        return [each for each in answers if isinstance(each, JoinGroupResponse)]

    @rule(group=GROUPS, instance=INSTANCES, knows_ids=st.booleans(), topic=st.sampled_from("tu"))
    def join(self, group: str, instance: str | None, topic: str, *, knows_ids: bool) -> None:
        self.joins.append(
            self.world.join(
                group=group,
                instance=instance,
                knows_ids=knows_ids,
                protocols={"range": subscription(topic)},
            )
        )

    @rule(group=GROUPS, data=st.data(), instance=INSTANCES)
    def rejoin(self, group: str, instance: str | None, data: st.DataObject) -> None:
        known = self.known()
        if known:
            member_id = data.draw(st.sampled_from(known)).member_id
            self.joins.append(self.world.join(member_id, group=group, instance=instance))

    @rule(group=GROUPS, data=st.data())
    def sync(self, group: str, data: st.DataObject) -> None:
        known = [each for each in self.known() if each.generation_id > 0]
        if known:
            joined = data.draw(st.sampled_from(known[-4:]))
            assignments = {member.member_id: b"some" for member in joined.members}
            self.world.sync(joined.member_id, joined.generation_id, assignments, group=group)

    @rule(group=GROUPS)
    def sync_all(self, group: str) -> None:
        for joined in self.known():
            assignments = {member.member_id: b"all" for member in joined.members}
            self.world.sync(joined.member_id, joined.generation_id, assignments, group=group)

    @rule(group=GROUPS, data=st.data())
    def leave(self, group: str, data: st.DataObject) -> None:
        known = self.known()
        if known:
            member_id = data.draw(st.sampled_from(known)).member_id
            self.world.leave((member_id, None), ("", "one"), group=group)

    @rule(group=GROUPS, member_id=st.sampled_from(["c1", "c2"]), leaves=st.booleans())
    def consumer_beat(self, group: str, member_id: str, *, leaves: bool) -> None:
        """Let a consumer group stand where a classic one stood."""
        epoch = self.epochs.get((group, member_id), 0)
        is_joining = epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=-1 if leaves else epoch,
            rebalance_timeout_ms=60_000 if is_joining else -1,
            subscribed_topic_names=["t", "u"] if is_joining else None,
            topic_partitions=[] if is_joining else None,
        )
        client = Client("client", "/127.0.0.1")
        self.epochs.pop((group, member_id), None)
        try:
            answer = answered(
                self.world.shard.write(
                    lambda machine, now_ms: machine.consumer.heartbeat(request, client, now_ms)
                )
            )
        except KafkaError:
            return
        if answer.member_epoch > 0:
            self.epochs[group, member_id] = answer.member_epoch

    @rule(group=GROUPS, member_id=st.sampled_from(["s1", "s2"]), leaves=st.booleans())
    def share_beat(self, group: str, member_id: str, *, leaves: bool) -> None:
        """Let a share group take an id that nobody has, and keep it from all others."""
        epoch = self.share_epochs.pop((group, member_id), 0)
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=-1 if leaves else epoch,
            subscribed_topic_names=None if epoch else ["t", "u"],
        )
        client = Client("client", "/127.0.0.1")
        before = self.world.machine.group(group)
        try:
            answer = answered(
                self.world.shard.write(
                    lambda machine, now_ms: machine.share.heartbeat(request, client, now_ms)
                )
            )
        except KafkaError:
            assert self.world.machine.group(group) is before
            return
        if answer.member_epoch > 0:
            self.share_epochs[group, member_id] = answer.member_epoch

    @rule(group=GROUPS)
    def share_state_is_there(self, group: str) -> None:
        """Carry out what a share group wants, as the share coordinator does."""
        found = self.world.machine.group(group)
        if isinstance(found, ShareGroup):
            unfinished = found.share_partitions().unfinished()
            starts = [
                ShareStart(topic_id, partition, found.epoch)
                for topic_id, partitions in unfinished.items()
                for partition in partitions
            ]
            self.world.shard.write(
                lambda machine, _: machine.share.offsets_initialized(group, starts)
            )

    @rule(group=GROUPS)
    def beat_all(self, group: str) -> None:
        for joined in self.known():
            self.world.heartbeat(joined.member_id, joined.generation_id, group=group)

    @rule(
        group=GROUPS,
        offsets=st.dictionaries(PARTITIONS, st.integers(0, 9), min_size=1, max_size=3),
        retention_ms=st.sampled_from([None, None, 1_000]),
        data=st.data(),
    )
    def commit(
        self,
        group: str,
        offsets: dict[tuple[str, int], int],
        retention_ms: int | None,
        data: st.DataObject,
    ) -> None:
        joined = data.draw(st.sampled_from([None, *self.known()]))
        member_id, generation = "", -1
        if joined is not None:
            member_id, generation = joined.member_id, joined.generation_id
        try:
            self.world.commit(
                offsets,
                group=group,
                member_id=member_id,
                generation=generation,
                retention_ms=retention_ms,
            )
        except KafkaError as refusal:
            assert refusal.code is not ErrorCode.UNKNOWN_SERVER_ERROR  # noqa: PT017

    @rule(
        producer=PRODUCERS,
        group=GROUPS,
        offsets=st.dictionaries(PARTITIONS, st.integers(0, 9), min_size=1, max_size=3),
        data=st.data(),
    )
    def commit_in_transaction(
        self,
        producer: Producer,
        group: str,
        offsets: dict[tuple[str, int], int],
        data: st.DataObject,
    ) -> None:
        joined = data.draw(st.sampled_from([None, *self.known()]))
        member_id, generation = "", -1
        if joined is not None:
            member_id, generation = joined.member_id, joined.generation_id
        before = hard_state(self.world.machine)
        try:
            self.world.commit(
                offsets, group=group, member_id=member_id, generation=generation, producer=producer
            )
        except KafkaError as refusal:
            assert refusal.code is not ErrorCode.UNKNOWN_SERVER_ERROR  # noqa: PT017
            assert hard_state(self.world.machine) == before
        else:
            # Whatever it commits, nothing counts yet.
            assert hard_state(self.world.machine)["offsets"] == before["offsets"]

    @rule(producer=PRODUCERS, is_commit=st.booleans(), at_next_epoch=st.booleans())
    def end_transaction(self, producer: Producer, *, is_commit: bool, at_next_epoch: bool) -> None:
        before = hard_state(self.world.machine)
        if at_next_epoch:
            producer = Producer(producer.producer_id, producer.producer_epoch + 1)
        try:
            self.world.end(producer, is_commit=is_commit)
        except KafkaError as refusal:
            assert refusal.code is ErrorCode.INVALID_PRODUCER_EPOCH  # noqa: PT017
            assert hard_state(self.world.machine) == before
        else:
            assert is_commit or hard_state(self.world.machine)["offsets"] == before["offsets"]
            assert not any(
                producer.producer_id in waiting
                for _, waiting in self.world.machine.offsets.pending.all()
            )

    @rule(group=GROUPS, wanted=st.lists(PARTITIONS, min_size=1, max_size=2))
    def delete_offsets(self, group: str, wanted: list[tuple[str, int]]) -> None:
        try:
            self.world.shard.write(lambda machine, _: machine.offsets.delete(group, wanted))
        except KafkaError as refusal:
            assert refusal.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)  # noqa: PT017

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        try:
            self.world.shard.write(lambda machine, _: machine.offsets.delete_group(group))
        except KafkaError as refusal:
            assert refusal.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)  # noqa: PT017

    @rule()
    def delete_topic(self) -> None:
        deleted = self.world.topics["u"]
        self.world.topics["u"] = topic_image("u", 2, self.world.entropy.uuid())
        self.world.show(MetadataDelta(deleted=(deleted,), created=(self.world.topics["u"],)))

    @rule(ms=TIMES_MS)
    def wait(self, ms: int) -> None:
        self.world.clock.advance(ms)

    @rule(group=GROUPS)
    def fail(self, group: str) -> None:
        """Fill the disk for one append: the decision comes to nothing."""
        before = hard_state(self.world.machine)
        self.world.log.fails_with = OSError(28, "disk full")
        try:
            self.world.commit({("t", 0): 1}, group=group)
        except KafkaError:
            assert hard_state(self.world.machine) == before
        self.world.log.fails_with = None

    @rule(group=GROUPS)
    def fail_while_time_passes(self, group: str) -> None:
        """Let a timer's records be refused at first."""
        self.world.log.fails_with = OSError(28, "disk full")
        self.world.clock.advance(60_000)
        self.world.log.fails_with = None
        self.world.heartbeat("nobody", 1, group=group)

    @rule()
    def restart(self) -> None:
        self.world = self.world.restarted()

    @invariant()
    def the_law(self) -> None:
        if not hasattr(self, "world"):
            return
        decided = self.world.machine
        replayed = self.world.restarted().machine
        compacted = self.world.restarted(self.world.log.compacted()).machine
        assert hard_state(replayed) == hard_state(decided)
        assert hard_state(compacted) == hard_state(decided)
        for fold_at_once in (1, 3, 8):
            # Loading folds runs of records, wherever they begin and end.
            folded = MemoryCoordinatorLog(self.world.log.entries)
            folded.fold_at_once = fold_at_once
            assert hard_state(self.world.restarted(folded).machine) == hard_state(decided)
        shown = list(settled(replayed))
        assert [each for each in settled(decided) if each not in shown] == []
        assert list(settled(compacted)) == shown


GroupHistory.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestReplayLaw = GroupHistory.TestCase
