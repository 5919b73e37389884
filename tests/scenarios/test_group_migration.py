"""Scenarios: groups migrate between the classic and the consumer protocol (KIP-848).

The steps are those of a rolling restart: some members use the new protocol, others the old one.
"""

from __future__ import annotations

import pytest

from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import MemberState
from kafkalite.groups.group import GroupType
from kafkalite.groups.migration.consumer_protocol import parse_assignment
from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol._generated.messages.join_group import JoinGroupResponse
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.scenarios.group_coordinator import REBALANCE_MS, SESSION_MS, answered, topic_image, waits
from tests.scenarios.migration_coordinator import ManualMigrationCoordinator, coordinator_of, words

CANNOT_UPGRADE = "Cannot upgrade classic group g to consumer group because"
NONE, REBALANCE = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


def kinds(coordinator: ManualMigrationCoordinator, since: int) -> list[str]:
    """Return the kinds of the written records, a dagger for a tombstone."""
    return [
        type(record.key).__name__.removesuffix("Key") + ("" if record.value is not None else "†")
        for record in coordinator.written_since(since)
    ]


def mixed(coordinator: ManualMigrationCoordinator) -> tuple[str, str]:
    """Return a classic and a consumer member that share four partitions of `t`, both reconciled."""
    (classic,) = coordinator.classic([0, 1, 2, 3])
    assert coordinator.consume("c").member_epoch == 2
    joined = coordinator.rejoin(classic, owned={"t": [0, 1, 2, 3]})
    assert joined.generation_id == 1, "it has something to revoke first"
    retained = coordinator.synced(classic, 1)
    joined = coordinator.rejoin(classic, owned={"t": retained})
    assert joined.generation_id == 2
    assert coordinator.synced(classic, 2) == retained
    assert len(coordinator.given(coordinator.consume("c", 2, owned={}))) == 2
    assert coordinator.state() == "Stable"
    return classic, "c"


# Upgrade


def test_a_joining_consumer_upgrades_the_group_without_a_lost_partition() -> None:
    coordinator = coordinator_of()
    first, second = coordinator.classic([0, 1], [2, 3])
    since = len(coordinator.records())
    answer = coordinator.consume("c")
    assert (answer.error_code, answer.member_epoch) == (NONE, 2)
    assert coordinator.given(answer) == []
    group = coordinator.consumer_group()
    assert (group.epoch, group.target_epoch) == (2, 2)
    for member_id, share in ((first, {0, 1}), (second, {2, 3})):
        current = group.current[member_id]
        assert (current.member_epoch, current.previous_member_epoch) == (1, 1)
        assert current.state is MemberState.STABLE
        assert current.assigned == {coordinator.topic_id(): dict.fromkeys(share, 1)}
        classic = group.members[member_id].classic
        assert classic is not None
        assert classic.session_timeout_ms == SESSION_MS
        assert classic.protocols == (("range", words("t")),)
    assert group.members["c"].classic is None
    assert kinds(coordinator, since) == [
        "GroupMetadata†",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupCurrentMemberAssignment",
        # The records after this are of a consumer group with a new member.
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        *["ConsumerGroupTargetAssignmentMember"] * (len(kinds(coordinator, since)) - 13),
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_other_policies_do_not_upgrade_a_classic_group(policy: str) -> None:
    coordinator = coordinator_of(policy=policy)
    (member,) = coordinator.classic([0, 1, 2, 3])
    before = coordinator.records()
    with pytest.raises(KafkaError) as refusal:
        coordinator.consume("c")
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal.value.facts is not None
    assert refusal.value.facts["rule"] == "migration"
    assert refusal.value.message == f"{CANNOT_UPGRADE} online upgrade is disabled."
    assert refusal.value.explanation == (
        "The classic group g cannot become a consumer group: "
        f"group.consumer.migration.policy is {policy}."
    )
    assert coordinator.heartbeat(member, 1) is NONE
    assert coordinator.records() == before


def test_a_group_of_another_protocol_type_is_not_upgraded() -> None:
    coordinator = coordinator_of()
    join = coordinator.join(protocol_type="connect", protocols={"range": b"anything"})
    coordinator.clock.advance(0)
    coordinator.sync(answered(join).member_id, 1, {answered(join).member_id: b"anything"})
    with pytest.raises(KafkaError) as refusal:
        coordinator.consume("c")
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal.value.message == (
        f"{CANNOT_UPGRADE} the group does not use the consumer embedded protocol."
    )


def test_a_group_too_large_for_a_consumer_group_is_not_upgraded() -> None:
    coordinator = coordinator_of(group_consumer_max_size="1")
    coordinator.classic([0, 1], [2, 3])
    with pytest.raises(KafkaError) as refusal:
        coordinator.consume("c")
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal.value.message == (
        f"{CANNOT_UPGRADE} the group size exceeds the consumer group maximum size."
    )


def test_a_full_group_is_not_upgraded() -> None:
    coordinator = coordinator_of(group_consumer_max_size="1")
    coordinator.classic([0, 1, 2, 3])
    with pytest.raises(KafkaError) as refusal:
        coordinator.consume("c")
    assert refusal.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert isinstance(coordinator.machine.group("g"), ClassicGroup)


@pytest.mark.parametrize(
    ("metadata", "assignment"),
    [
        (b"", b""),
        (b"\0", b""),
        (b"\xff\xff\0\0\0\0\xff\xff\xff\xff", b""),
        (b"\0\1\0\0\0\1\0\1", b""),
        (words("t"), b"\0"),
        (words("t"), b"\0\1\0\0\0\1\0\1t\0\0\0\1"),
        # User data of an assignor, which a consumer group has no field for.
        (words("t"), b"\0\1\0\0\0\0\0\0\0\1x"),
    ],
)
def test_a_group_with_unreadable_bytes_is_not_upgraded(metadata: bytes, assignment: bytes) -> None:
    coordinator = coordinator_of()
    join = coordinator.join(protocols={"range": metadata})
    coordinator.clock.advance(0)
    member = answered(join).member_id
    coordinator.sync(member, 1, {member: assignment})
    before = coordinator.records()
    with pytest.raises(KafkaError) as refusal:
        coordinator.consume("c")
    assert refusal.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal.value.message == (
        f"{CANNOT_UPGRADE} an unsupported custom assignor is in use. Please refer to the "
        "documentation or switch to a default assignor before re-attempting the upgrade."
        if assignment.endswith(b"x")
        else f"{CANNOT_UPGRADE} the embedded consumer protocol is malformed."
    )
    assert coordinator.records() == before
    assert coordinator.heartbeat(member, 1) is NONE


def test_a_member_that_waits_in_a_rebalance_gets_rebalance_in_progress() -> None:
    coordinator = coordinator_of()
    leader, follower = coordinator.classic([0, 1], [2, 3])
    again = coordinator.join(follower, protocols={"range": words("t", "u")})
    assert waits(again)
    assert coordinator.state() == "PreparingRebalance"
    coordinator.consume("c")
    refused = answered(again)
    assert (refused.error_code, refused.member_id) == (REBALANCE, follower)
    # All members retain their partitions until they report otherwise.
    assert coordinator.heartbeat(leader, 1) is REBALANCE
    assert coordinator.heartbeat(follower, 1) is REBALANCE


def test_a_member_that_waits_for_an_assignment_gets_rebalance_in_progress() -> None:
    coordinator = coordinator_of()
    joins = [coordinator.join(protocols={"range": words("t")}) for _ in range(2)]
    coordinator.clock.advance(0)
    leader, follower = (answered(join) for join in joins)
    sync = coordinator.sync(follower.member_id, 1)
    assert waits(sync)
    coordinator.consume("c")
    assert answered(sync).error_code is REBALANCE
    for each in (leader, follower):
        assert coordinator.consumer_group().current[each.member_id].assigned == {}
        assert answered(coordinator.sync(each.member_id, 1)).error_code is REBALANCE


def test_a_group_without_a_selected_protocol_cannot_be_upgraded() -> None:
    coordinator = coordinator_of(group_initial_rebalance_delay_ms="3000")
    join = coordinator.join(protocols={"range": words("t")})
    with pytest.raises(KafkaError) as refusal:
        coordinator.consume("c")
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    coordinator.clock.advance(3_000)
    assert answered(join).error_code is NONE


def test_timers_of_the_classic_group_have_no_effect_after_the_upgrade() -> None:
    coordinator = coordinator_of()
    first, _second = coordinator.classic([0, 1], [2, 3])
    coordinator.join(first, protocols={"range": words("t", "u")})
    coordinator.consume("c")
    before = coordinator.records()
    coordinator.clock.advance(SESSION_MS - 1)
    assert coordinator.records() == before


def test_members_retain_their_session_timeouts() -> None:
    coordinator = coordinator_of()
    (classic,) = coordinator.classic([0, 1, 2, 3])
    coordinator.consume("c")
    coordinator.clock.advance(SESSION_MS - 1)
    assert classic in coordinator.consumer_group().members
    coordinator.clock.advance(1)
    assert coordinator.consumer_group().members.keys() == {"c"}


def test_a_member_id_given_before_the_upgrade_remains_valid() -> None:
    coordinator = coordinator_of()
    coordinator.classic([0, 1, 2, 3])
    answer = answered(coordinator.join(knows_ids=True, protocols={"range": words("t")}))
    assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
    coordinator.consume("c")
    assert coordinator.rejoin(answer.member_id).error_code is NONE
    assert len(coordinator.consumer_group().members) == 3


def test_a_static_member_switches_with_a_new_id_and_retains_its_partitions() -> None:
    coordinator = coordinator_of()
    (member,) = coordinator.classic([0, 1, 2, 3], instance0="i")
    answer = coordinator.consume("c", instance="i")
    assert (answer.member_epoch, coordinator.given(answer)) == (1, [0, 1, 2, 3])
    group = coordinator.consumer_group()
    assert group.static_members == {"i": "c"}
    assert group.members.keys() == {"c"}
    assert coordinator.heartbeat(member, 1, instance="i") is ErrorCode.FENCED_INSTANCE_ID
    coordinator.clock.advance(SESSION_MS)
    assert coordinator.consumer_group().members.keys() == {"c"}, "the old id's session is over"


def test_deleted_topics_are_not_taken_over() -> None:
    coordinator = ManualMigrationCoordinator(topics=[topic_image("t", 2), topic_image("u", 2)])
    join = coordinator.join(protocols={"range": words("t", "u")})
    coordinator.clock.advance(0)
    member = answered(join).member_id
    coordinator.sync(member, 1, {member: coordinator.assignment(t=[0, 1], u=[0, 1])})
    del coordinator.topics["u"]
    coordinator.show(MetadataDelta())
    coordinator.consume("c")
    assert coordinator.consumer_group().current[member].assigned.keys() == {
        coordinator.topic_id("t")
    }


def test_empty_groups_are_replaced_under_every_policy() -> None:
    coordinator = coordinator_of(policy="disabled")
    (member,) = coordinator.classic([0, 1, 2, 3])
    coordinator.commit({("t", 0): 7}, member_id=member, generation=1)
    coordinator.leave((member, None))
    assert coordinator.consume("c").error_code == NONE
    assert coordinator.committed() == {("t", 0): 7}
    coordinator.consume("c", -1)
    join = coordinator.join(protocols={"range": words("t")})
    coordinator.clock.advance(0)
    assert answered(join).error_code is NONE
    found = coordinator.machine.group("g")
    assert found is not None
    assert found.group_type is GroupType.CLASSIC
    assert coordinator.committed() == {("t", 0): 7}


# Members with the classic protocol in a consumer group


def test_a_cooperative_member_revokes_step_by_step() -> None:
    coordinator = coordinator_of()
    (classic,) = coordinator.classic([0, 1, 2, 3])
    coordinator.consume("c")
    assert coordinator.heartbeat(classic, 1) is REBALANCE
    joined = coordinator.rejoin(classic, owned={"t": [0, 1, 2, 3]})
    assert joined == JoinGroupResponse(
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="",
        member_id=classic,
    )
    retained = coordinator.synced(classic, 1)
    assert len(retained) == 2
    assert coordinator.consumer_group().current[classic].state is MemberState.UNREVOKED_PARTITIONS
    # It gets REBALANCE_IN_PROGRESS until it has reported the revocation.
    assert coordinator.heartbeat(classic, 1) is REBALANCE
    assert coordinator.rejoin(classic, owned={"t": [0, 1, 2, 3]}).generation_id == 1
    assert coordinator.rejoin(classic, owned={"t": retained}).generation_id == 2
    assert coordinator.synced(classic, 2) == retained
    assert coordinator.heartbeat(classic, 2) is NONE
    answer = coordinator.consume("c", 2)
    assert sorted([*coordinator.given(answer), *retained]) == [0, 1, 2, 3]


def test_new_members_get_an_id_first_from_join_group_v4_on() -> None:
    coordinator = coordinator_of()
    coordinator.consume("c")
    before = coordinator.records()
    answer = answered(coordinator.join(knows_ids=True, protocols={"range": words("t")}))
    assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert len(answer.member_id) == 22
    assert coordinator.records() == before
    assert coordinator.consumer_group().members.keys() == {"c"}, "nothing is remembered of it"
    joined = answered(
        coordinator.join(answer.member_id, knows_ids=True, protocols={"range": words("t")})
    )
    assert (joined.error_code, joined.member_id) == (NONE, answer.member_id)


@pytest.mark.parametrize(
    ("kind", "protocol"),
    [
        ("connect", "range"),
        ("", "range"),
        ("consumer", "sticky"),
    ],
)
def test_a_classic_member_must_share_a_protocol_with_the_others(kind: str, protocol: str) -> None:
    coordinator = coordinator_of()
    coordinator.classic([0, 1, 2, 3])
    coordinator.consume("c")
    before = coordinator.records()
    answer = answered(coordinator.join(protocol_type=kind, protocols={protocol: words("t")}))
    assert answer.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert (answer.member_id, answer.generation_id) == ("", -1)
    assert coordinator.records() == before


def test_an_unreadable_subscription_is_refused() -> None:
    coordinator = coordinator_of()
    coordinator.consume("c")
    before = coordinator.records()
    answer = answered(coordinator.join(protocols={"range": b"\0"}))
    assert answer.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert coordinator.records() == before


def test_a_full_consumer_group_accepts_no_classic_member() -> None:
    coordinator = coordinator_of(group_consumer_max_size="1")
    coordinator.consume("c")
    answer = answered(coordinator.join(protocols={"range": words("t")}))
    assert answer.error_code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_with_policy_disabled_no_classic_member_joins_again() -> None:
    coordinator = coordinator_of()
    classic, _consumer = mixed(coordinator)
    coordinator = coordinator.reloaded("disabled")
    for member_id in ("", classic):
        answer = answered(coordinator.join(member_id, protocols={"range": words("t")}))
        assert answer.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # Existing members may remain.
    assert coordinator.heartbeat(classic, 2) is NONE


@pytest.mark.parametrize("policy", ["upgrade", "downgrade", "bidirectional"])
def test_with_every_other_policy_classic_members_join(policy: str) -> None:
    coordinator = coordinator_of(policy=policy)
    coordinator.consume("c")
    assert coordinator.rejoin("").error_code is NONE


def test_a_leaving_member_increases_the_group_epoch() -> None:
    coordinator = coordinator_of()
    classic, _consumer = mixed(coordinator)
    response = coordinator.leave((classic, None), ("unknown", None))
    codes = [each.error_code for each in response.members]
    assert codes == [NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert coordinator.consumer_group().members.keys() == {"c"}
    assert coordinator.epochs() == (3, 2)
    assert coordinator.given(coordinator.consume("c", 2)) == [0, 1, 2, 3]


def test_a_changed_subscription_increases_the_group_epoch() -> None:
    coordinator = ManualMigrationCoordinator(topics=[topic_image("t", 2), topic_image("u", 2)])
    coordinator.consume("c")
    joined = coordinator.rejoin("")
    assert coordinator.rejoin(joined.member_id).generation_id == joined.generation_id
    assert coordinator.epochs()[0] == joined.generation_id
    again = coordinator.rejoin(joined.member_id, "t", "u")
    assert again.generation_id == joined.generation_id + 1


# Timers of classic members


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    coordinator = coordinator_of()
    (classic,) = coordinator.classic([0, 1, 2, 3])
    coordinator.consume("c")
    assert coordinator.heartbeat(classic, 1) is REBALANCE
    for _ in range(9):
        coordinator.clock.advance(6_000)
        # Another REBALANCE_IN_PROGRESS does not extend the time, nor do heartbeats.
        assert coordinator.heartbeat(classic, 1) is REBALANCE
        coordinator.consume("c", 2)
    assert classic in coordinator.consumer_group().members
    coordinator.clock.advance(6_000)
    assert coordinator.consumer_group().members.keys() == {"c"}


def test_a_member_that_rejoins_in_time_remains() -> None:
    coordinator = coordinator_of()
    (classic,) = coordinator.classic([0, 1, 2, 3])
    coordinator.consume("c")
    assert coordinator.heartbeat(classic, 1) is REBALANCE
    coordinator.rejoin(classic)
    coordinator.synced(classic, 2)
    for _ in range(12):
        coordinator.clock.advance(6_000)
        assert coordinator.heartbeat(classic, 2) is NONE
        coordinator.consume("c", 2)
    assert classic in coordinator.consumer_group().members


def test_a_member_that_never_syncs_is_removed() -> None:
    coordinator = coordinator_of()
    coordinator.consume("c")
    classic = coordinator.rejoin("").member_id
    for _ in range(9):
        coordinator.clock.advance(6_000)
        coordinator.heartbeat(classic, 3)
        coordinator.consume("c", 2)
    assert classic in coordinator.consumer_group().members
    coordinator.clock.advance(6_000)
    assert coordinator.consumer_group().members.keys() == {"c"}


def test_a_member_that_switched_protocols_need_not_join_or_sync() -> None:
    coordinator = coordinator_of()
    coordinator.consume("c")
    classic = coordinator.rejoin("").member_id
    coordinator.heartbeat(classic, 3)
    epoch = coordinator.consume(classic).member_epoch
    other = coordinator.consume("c", 2, owned={}).member_epoch
    for _ in range(4):
        coordinator.clock.advance(REBALANCE_MS // 3)
        other = coordinator.consume("c", other).member_epoch
        epoch = coordinator.consume(classic, epoch).member_epoch
    assert classic in coordinator.consumer_group().members


def test_after_a_restart_every_member_has_a_new_session() -> None:
    coordinator = coordinator_of()
    classic, _consumer = mixed(coordinator)
    coordinator.clock.advance(SESSION_MS - 1)
    again = coordinator.reloaded()
    assert again.heartbeat(classic, 2) is NONE
    again.clock.advance(SESSION_MS - 1)
    assert classic in again.consumer_group().members
    again.clock.advance(1)
    assert isinstance(again.machine.group("g"), ConsumerGroup)
    assert classic not in again.consumer_group().members


# Downgrade


def test_the_group_is_downgraded_when_the_last_consumer_leaves() -> None:
    coordinator = coordinator_of()
    classic, consumer = mixed(coordinator)
    retained = coordinator.synced(classic, 2)
    coordinator.commit({("t", 0): 5}, member_id=classic, generation=2)
    since = len(coordinator.records())
    coordinator.consume(consumer, -1)
    assert kinds(coordinator, since) == [
        *["ConsumerGroupCurrentMemberAssignment†"] * 2,
        *["ConsumerGroupTargetAssignmentMember†"] * 2,
        "ConsumerGroupTargetAssignmentMetadata†",
        *["ConsumerGroupMemberMetadata†"] * 2,
        "ConsumerGroupPartitionMetadata†",
        "ConsumerGroupMetadata†",
        "GroupMetadata",
    ]
    recorded = coordinator.last_group_record()
    assert recorded is not None
    assert (recorded.generation, recorded.protocol_type, recorded.protocol) == (
        2, "consumer", "range",
    )  # fmt: skip
    assert recorded.leader == classic
    assert recorded.current_state_timestamp == coordinator.clock.now_ms()
    (member,) = recorded.members
    assert (member.member_id, member.session_timeout) == (classic, SESSION_MS)
    assert sorted(parse_assignment(member.assignment).partitions["t"]) == retained
    assert coordinator.state() == "PreparingRebalance"
    assert coordinator.heartbeat(classic, 2) is REBALANCE
    join = coordinator.join(classic, protocols={"range": words("t", owned={"t": retained})})
    joined = answered(join)
    assert (joined.generation_id, joined.leader) == (3, classic)
    assert [each.member_id for each in joined.members] == [classic]
    coordinator.sync(classic, 3, {classic: coordinator.assignment(t=range(4))})
    assert coordinator.state() == "Stable"
    assert coordinator.committed() == {("t", 0): 5}


def test_the_expiry_of_the_last_consumer_downgrades_the_group() -> None:
    coordinator = coordinator_of()
    classic, _consumer = mixed(coordinator)
    for _ in range(9):
        assert coordinator.heartbeat(classic, 2) is NONE
        coordinator.clock.advance(5_000)
    assert coordinator.state() == "PreparingRebalance"
    assert isinstance(coordinator.machine.group("g"), ClassicGroup)


def test_the_revocation_timeout_of_the_last_consumer_downgrades_the_group() -> None:
    coordinator = coordinator_of()
    coordinator.consume("c", rebalance_ms=20_000)
    classic = coordinator.rejoin("").member_id
    coordinator.synced(classic, 3)
    coordinator.consume("c", 2)
    for _ in range(4):
        assert coordinator.heartbeat(classic, 3) is NONE
        assert isinstance(coordinator.machine.group("g"), ConsumerGroup)
        coordinator.consume("c", 2)
        coordinator.clock.advance(5_000)
    assert isinstance(coordinator.machine.group("g"), ClassicGroup)


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_other_policies_do_not_downgrade_a_consumer_group(policy: str) -> None:
    coordinator = coordinator_of()
    classic, consumer = mixed(coordinator)
    coordinator = coordinator.reloaded(policy)
    coordinator.consume(consumer, -1)
    group = coordinator.consumer_group()
    assert group.members.keys() == {classic}
    assert coordinator.epochs() == (3, 2)


def test_a_group_too_large_for_a_classic_group_is_not_downgraded() -> None:
    coordinator = coordinator_of(group_max_size="1")
    coordinator.consume("c")
    coordinator.rejoin("")
    coordinator.rejoin("")
    coordinator.consume("c", -1)
    assert len(coordinator.consumer_group().members) == 2


def test_a_classic_member_that_replaces_the_last_consumer_downgrades_the_group() -> None:
    """The target is current and the new member takes it over, so no rebalance is needed."""
    coordinator = coordinator_of()
    coordinator.consume("c", instance="i")
    since = len(coordinator.records())
    joined = coordinator.rejoin("", instance="i")
    member = joined.member_id
    assert (joined.error_code, joined.generation_id, joined.leader) == (NONE, 2, "")
    assert kinds(coordinator, since) == [
        "ConsumerGroupCurrentMemberAssignment†",
        "ConsumerGroupTargetAssignmentMember†",
        "ConsumerGroupMemberMetadata†",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupCurrentMemberAssignment",
        "ConsumerGroupCurrentMemberAssignment†",
        "ConsumerGroupTargetAssignmentMember†",
        "ConsumerGroupTargetAssignmentMetadata†",
        "ConsumerGroupMemberMetadata†",
        "ConsumerGroupPartitionMetadata†",
        "ConsumerGroupMetadata†",
        "GroupMetadata",
    ]
    assert coordinator.state() == "Stable"
    assert coordinator.synced(member, 2, instance="i") == [0, 1, 2, 3]
    assert coordinator.heartbeat(member, 2, instance="i") is NONE


def test_a_classic_replacement_under_other_policies_joins_the_consumer_group() -> None:
    coordinator = coordinator_of(policy="upgrade")
    coordinator.consume("c", instance="i")
    joined = coordinator.rejoin("", instance="i")
    assert joined.generation_id == 2
    assert coordinator.synced(joined.member_id, 2, instance="i") == [0, 1, 2, 3]
    assert coordinator.consumer_group().members.keys() == {joined.member_id}


def test_a_classic_replacement_ends_the_regex_subscription() -> None:
    coordinator = coordinator_of()
    coordinator.consume("d")
    coordinator.consume("c", instance="i", topics=(), regex="t.*")
    coordinator.clock.advance(0)
    assert coordinator.consumer_group().resolved_regexes.keys() == {"t.*"}
    coordinator.rejoin("", instance="i")
    assert coordinator.consumer_group().resolved_regexes == {}
    assert not coordinator.consumer_group().regex_subscribers


def test_a_downgraded_group_has_its_own_timers() -> None:
    coordinator = coordinator_of()
    classic, consumer = mixed(coordinator)
    coordinator.consume(consumer, -1)
    coordinator.clock.advance(SESSION_MS)
    assert coordinator.state() == "Empty"
    assert classic not in {each.member_id for each in coordinator.last_group_record().members}  # type: ignore[union-attr]


def test_a_group_can_be_migrated_repeatedly() -> None:
    coordinator = coordinator_of()
    classic, consumer = mixed(coordinator)
    coordinator.consume(consumer, -1)
    joined = answered(coordinator.join(classic, protocols={"range": words("t")}))
    assert joined.generation_id == 3
    coordinator.sync(classic, 3, {classic: coordinator.assignment(t=range(4))})
    answer = coordinator.consume("e")
    assert answer.member_epoch == 4
    assert coordinator.rejoin(classic).generation_id == 4
    assert coordinator.state() == "Reconciling"
    assert coordinator.consume("e", 4).member_epoch == 4
    assert coordinator.state() == "Stable"


# Failures


def test_an_upgrade_that_cannot_be_stored_has_no_effect() -> None:
    coordinator = coordinator_of()
    leader, follower = coordinator.classic([0, 1], [2, 3])
    again = coordinator.join(follower, protocols={"range": words("t", "u")})
    coordinator.log.next_error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(KafkaError) as refusal:
        coordinator.consume("c")
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    assert coordinator.state() == "Stable"
    assert coordinator.heartbeat(leader, 1) is NONE
    assert isinstance(answered(again), KafkaError)
    coordinator.clock.advance(SESSION_MS - 1)
    assert coordinator.heartbeat(leader, 1) is NONE
    assert coordinator.heartbeat(follower, 1) is NONE
    assert coordinator.consume("c").member_epoch == 2


def test_a_downgrade_that_cannot_be_stored_has_no_effect() -> None:
    coordinator = coordinator_of()
    classic, consumer = mixed(coordinator)
    before = coordinator.records()
    coordinator.log.next_error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    with pytest.raises(KafkaError):
        coordinator.consume(consumer, -1)
    assert coordinator.records() == before
    assert coordinator.machine.directory.unreplayed_groups == {}
    assert coordinator.consumer_group().members.keys() == {classic, consumer}
    coordinator.clock.advance(SESSION_MS - 1)
    assert coordinator.heartbeat(classic, 2) is NONE
    assert coordinator.consume(consumer, 2).member_epoch == 2
    coordinator.consume(consumer, -1)
    assert coordinator.state() == "PreparingRebalance"


def test_a_restart_in_any_state_changes_nothing() -> None:
    coordinator = coordinator_of()
    classic, consumer = mixed(coordinator)
    for log in (None, coordinator.log.compact(), coordinator.log.compact(keep_tombstones=True)):
        again = coordinator.reloaded(log=log)
        assert again.heartbeat(classic, 2) is NONE
        assert again.consume(consumer, 2).member_epoch == 2
    coordinator.consume(consumer, -1)
    for log in (None, coordinator.log.compact(), coordinator.log.compact(keep_tombstones=True)):
        again = coordinator.reloaded(log=log)
        # A classic group is Stable after loading; its members request the rebalance.
        assert again.state() == "Stable"
        assert again.heartbeat(classic, 2) is NONE


# The history


def facts_of(coordinator: ManualMigrationCoordinator, kind: str) -> list[dict[str, object]]:
    """Return the facts of every event of a kind."""
    return [dict(event.facts) for event in coordinator.history.about("g") if event.kind == kind]


def test_upgrades_and_downgrades_have_reasons() -> None:
    coordinator = coordinator_of()
    classic, consumer = mixed(coordinator)
    coordinator.consume(consumer, -1)
    assert facts_of(coordinator, "upgraded") == [
        {"epoch": 1, "classic_members": 1, "classic_state": "Stable"}
    ]
    assert facts_of(coordinator, "downgraded") == [
        {"generation": 2, "removed_members": [consumer], "rebalances": True}
    ]
    assert [each.get("rule") for each in facts_of(coordinator, "rebalance")][-1] == "downgrade"
    assert {each["protocol"] for each in facts_of(coordinator, "joined") if "protocol" in each} == {
        "consumer"
    }
    assert [each["member_id"] for each in facts_of(coordinator, "rejoined")][:1] == [classic]


def test_a_member_is_asked_to_rejoin_once_per_step() -> None:
    coordinator = coordinator_of()
    (classic,) = coordinator.classic([0, 1, 2, 3])
    coordinator.consume("c")
    for _ in range(3):
        coordinator.heartbeat(classic, 1)
        coordinator.sync(classic, 1)
    assert facts_of(coordinator, "rejoin-requested") == [
        {"member_id": classic, "member_epoch": 1, "group_epoch": 2, "timeout_ms": REBALANCE_MS}
    ]


def test_refusals_have_reasons() -> None:
    coordinator = coordinator_of(policy="disabled")
    coordinator.consume("c")
    coordinator.join(protocols={"range": words("t")})
    coordinator.heartbeat("unknown", 2)
    coordinator.sync("c", 2)
    refused = facts_of(coordinator, "refused")
    assert [each["error"] for each in refused] == [
        "INCONSISTENT_GROUP_PROTOCOL",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
    ]
    assert (refused[0]["rule"], refused[0]["reason"]) == ("migration", "disabled")


def test_assignments_need_a_readable_version() -> None:
    """The upgrade reads only the selected protocol of a classic group."""
    coordinator = coordinator_of()
    join = coordinator.join(protocols={"torn": b"\0", "range": words("t")})
    coordinator.clock.advance(0)
    other = coordinator.join(protocols={"range": words("t")})
    member = answered(join).member_id
    coordinator.join(member, protocols={"torn": b"\0", "range": words("t")})
    leader, follower = member, answered(other).member_id
    shares = {leader: coordinator.assignment(t=[0, 1]), follower: coordinator.assignment(t=[2, 3])}
    coordinator.sync(follower, 2)
    coordinator.sync(leader, 2, shares)
    assert coordinator.state() == "Stable"
    coordinator.consume(follower)
    assert answered(coordinator.sync(leader, 2)).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.heartbeat(leader, 2) is NONE
    # A classic group could not encode its assignment either, so it has none.
    coordinator.consume(follower, -1)
    assert coordinator.consumer_group().members.keys() == {leader}


def test_a_join_that_cannot_be_stored_has_no_effect() -> None:
    coordinator = coordinator_of()
    coordinator.consume("c")
    before = coordinator.records()
    coordinator.log.next_error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
    with pytest.raises(KafkaError) as refusal:
        coordinator.join("m", protocols={"range": words("t")})
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.records() == before
    assert coordinator.heartbeat("m", 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert coordinator.rejoin("m").generation_id == 3
