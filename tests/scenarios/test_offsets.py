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


def refusal_of(coordinator: ManualGroupCoordinator, **claim: object) -> ErrorCode:
    """Return the error of a commit that is refused as a whole."""
    with pytest.raises(KafkaError) as refusal:
        coordinator.commit({("t", 0): 1}, **claim)  # type: ignore[arg-type]
    return refusal.value.code


def test_a_commit_without_membership_creates_a_simple_group() -> None:
    coordinator = ManualGroupCoordinator()
    assert coordinator.commit({("t", 0): 5, ("t", 3): 7}, metadata="note") == [ErrorCode.NONE] * 2
    assert coordinator.committed() == {("t", 0): 5, ("t", 3): 7}
    assert coordinator.state() == "Empty"
    record = coordinator.records()[0]
    assert record.key == OffsetCommitKey(group="g", topic="t", partition=0)
    assert record.value == OffsetCommitValue(
        offset=5,
        leader_epoch=-1,
        metadata="note",
        commit_timestamp=coordinator.clock.now_ms(),
        expire_timestamp=-1,
        topic_id=coordinator.topics["t"].topic_id,
    )


def test_a_commit_of_a_member_of_a_missing_group_is_refused() -> None:
    coordinator = ManualGroupCoordinator()
    assert refusal_of(coordinator, member_id="m", generation=1) is ErrorCode.ILLEGAL_GENERATION
    assert coordinator.state() is None
    assert coordinator.log.entries == []


def test_too_long_metadata_is_refused_for_its_partition_only() -> None:
    coordinator = ManualGroupCoordinator({"offset.metadata.max.bytes": "3"})
    assert coordinator.commit({("t", 0): 1}, metadata="four") == [
        ErrorCode.OFFSET_METADATA_TOO_LARGE
    ]
    assert coordinator.commit({("t", 0): 1}, metadata="abc") == [ErrorCode.NONE]
    # Java counts characters beyond the basic plane twice.
    assert coordinator.commit({("t", 0): 1}, metadata="a\N{PARTY POPPER}") == [ErrorCode.NONE]
    wide = "\N{PARTY POPPER}" * 2
    assert coordinator.commit({("t", 0): 1}, metadata=wide) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]


def test_a_classic_group_validates_commits() -> None:
    coordinator = ManualGroupCoordinator()
    leader, static = coordinator.stable(None, "two")
    if coordinator.machine.classic_group("g").soft.members[leader].group_instance_id:  # type: ignore[union-attr]
        leader, static = static, leader
    assert coordinator.commit({("t", 0): 1}, member_id=leader, generation=1) == [ErrorCode.NONE]
    assert refusal_of(coordinator, member_id=leader, generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert refusal_of(coordinator, member_id=leader) is ErrorCode.ILLEGAL_GENERATION
    assert refusal_of(coordinator, member_id="x", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal_of(coordinator) is ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal_of(coordinator, instance="none") is ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        refusal_of(coordinator, member_id=leader, generation=1, instance="two")
        is ErrorCode.FENCED_INSTANCE_ID
    )
    coordinator.join()
    assert coordinator.state() == "PreparingRebalance"
    assert coordinator.commit({("t", 0): 2}, member_id=leader, generation=1) == [ErrorCode.NONE]
    coordinator.join(leader)
    coordinator.join(static, instance="two")
    assert coordinator.state() == "CompletingRebalance"
    assert (
        refusal_of(coordinator, member_id=leader, generation=2) is ErrorCode.REBALANCE_IN_PROGRESS
    )
    assert coordinator.committed() == {("t", 0): 2}


def test_transactional_commits_are_accepted_during_a_rebalance() -> None:
    coordinator = ManualGroupCoordinator()
    join = coordinator.join()
    coordinator.clock.advance(0)
    member_id = answered(join).member_id
    group = coordinator.machine.classic_group("g")
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
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    coordinator.leave((leader, None))
    assert coordinator.commit({("t", 0): 1}, member_id="any") == [ErrorCode.NONE]
    assert refusal_of(coordinator, member_id=leader, generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_extends_the_session() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    coordinator.clock.advance(SESSION_MS - 1)
    coordinator.commit({("t", 0): 1}, member_id=leader, generation=1)
    coordinator.clock.advance(SESSION_MS - 1)
    assert coordinator.state() == "Stable"
    coordinator.clock.advance(1)
    assert coordinator.state() == "Empty"


def test_offsets_exist_after_a_restart() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({("t", 0): 5})
    coordinator.commit({("t", 0): 6, ("t", 1): 1}, retention_ms=1_000)
    again = coordinator.restarted()
    assert again.committed() == {("t", 0): 6, ("t", 1): 1}
    assert dict(again.machine.offsets.offsets_to_fetch("g", None, -1)) == dict(
        coordinator.machine.offsets.offsets_to_fetch("g", None, -1)
    )


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    coordinator.stable(None)
    deleted = answered(
        coordinator.shard.write(
            lambda machine, _: machine.offsets.delete("g", [("t", 0), ("u", 0), ("u", 0)])
        )
    )
    assert deleted == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE]
    assert coordinator.committed() == {("t", 0): 5}


def test_deleting_offsets_is_refused_if_subscriptions_are_unreadable() -> None:
    coordinator = ManualGroupCoordinator()
    join = coordinator.join(protocol_type="connect", protocols={"default": b"?"})
    coordinator.clock.advance(0)
    member_id = answered(join).member_id
    coordinator.sync(member_id, 1, {})
    with pytest.raises(KafkaError) as refusal:
        coordinator.shard.write(lambda machine, _: machine.offsets.delete("g", [("t", 0)]))
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
    with pytest.raises(KafkaError) as refusal:
        coordinator.shard.write(lambda machine, _: machine.offsets.delete("none", [("t", 0)]))
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_with_an_unreadable_subscription_count_for_every_topic() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({("t", 0): 5})
    join = coordinator.join(protocols={"range": b"\0"})
    coordinator.clock.advance(0)
    coordinator.sync(answered(join).member_id, 1, {})
    deleted = answered(
        coordinator.shard.write(lambda machine, _: machine.offsets.delete("g", [("t", 0)]))
    )
    assert deleted == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_only_an_empty_group_can_be_deleted_with_its_offsets() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({("t", 0): 5, ("t", 1): 6})
    (leader,) = coordinator.stable(None)
    with pytest.raises(KafkaError) as refusal:
        coordinator.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert refusal.value.code is ErrorCode.NON_EMPTY_GROUP
    coordinator.leave((leader, None))
    coordinator.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert (coordinator.state(), coordinator.committed()) == (None, {})
    tombstones = [record.key for record in coordinator.records()[-3:]]
    assert tombstones == [
        OffsetCommitKey(group="g", topic="t", partition=0),
        OffsetCommitKey(group="g", topic="t", partition=1),
        GroupMetadataKey(group="g"),
    ]
    with pytest.raises(KafkaError) as refusal:
        coordinator.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert coordinator.restarted().state() is None


def test_offsets_of_a_deleted_topic_are_deleted_but_not_those_of_a_new_topic() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    coordinator.commit({("t", 1): 7}, group="other")
    old = coordinator.topics["t"]
    coordinator.topics["t"] = topic_image("t", 4, b"successor-of-t-.")
    coordinator.commit({("t", 2): 8}, group="other")
    coordinator.show(MetadataDelta(deleted=(old,), created=(coordinator.topics["t"],)))
    assert coordinator.committed() == {("u", 0): 6}
    assert coordinator.committed("other") == {("t", 2): 8}


def test_deleting_offsets_of_a_deleted_topic_is_retried() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    coordinator.log.next_error = OSError(28, "disk full")
    coordinator.show(MetadataDelta(deleted=(coordinator.topics["t"],)))
    assert coordinator.committed() == {("t", 0): 5, ("u", 0): 6}
    coordinator.clock.advance(0)
    assert coordinator.committed() == {("u", 0): 6}


def test_many_offsets_are_deleted_in_several_batches() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 5_000), topic_image("u", 5_000)])
    for topic in ("t", "u"):
        offsets_to_commit = dict.fromkeys(((topic, index) for index in range(5_000)), 1)
        coordinator.commit(offsets_to_commit, retention_ms=HOUR_MS)
    sizes: list[int] = []
    append = coordinator.log.append

    def measured(records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        sizes.append(len(records))
        return append(records, now_ms)

    coordinator.log.append = measured  # type: ignore[method-assign]
    coordinator.show(MetadataDelta(deleted=(coordinator.topics["t"],)))
    coordinator.clock.advance(100)
    assert len(coordinator.committed()) == 5_000
    coordinator.clock.advance(HOUR_MS + SWEEP_MS)
    assert (coordinator.state(), coordinator.committed()) == (None, {})
    # The last offsets and the group itself are in the same batch.
    assert max(sizes) == 501


# Expiration of offsets


def test_offsets_of_a_simple_group_expire_from_their_commit() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({("t", 0): 5})
    coordinator.clock.advance(DAY_MS)
    coordinator.commit({("t", 1): 6})
    coordinator.clock.advance(6 * DAY_MS - SWEEP_MS)
    assert coordinator.committed() == {("t", 0): 5, ("t", 1): 6}
    coordinator.clock.advance(2 * SWEEP_MS)
    assert coordinator.committed() == {("t", 1): 6}
    coordinator.clock.advance(DAY_MS)
    assert (coordinator.state(), coordinator.committed()) == (None, {})
    assert coordinator.restarted().state() is None


def test_offsets_of_a_classic_group_expire_from_its_empty_state() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None, session_ms=2 * HOUR_MS)
    coordinator.commit({("t", 0): 5}, member_id=leader, generation=1)
    keep_alive(coordinator, leader, 1, 10 * 24 * HOUR_MS)
    coordinator.leave((leader, None))
    coordinator.clock.advance(WEEK_MS - SWEEP_MS)
    assert coordinator.committed() == {("t", 0): 5}
    again = coordinator.restarted()
    again.clock.advance(2 * SWEEP_MS)
    assert (again.state(), again.committed()) == (None, {})
    coordinator.clock.advance(2 * SWEEP_MS)
    assert (coordinator.state(), coordinator.committed()) == (None, {})


def keep_alive(
    coordinator: ManualGroupCoordinator, member_id: str, generation: int, for_ms: int
) -> None:
    """Advance time while a member with a long session sends heartbeats."""
    for _ in range(for_ms // HOUR_MS):
        coordinator.clock.advance(HOUR_MS)
        coordinator.heartbeat(member_id, generation)


def test_a_stable_group_loses_old_offsets_of_unsubscribed_topics() -> None:
    coordinator = ManualGroupCoordinator(topics=[topic_image("t", 4), topic_image("u", 1)])
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    join = coordinator.join(protocols={"range": subscription("t")}, session_ms=2 * HOUR_MS)
    coordinator.clock.advance(0)
    member_id = answered(join).member_id
    coordinator.sync(member_id, 1, {})
    keep_alive(coordinator, member_id, 1, WEEK_MS + HOUR_MS)
    assert coordinator.committed() == {("t", 0): 5}
    assert coordinator.state() == "Stable"


def test_nothing_expires_during_a_rebalance_or_with_unreadable_subscriptions() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({("t", 0): 5})
    join = coordinator.join(protocols={"range": b"?"}, session_ms=2 * HOUR_MS)
    coordinator.clock.advance(0)
    member_id = answered(join).member_id
    coordinator.sync(member_id, 1, {})
    keep_alive(coordinator, member_id, 1, WEEK_MS + HOUR_MS)
    assert coordinator.committed() == {("t", 0): 5}
    assert REBALANCE_MS < HOUR_MS


def test_an_offset_may_have_its_own_expiry() -> None:
    coordinator = ManualGroupCoordinator()
    coordinator.commit({("t", 0): 5}, retention_ms=HOUR_MS)
    coordinator.commit({("t", 1): 6}, retention_ms=30 * DAY_MS)
    value = coordinator.records()[0].value
    assert isinstance(value, OffsetCommitValue)
    assert value.expire_timestamp == coordinator.clock.now_ms() + HOUR_MS
    coordinator.clock.advance(HOUR_MS + SWEEP_MS)
    assert coordinator.committed() == {("t", 1): 6}
    coordinator.clock.advance(WEEK_MS)
    assert coordinator.committed() == {("t", 1): 6}


def test_an_empty_group_without_commits_is_deleted_at_the_next_check() -> None:
    coordinator = ManualGroupCoordinator()
    (leader,) = coordinator.stable(None)
    coordinator.clock.advance(SWEEP_MS // 2)
    coordinator.leave((leader, None))
    coordinator.clock.advance(SWEEP_MS)
    assert coordinator.state() is None
