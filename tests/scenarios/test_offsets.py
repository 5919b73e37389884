"""Scenarios: offsets are committed, fetched, deleted, and expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.groups.group import CommitClaim
from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataKey
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.scenarios.group_coordinator import (
    REBALANCE_MS,
    SESSION_MS,
    ManualGroupCoordinator,
    answered,
    subscription,
    topic_image,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
SWEEP_MS = 600_000


def refusal_of(world: ManualGroupCoordinator, **claim: object) -> ErrorCode:
    """Return the error of a commit that is refused as a whole."""
    with pytest.raises(KafkaError) as refusal:
        world.commit({("t", 0): 1}, **claim)  # type: ignore[arg-type]
    return refusal.value.code


def test_a_commit_without_membership_creates_a_simple_group() -> None:
    world = ManualGroupCoordinator()
    assert world.commit({("t", 0): 5, ("t", 3): 7}, metadata="note") == [ErrorCode.NONE] * 2
    assert world.committed() == {("t", 0): 5, ("t", 3): 7}
    assert world.state() == "Empty"
    record = world.records()[0]
    assert record.key == OffsetCommitKey(group="g", topic="t", partition=0)
    assert record.value == OffsetCommitValue(
        offset=5,
        leader_epoch=-1,
        metadata="note",
        commit_timestamp=world.clock.now_ms(),
        expire_timestamp=-1,
        topic_id=world.topics["t"].topic_id,
    )


def test_a_commit_of_a_member_of_a_missing_group_is_refused() -> None:
    world = ManualGroupCoordinator()
    assert refusal_of(world, member_id="m", generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert world.state() is None
    assert world.log.entries == []


def test_too_long_metadata_is_refused_for_its_partition_only() -> None:
    world = ManualGroupCoordinator({"offset.metadata.max.bytes": "3"})
    assert world.commit({("t", 0): 1}, metadata="four") == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert world.commit({("t", 0): 1}, metadata="abc") == [ErrorCode.NONE]
    # Java counts characters beyond the basic plane twice.
    assert world.commit({("t", 0): 1}, metadata="a\N{PARTY POPPER}") == [ErrorCode.NONE]
    wide = "\N{PARTY POPPER}" * 2
    assert world.commit({("t", 0): 1}, metadata=wide) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_a_classic_group_validates_commits() -> None:
    world = ManualGroupCoordinator()
    leader, static = world.stable(None, "two")
    if world.machine.classic_group("g").soft.members[leader].group_instance_id:  # type: ignore[union-attr]
        leader, static = static, leader
    assert world.commit({("t", 0): 1}, member_id=leader, generation=1) == [ErrorCode.NONE]
    assert refusal_of(world, member_id=leader, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert refusal_of(world, member_id=leader) is ErrorCode.ILLEGAL_GENERATION
    assert refusal_of(world, member_id="x", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal_of(world) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal_of(world, instance="none") is ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        refusal_of(world, member_id=leader, generation=1, instance="two")
        is ErrorCode.FENCED_INSTANCE_ID
    )
    world.join()
    assert world.state() == "PreparingRebalance"
    assert world.commit({("t", 0): 2}, member_id=leader, generation=1) == [ErrorCode.NONE]
    world.join(leader)
    world.join(static, instance="two")
    assert world.state() == "CompletingRebalance"
    assert refusal_of(world, member_id=leader, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.committed() == {("t", 0): 2}


def test_transactional_commits_are_accepted_during_a_rebalance() -> None:
    world = ManualGroupCoordinator()
    join = world.join()
    world.clock.advance(0)
    member_id = answered(join).member_id
    group = world.machine.classic_group("g")
    assert group is not None
    for claim in (
        CommitClaim(
            member_id="", group_instance_id=None, generation_id_or_member_epoch=-1,
            is_transactional=True,
        ),
        CommitClaim(
            member_id=member_id, group_instance_id=None, generation_id_or_member_epoch=1,
            is_transactional=True,
        ),
    ):  # fmt: skip
        assert group.validate_offset_commit(claim) is None


def test_an_empty_group_accepts_commits_without_a_generation() -> None:
    world = ManualGroupCoordinator()
    (leader,) = world.stable(None)
    world.leave((leader, None))
    assert world.commit({("t", 0): 1}, member_id="any") == [ErrorCode.NONE]
    assert refusal_of(world, member_id=leader, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_extends_the_session() -> None:
    world = ManualGroupCoordinator()
    (leader,) = world.stable(None)
    world.clock.advance(SESSION_MS - 1)
    world.commit({("t", 0): 1}, member_id=leader, generation=1)
    world.clock.advance(SESSION_MS - 1)
    assert world.state() == "Stable"
    world.clock.advance(1)
    assert world.state() == "Empty"


def test_offsets_exist_after_a_restart() -> None:
    world = ManualGroupCoordinator()
    world.commit({("t", 0): 5})
    world.commit({("t", 0): 6, ("t", 1): 1}, retention_ms=1_000)
    again = world.restarted()
    assert again.committed() == {("t", 0): 6, ("t", 1): 1}
    assert dict(again.machine.offsets.offsets_to_fetch("g", None, -1)) == dict(
        world.machine.offsets.offsets_to_fetch("g", None, -1)
    )


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    world = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    world.commit({("t", 0): 5, ("u", 0): 6})
    world.stable(None)
    deleted = answered(
        world.shard.write(
            lambda machine, _: machine.offsets.delete("g", [("t", 0), ("u", 0), ("u", 0)])
        )
    )
    assert deleted == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE]
    assert world.committed() == {("t", 0): 5}


def test_deleting_offsets_is_refused_if_subscriptions_are_unreadable() -> None:
    world = ManualGroupCoordinator()
    join = world.join(protocol_type="connect", protocols={"default": b"?"})
    world.clock.advance(0)
    member_id = answered(join).member_id
    world.sync(member_id, 1, {})
    with pytest.raises(KafkaError) as refusal:
        world.shard.write(lambda machine, _: machine.offsets.delete("g", [("t", 0)]))
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
    with pytest.raises(KafkaError) as refusal:
        world.shard.write(lambda machine, _: machine.offsets.delete("none", [("t", 0)]))
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_with_an_unreadable_subscription_count_for_every_topic() -> None:
    world = ManualGroupCoordinator()
    world.commit({("t", 0): 5})
    join = world.join(protocols={"range": b"\0"})
    world.clock.advance(0)
    world.sync(answered(join).member_id, 1, {})
    deleted = answered(
        world.shard.write(lambda machine, _: machine.offsets.delete("g", [("t", 0)]))
    )
    assert deleted == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_only_an_empty_group_can_be_deleted_with_its_offsets() -> None:
    world = ManualGroupCoordinator()
    world.commit({("t", 0): 5, ("t", 1): 6})
    (leader,) = world.stable(None)
    with pytest.raises(KafkaError) as refusal:
        world.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
    world.leave((leader, None))
    world.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert (world.state(), world.committed()) == (None, {})
    tombstones = [record.key for record in world.records()[-3:]]
    assert tombstones == [
        OffsetCommitKey(group="g", topic="t", partition=0),
        OffsetCommitKey(group="g", topic="t", partition=1),
        GroupMetadataKey(group="g"),
    ]
    with pytest.raises(KafkaError) as refusal:
        world.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert world.restarted().state() is None


def test_offsets_of_a_deleted_topic_are_deleted_but_not_those_of_a_new_topic() -> None:
    world = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    world.commit({("t", 0): 5, ("u", 0): 6})
    world.commit({("t", 1): 7}, group="other")
    old = world.topics["t"]
    world.topics["t"] = topic_image("t", 4, b"successor-of-t-.")
    world.commit({("t", 2): 8}, group="other")
    world.show(MetadataDelta(deleted=(old,), created=(world.topics["t"],)))
    assert world.committed() == {("u", 0): 6}
    assert world.committed("other") == {("t", 2): 8}


def test_deleting_offsets_of_a_deleted_topic_is_retried() -> None:
    world = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    world.commit({("t", 0): 5, ("u", 0): 6})
    world.log.next_error = OSError(28, "disk full")
    world.show(MetadataDelta(deleted=(world.topics["t"],)))
    assert world.committed() == {("t", 0): 5, ("u", 0): 6}
    world.clock.advance(0)
    assert world.committed() == {("u", 0): 6}


def test_many_offsets_are_deleted_in_several_batches() -> None:
    world = ManualGroupCoordinator(topics=[topic_image("t", 5_000), topic_image("u", 5_000)])
    for topic in ("t", "u"):
        offsets_to_commit = dict.fromkeys(((topic, index) for index in range(5_000)), 1)
        world.commit(offsets_to_commit, retention_ms=HOUR_MS)
    sizes: list[int] = []
    append = world.log.append

    def measured(records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        sizes.append(len(records))
        return append(records, now_ms)

    world.log.append = measured  # type: ignore[method-assign]
    world.show(MetadataDelta(deleted=(world.topics["t"],)))
    world.clock.advance(100)
    assert len(world.committed()) == 5_000
    world.clock.advance(HOUR_MS + SWEEP_MS)
    assert (world.state(), world.committed()) == (None, {})
    # The last offsets and the group itself are in the same batch.
    assert max(sizes) == 501


# Expiration of offsets


def test_offsets_of_a_simple_group_expire_from_their_commit() -> None:
    world = ManualGroupCoordinator()
    world.commit({("t", 0): 5})
    world.clock.advance(DAY_MS)
    world.commit({("t", 1): 6})
    world.clock.advance(6 * DAY_MS - SWEEP_MS)
    assert world.committed() == {("t", 0): 5, ("t", 1): 6}
    world.clock.advance(2 * SWEEP_MS)
    assert world.committed() == {("t", 1): 6}
    world.clock.advance(DAY_MS)
    assert (world.state(), world.committed()) == (None, {})
    assert world.restarted().state() is None


def test_offsets_of_a_classic_group_expire_from_its_empty_state() -> None:
    world = ManualGroupCoordinator()
    (leader,) = world.stable(None, session_ms=2 * HOUR_MS)
    world.commit({("t", 0): 5}, member_id=leader, generation=1)
    keep_alive(world, leader, 1, 10 * 24 * HOUR_MS)
    world.leave((leader, None))
    world.clock.advance(WEEK_MS - SWEEP_MS)
    assert world.committed() == {("t", 0): 5}
    again = world.restarted()
    again.clock.advance(2 * SWEEP_MS)
    assert (again.state(), again.committed()) == (None, {})
    world.clock.advance(2 * SWEEP_MS)
    assert (world.state(), world.committed()) == (None, {})


def keep_alive(world: ManualGroupCoordinator, member_id: str, generation: int, for_ms: int) -> None:
    """Advance time while a member with a long session sends heartbeats."""
    for _ in range(for_ms // HOUR_MS):
        world.clock.advance(HOUR_MS)
        world.heartbeat(member_id, generation)


def test_a_stable_group_loses_old_offsets_of_unsubscribed_topics() -> None:
    world = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    world.commit({("t", 0): 5, ("u", 0): 6})
    join = world.join(protocols={"range": subscription("t")}, session_ms=2 * HOUR_MS)
    world.clock.advance(0)
    member_id = answered(join).member_id
    world.sync(member_id, 1, {})
    keep_alive(world, member_id, 1, WEEK_MS + HOUR_MS)
    assert world.committed() == {("t", 0): 5}
    assert world.state() == "Stable"


def test_nothing_expires_during_a_rebalance_or_with_unreadable_subscriptions() -> None:
    world = ManualGroupCoordinator()
    world.commit({("t", 0): 5})
    join = world.join(protocols={"range": b"?"}, session_ms=2 * HOUR_MS)
    world.clock.advance(0)
    member_id = answered(join).member_id
    world.sync(member_id, 1, {})
    keep_alive(world, member_id, 1, WEEK_MS + HOUR_MS)
    assert world.committed() == {("t", 0): 5}
    assert REBALANCE_MS < HOUR_MS


def test_an_offset_may_have_its_own_expiry() -> None:
    world = ManualGroupCoordinator()
    world.commit({("t", 0): 5}, retention_ms=HOUR_MS)
    world.commit({("t", 1): 6}, retention_ms=30 * DAY_MS)
    value = world.records()[0].value
    assert isinstance(value, OffsetCommitValue)
    assert value.expire_timestamp == world.clock.now_ms() + HOUR_MS
    world.clock.advance(HOUR_MS + SWEEP_MS)
    assert world.committed() == {("t", 1): 6}
    world.clock.advance(WEEK_MS)
    assert world.committed() == {("t", 1): 6}


def test_an_empty_group_without_commits_is_deleted_at_the_next_check() -> None:
    world = ManualGroupCoordinator()
    (leader,) = world.stable(None)
    world.clock.advance(SWEEP_MS // 2)
    world.leave((leader, None))
    world.clock.advance(SWEEP_MS)
    assert world.state() is None
