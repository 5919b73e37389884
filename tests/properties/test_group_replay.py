"""The replay law of groups: replaying the log, compacted or not, gives the decided state."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafkalite.groups.classic.describe import describe_group
from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.classic.membership import ClassicState
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.settings import MEMBER_ID_KEY
from kafkalite.groups.modern.member import Client
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.intents import SharePartitionInitialization
from kafkalite.metadata.image import MetadataDelta
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.join_group import JoinGroupResponse
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.effort import examples
from tests.scenarios.group_coordinator import (
    ManualGroupCoordinator,
    Producer,
    answered,
    subscription,
    topic_image,
)
from tests.unit.groups.consumer.stage import hard_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.groups.shard import GroupShard

GROUPS = st.sampled_from(["g", "h"])
INSTANCES = st.sampled_from([None, None, "one", "two"])
PRODUCERS = st.builds(Producer, st.integers(1, 3), st.integers(0, 1))
PARTITIONS = st.tuples(st.sampled_from(["t", "u"]), st.integers(0, 1))
EPOCHS = st.tuples(st.integers(-1, 3), st.integers(-1, 2))
"""Incarnation epoch and leader epoch of a commit."""
TIMES_MS = st.sampled_from([0, 1, 5_000, 10_000, 60_000, 600_000, 8 * 24 * 3_600_000])


def hard_state(machine: GroupShard) -> dict[str, object]:
    """Return the durable state; a group without members consists of offsets only."""
    state: dict[str, object] = {
        "offsets": sorted(
            machine.offsets.all_committed(), key=lambda row: (row[0], row[1], row[2])
        ),
        # The order is part of the state: a later transaction overrides an earlier one.
        "pending": sorted(
            (key, list(waiting.items())) for key, waiting in machine.offsets.pending.all()
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
            state[group_id] = hard_fields(group)
    return state


def stable_descriptions(machine: GroupShard) -> Iterator[object]:
    """Yield the state that clients see of groups that are not rebalancing."""
    for _, group in sorted(machine.directory.groups.items()):
        if (
            isinstance(group, ClassicGroup)
            and group.recorded is not None
            and group.soft.state is ClassicState.STABLE
        ):
            yield describe_group(group)


class GroupHistory(RuleBasedStateMachine):
    """Clients send any requests in any order; the law holds after every step."""

    @initialize(validation=st.sampled_from(["kafka", "uuid"]))
    def begin(self, validation: str) -> None:
        self.coordinator = ManualGroupCoordinator(
            {MEMBER_ID_KEY: validation}, topics=[topic_image("t", 2), topic_image("u", 2)]
        )
        self.epochs: dict[tuple[str, str], int] = {}
        self.share_epochs: dict[tuple[str, str], int] = {}
        self.joins: list[JoinGroupResponse | Waiting[JoinGroupResponse]] = []

    def join_responses(self) -> list[JoinGroupResponse]:
        """Return the answers that have arrived so far."""
        answers = [join.value if isinstance(join, Waiting) and join.is_resolved else join
                   for join in self.joins]  # fmt: skip
        return [answer for answer in answers if isinstance(answer, JoinGroupResponse)]

    @rule(group=GROUPS, instance=INSTANCES, knows_ids=st.booleans(), topic=st.sampled_from("tu"))
    def join(self, group: str, instance: str | None, topic: str, *, knows_ids: bool) -> None:
        self.joins.append(
            self.coordinator.join(
                group=group,
                instance=instance,
                knows_ids=knows_ids,
                protocols={"range": subscription(topic)},
            )
        )

    @rule(group=GROUPS, data=st.data(), instance=INSTANCES)
    def rejoin(self, group: str, instance: str | None, data: st.DataObject) -> None:
        join_responses = self.join_responses()
        if join_responses:
            member_id = data.draw(st.sampled_from(join_responses)).member_id
            self.joins.append(self.coordinator.join(member_id, group=group, instance=instance))

    @rule(group=GROUPS, data=st.data())
    def sync(self, group: str, data: st.DataObject) -> None:
        join_responses = [member for member in self.join_responses() if member.generation_id > 0]
        if join_responses:
            joined = data.draw(st.sampled_from(join_responses[-4:]))
            assignments = {member.member_id: b"some" for member in joined.members}
            self.coordinator.sync(joined.member_id, joined.generation_id, assignments, group=group)

    @rule(group=GROUPS)
    def sync_all(self, group: str) -> None:
        for joined in self.join_responses():
            assignments = {member.member_id: b"all" for member in joined.members}
            self.coordinator.sync(joined.member_id, joined.generation_id, assignments, group=group)

    @rule(group=GROUPS, data=st.data())
    def leave(self, group: str, data: st.DataObject) -> None:
        join_responses = self.join_responses()
        if join_responses:
            member_id = data.draw(st.sampled_from(join_responses)).member_id
            self.coordinator.leave((member_id, None), ("", "one"), group=group)

    @rule(group=GROUPS, member_id=st.sampled_from(["c1", "c2"]), leaves=st.booleans())
    def consumer_beat(self, group: str, member_id: str, *, leaves: bool) -> None:
        """Let a member join or leave a consumer group, which may replace a classic one."""
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
                self.coordinator.shard.write(
                    lambda machine, now_ms: machine.consumer.heartbeat(request, client, now_ms)
                )
            )
        except KafkaError:
            return
        if answer.member_epoch > 0:
            self.epochs[group, member_id] = answer.member_epoch

    @rule(group=GROUPS, member_id=st.sampled_from(["s1", "s2"]), leaves=st.booleans())
    def share_beat(self, group: str, member_id: str, *, leaves: bool) -> None:
        """Let a member join or leave a share group; other kinds of groups cannot have its id."""
        epoch = self.share_epochs.pop((group, member_id), 0)
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=-1 if leaves else epoch,
            subscribed_topic_names=None if epoch else ["t", "u"],
        )
        client = Client("client", "/127.0.0.1")
        before = self.coordinator.machine.group(group)
        try:
            answer = answered(
                self.coordinator.shard.write(
                    lambda machine, now_ms: machine.share.heartbeat(request, client, now_ms)
                )
            )
        except KafkaError:
            assert self.coordinator.machine.group(group) is before
            return
        if answer.member_epoch > 0:
            self.share_epochs[group, member_id] = answer.member_epoch

    @rule(group=GROUPS)
    def initialize_share_state(self, group: str) -> None:
        """Carry out the intents of a share group, as the share coordinator does."""
        share_group = self.coordinator.machine.group(group)
        if isinstance(share_group, ShareGroup):
            unfinished = share_group.share_partitions().incomplete()
            starts = [
                SharePartitionInitialization(topic_id, partition, share_group.epoch)
                for topic_id, partitions in unfinished.items()
                for partition in partitions
            ]
            self.coordinator.shard.write(
                lambda machine, _: machine.share.record_initialized_partitions(group, starts)
            )

    @rule(group=GROUPS)
    def beat_all(self, group: str) -> None:
        for joined in self.join_responses():
            self.coordinator.heartbeat(joined.member_id, joined.generation_id, group=group)

    @rule(
        group=GROUPS,
        offsets=st.dictionaries(PARTITIONS, st.integers(0, 9), min_size=1, max_size=3),
        retention_ms=st.sampled_from([None, None, 1_000]),
        epochs=EPOCHS,
        data=st.data(),
    )
    def commit(
        self,
        group: str,
        offsets: dict[tuple[str, int], int],
        retention_ms: int | None,
        epochs: tuple[int, int],
        data: st.DataObject,
    ) -> None:
        joined = data.draw(st.sampled_from([None, *self.join_responses()]))
        member_id, generation = "", -1
        if joined is not None:
            member_id, generation = joined.member_id, joined.generation_id
        try:
            self.coordinator.commit(
                offsets,
                group=group,
                member_id=member_id,
                generation=generation,
                retention_ms=retention_ms,
                leader_epoch=epochs[1],
                incarnation_epoch=epochs[0],
            )
        except KafkaError as refusal:
            assert refusal.code is not ErrorCode.UNKNOWN_SERVER_ERROR  # noqa: PT017

    @rule(
        producer=PRODUCERS,
        group=GROUPS,
        offsets=st.dictionaries(PARTITIONS, st.integers(0, 9), min_size=1, max_size=3),
        epochs=EPOCHS,
        data=st.data(),
    )
    def commit_in_transaction(
        self,
        producer: Producer,
        group: str,
        offsets: dict[tuple[str, int], int],
        epochs: tuple[int, int],
        data: st.DataObject,
    ) -> None:
        joined = data.draw(st.sampled_from([None, *self.join_responses()]))
        member_id, generation = "", -1
        if joined is not None:
            member_id, generation = joined.member_id, joined.generation_id
        before = hard_state(self.coordinator.machine)
        try:
            self.coordinator.commit(
                offsets,
                group=group,
                member_id=member_id,
                generation=generation,
                producer=producer,
                leader_epoch=epochs[1],
                incarnation_epoch=epochs[0],
            )
        except KafkaError as refusal:
            assert refusal.code is not ErrorCode.UNKNOWN_SERVER_ERROR  # noqa: PT017
            assert hard_state(self.coordinator.machine) == before
        else:
            # The committed offset does not apply yet.
            assert hard_state(self.coordinator.machine)["offsets"] == before["offsets"]

    @rule(producer=PRODUCERS, is_commit=st.booleans(), at_next_epoch=st.booleans())
    def end_transaction(self, producer: Producer, *, is_commit: bool, at_next_epoch: bool) -> None:
        before = hard_state(self.coordinator.machine)
        if at_next_epoch:
            producer = Producer(producer.producer_id, producer.producer_epoch + 1)
        try:
            self.coordinator.end(producer, is_commit=is_commit)
        except KafkaError as refusal:
            assert refusal.code is ErrorCode.INVALID_PRODUCER_EPOCH  # noqa: PT017
            assert hard_state(self.coordinator.machine) == before
        else:
            assert is_commit or hard_state(self.coordinator.machine)["offsets"] == before["offsets"]
            assert not any(
                producer.producer_id in waiting
                for _, waiting in self.coordinator.machine.offsets.pending.all()
            )

    @rule(group=GROUPS, requested=st.lists(PARTITIONS, min_size=1, max_size=2))
    def delete_offsets(self, group: str, requested: list[tuple[str, int]]) -> None:
        try:
            self.coordinator.shard.write(
                lambda machine, _: machine.offsets.delete(group, requested)
            )
        except KafkaError as refusal:
            assert refusal.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)  # noqa: PT017

    @rule(group=GROUPS)
    def delete_group(self, group: str) -> None:
        try:
            self.coordinator.shard.write(lambda machine, _: machine.offsets.delete_group(group))
        except KafkaError as refusal:
            assert refusal.code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)  # noqa: PT017

    @rule(group=GROUPS, limit=st.integers(1, 3), fails=st.booleans())
    def reset_group(self, group: str, limit: int, *, fails: bool) -> None:
        """Remove the members and delete the group, as a reset of the broker does."""
        shard = self.coordinator.shard
        self.coordinator.log.next_error = OSError(28, "disk full") if fails else None
        before = hard_state(self.coordinator.machine)
        try:
            while shard.write(lambda machine, now_ms: machine.remove_members(group, now_ms, limit)):
                pass
        except KafkaError:
            assert hard_state(self.coordinator.machine) == before
            return
        finally:
            self.coordinator.log.next_error = None
        with suppress(KafkaError):  # the group does not exist
            shard.write(lambda machine, _: machine.offsets.delete_group(group, "a reset"))
        assert self.coordinator.machine.group(group) is None

    @rule()
    def delete_topic(self) -> None:
        deleted = self.coordinator.topics["u"]
        self.coordinator.topics["u"] = topic_image("u", 2, self.coordinator.entropy.uuid())
        self.coordinator.show(
            MetadataDelta(deleted=(deleted,), created=(self.coordinator.topics["u"],))
        )

    @rule(ms=TIMES_MS)
    def wait(self, ms: int) -> None:
        self.coordinator.clock.advance(ms)

    @rule(group=GROUPS)
    def fail(self, group: str) -> None:
        """Fill the disk for one append: the decision has no effect."""
        before = hard_state(self.coordinator.machine)
        self.coordinator.log.next_error = OSError(28, "disk full")
        try:
            self.coordinator.commit({("t", 0): 1}, group=group)
        except KafkaError:
            assert hard_state(self.coordinator.machine) == before
        self.coordinator.log.next_error = None

    @rule(group=GROUPS)
    def fail_while_time_passes(self, group: str) -> None:
        """Let the first append of a timer fail."""
        self.coordinator.log.next_error = OSError(28, "disk full")
        self.coordinator.clock.advance(60_000)
        self.coordinator.log.next_error = None
        self.coordinator.heartbeat("unknown-member", 1, group=group)

    @rule(
        commits=st.lists(st.tuples(GROUPS, PARTITIONS, st.integers(0, 9)), min_size=1, max_size=6),
        fails=st.booleans(),
    )
    def commit_together(
        self, commits: list[tuple[str, tuple[str, int], int]], *, fails: bool
    ) -> None:
        """Commit in one batch; if the log refuses it, none of the commits may remain."""
        before, shard = hard_state(self.coordinator.machine), self.coordinator.shard
        window = self.coordinator.coordinator.window
        self.coordinator.log.next_error = OSError(28, "disk full") if fails else None
        window.is_open, window.request_bytes = True, 100
        for group, partition, offset in commits:
            # A group with members refuses commits of clients that are not members.
            with suppress(KafkaError):
                self.coordinator.commit({partition: offset}, group=group)
        window.flush()
        self.coordinator.log.next_error = None
        if self.coordinator.shard is not shard:
            assert fails
            assert hard_state(self.coordinator.machine) == before

    @rule()
    def restart(self) -> None:
        self.coordinator = self.coordinator.restarted()

    @invariant()
    def replay_equals_state(self) -> None:
        if not hasattr(self, "coordinator"):
            return
        decided = self.coordinator.machine
        replayed = self.coordinator.restarted().machine
        compacted = self.coordinator.restarted(self.coordinator.log.compact()).machine
        assert hard_state(replayed) == hard_state(decided)
        assert hard_state(compacted) == hard_state(decided)
        for max_run_length in (1, 3, 8):
            # Loading merges runs of records, wherever they begin and end.
            folded = MemoryCoordinatorLog(self.coordinator.log.entries)
            folded.max_run_length = max_run_length
            assert hard_state(self.coordinator.restarted(folded).machine) == hard_state(decided)
        stable = list(stable_descriptions(replayed))
        assert [row for row in stable_descriptions(decided) if row not in stable] == []
        assert list(stable_descriptions(compacted)) == stable


GroupHistory.TestCase.settings = settings(
    max_examples=examples(40),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestReplayLaw = GroupHistory.TestCase
