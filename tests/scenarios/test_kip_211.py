"""Scenarios of KIP-211, Revise Expiration Semantics of Consumer Group Offsets, by its sections.

Where released Kafka differs, the scenario says so and expects Kafka's behaviour: the retention time
was removed from OffsetCommit in version 5, not 4, and offsets of KIP-848 groups expire by their
commits.
"Another Related Change" concerns the console consumer only.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.table import find_api
from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.modern.member import Client
from kafkalite.groups.offset_expiration import OffsetExpirationRound
from kafkalite.groups.offsets_topic_records import (
    group_metadata_record,
    offset_commit_record,
    written_version,
)
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.cluster.groups import GroupCluster
from tests.scenarios.group_coordinator import (
    ManualGroupCoordinator,
    answered,
    subscription,
    topic_image,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
SWEEP_MS = 10 * MINUTE_MS
LONG_SESSION_MS = 24 * DAY_MS
"""A session timeout so long that tests need few heartbeats; almost the maximum of an int32."""


def coordinator_of(*topics: str, **config: str) -> ManualGroupCoordinator:
    """Return a coordinator with these topics; underscores in settings stand for dots."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return ManualGroupCoordinator(
        settings, topics=[topic_image(name, 4) for name in topics or ("t",)]
    )


def long_sessions(kind: str) -> dict[str, str]:
    """Return settings with which members of groups of a kind need one heartbeat in an hour."""
    limit = str(2 * HOUR_MS)
    return {
        f"group_{kind}_session_timeout_ms": limit,
        f"group_{kind}_max_session_timeout_ms": limit,
    }


def stable(
    coordinator: ManualGroupCoordinator, *topics: str, protocol_type: str = "consumer"
) -> str:
    """Create a Stable group of one member that reads these topics; return the member's id."""
    protocols = {"range": subscription(*(topics or ("t",)))}
    join = coordinator.join(
        protocols=protocols, session_ms=LONG_SESSION_MS, protocol_type=protocol_type
    )
    coordinator.clock.advance(0)
    member_id = answered(join).member_id
    coordinator.sync(member_id, answered(join).generation_id, {})
    return member_id


def generation_of(coordinator: ManualGroupCoordinator, group: str = "g") -> int:
    found = coordinator.machine.classic_group(group)
    assert found is not None
    return found.soft.generation_id


def is_gone(coordinator: ManualGroupCoordinator, group: str = "g") -> bool:
    """Return whether a group is deleted, both now and after the log is loaded again."""
    is_deleted = coordinator.state(group) is None and coordinator.committed(group) == {}
    assert is_deleted == (coordinator.restarted().state(group) is None)
    return is_deleted


# Motivation


class OldClients:
    """Commits of every version as bytes, through the gateway to a coordinator."""

    def __init__(self, **config: str) -> None:
        self.wire = GroupCluster(
            config={key.replace("_", "."): value for key, value in config.items()}
        )
        self.wire.ask(FindCoordinatorRequest(key="g"), 3)
        self.topic_id = self.wire.create("t", 3)

    def commit(self, version: int, *, retention_ms: int = -1, timestamp_ms: int = -1) -> None:
        row = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=5, commit_timestamp=timestamp_ms
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(
            name="t", topic_id=self.topic_id, partitions=[row]
        )
        request = OffsetCommitRequest(group_id="g", retention_time_ms=retention_ms, topics=[topic])
        response = self.wire.ask(request, version)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE

    def has_offset(self) -> bool:
        rows = [OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        response = self.wire.ask(OffsetFetchRequest(group_id="g", topics=rows), 7)
        return bool(response.topics[0].partitions[0].committed_offset == 5)

    def value_versions(self) -> list[int]:
        """Return the schema versions of the offset records in the log."""
        return [
            struct.unpack_from(">h", value)[0]
            for log in self.wire.logs.values()
            for key, value in log.entries
            if key is not None and value is not None and struct.unpack_from(">h", key)[0] == 1
        ]

    def lifetime_ms(self, limit_ms: int) -> int | None:
        """Advance time until the offset has expired; return the elapsed time up to the check."""
        begin_ms = self.wire.clock.now_ms()
        while self.wire.clock.now_ms() < begin_ms + limit_ms:
            self.wire.clock.advance(SWEEP_MS)
            if not self.has_offset():
                return self.wire.clock.now_ms() - begin_ms
        return None


def test_version_0_is_not_served() -> None:
    api = find_api(OffsetCommitRequest.API_KEY)
    assert api is not None
    assert api.versions.lowest == 1


def test_version_1_without_a_timestamp_expires_by_the_brokers_retention_from_now() -> None:
    clients = OldClients(offsets_retention_minutes="60")
    clients.commit(1)
    assert clients.lifetime_ms(3 * HOUR_MS) == HOUR_MS


def test_version_1_with_a_timestamp_expires_from_then() -> None:
    clients = OldClients(offsets_retention_minutes="60")
    clients.commit(1, timestamp_ms=clients.wire.clock.now_ms() - 30 * MINUTE_MS)
    assert clients.lifetime_ms(3 * HOUR_MS) == 30 * MINUTE_MS


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("retention_ms", [0, HOUR_MS, 3 * HOUR_MS])
def test_versions_2_to_4_have_a_retention_time(version: int, retention_ms: int) -> None:
    clients = OldClients(offsets_retention_minutes="120")
    clients.commit(version, retention_ms=retention_ms)
    assert clients.lifetime_ms(5 * HOUR_MS) == max(retention_ms, SWEEP_MS)


@pytest.mark.parametrize("version", range(2, 11))
def test_without_a_retention_time_the_brokers_applies(version: int) -> None:
    clients = OldClients(offsets_retention_minutes="60")
    clients.commit(version)
    assert clients.lifetime_ms(3 * HOUR_MS) == HOUR_MS


def test_a_group_that_commits_rarely_retains_its_offsets_while_it_has_members() -> None:
    """KAFKA-4682, the reason of the proposal."""
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    for _ in range(5):
        coordinator.clock.advance(2 * WEEK_MS)
        coordinator.heartbeat(member_id, 1)
    assert coordinator.state() == "Stable"
    assert coordinator.committed() == {("t", 0): 5}


# Public Interfaces


@pytest.mark.parametrize("version", range(1, 11))
def test_the_retention_time_is_in_the_protocol_of_versions_2_to_4(version: int) -> None:
    """The proposal removes it in version 4. In Kafka, version 4 still has it, version 5 has not."""
    request = OffsetCommitRequest(group_id="g", retention_time_ms=77, topics=[])
    body: list[bytes | memoryview] = []
    codec.request_builder(OffsetCommitRequest.API_KEY, version)(request, body)
    data = b"".join(body)
    parsed, _ = codec.request_parser(OffsetCommitRequest.API_KEY, version)(data, 0, len(data))
    assert isinstance(parsed, OffsetCommitRequest)
    has_field = 2 <= version <= 4
    assert parsed.retention_time_ms == (77 if has_field else -1)
    assert (struct.pack(">q", 77) in data) is has_field


# Proposed Changes: the two schemas


@pytest.mark.parametrize(
    ("version", "retention_ms", "schema"),
    [(2, HOUR_MS, 1), (4, HOUR_MS, 1), (4, -1, 4), (9, -1, 4)],
)
def test_only_an_offset_with_its_own_expiry_has_the_old_schema(
    version: int, retention_ms: int, schema: int
) -> None:
    """The proposal's schema 2 was followed by 3 (leader epoch) and 4 (topic id)."""
    clients = OldClients()
    clients.commit(version, retention_ms=retention_ms)
    assert clients.value_versions() == [schema]


def test_an_offset_with_its_own_expiry_stores_the_time() -> None:
    coordinator = coordinator_of()
    coordinator.commit({("t", 0): 5}, retention_ms=HOUR_MS)
    (record,) = coordinator.records()
    assert record.key == OffsetCommitKey(group="g", topic="t", partition=0)
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.commit_timestamp == coordinator.clock.now_ms()
    assert record.value.expire_timestamp == coordinator.clock.now_ms() + HOUR_MS


def test_a_group_stores_the_time_of_its_last_state_change() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.clock.advance(DAY_MS)
    coordinator.leave((member_id, None))
    recorded = coordinator.last_group_record()
    assert recorded is not None
    assert recorded.current_state_timestamp == coordinator.clock.now_ms()
    key, value = next(entry for entry in reversed(coordinator.log.entries) if entry[0] is not None)
    assert key is not None
    assert value is not None
    assert struct.unpack_from(">h", key)[0] == 2
    assert struct.unpack_from(">h", value)[0] == 3


# Transitioning to Empty State


def test_the_timer_of_all_offsets_starts_when_the_group_becomes_empty() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.clock.advance(3 * DAY_MS)
    coordinator.commit({("t", 1): 6}, member_id=member_id, generation=1)
    coordinator.clock.advance(20 * DAY_MS)
    coordinator.leave((member_id, None))
    coordinator.clock.advance(WEEK_MS - 1)
    assert coordinator.committed() == {("t", 0): 5, ("t", 1): 6}
    coordinator.clock.advance(1)
    assert is_gone(coordinator)


def test_offsets_expire_before_their_group_and_both_write_tombstones() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5, ("t", 3): 6}, member_id=member_id, generation=1)
    coordinator.leave((member_id, None))
    before = len(coordinator.log.entries)
    coordinator.clock.advance(WEEK_MS)
    written = coordinator.records()[before:]
    assert [record.key for record in written] == [
        OffsetCommitKey(group="g", topic="t", partition=0),
        OffsetCommitKey(group="g", topic="t", partition=3),
        GroupMetadataKey(group="g"),
    ]
    assert [record.value for record in written] == [None, None, None]


def test_a_join_stops_the_timer_and_the_last_leave_starts_it_again() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.leave((member_id, None))
    coordinator.clock.advance(6 * DAY_MS)
    member_id = stable(coordinator)
    coordinator.clock.advance(6 * DAY_MS)
    coordinator.leave((member_id, None))
    coordinator.clock.advance(WEEK_MS - 1)
    assert coordinator.committed() == {("t", 0): 5}
    coordinator.clock.advance(1)
    assert is_gone(coordinator)


def test_an_expired_session_starts_the_timer_like_a_leave() -> None:
    coordinator = coordinator_of()
    (member_id,) = coordinator.stable(None)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.clock.advance(HOUR_MS)
    recorded = coordinator.last_group_record()
    assert recorded is not None
    empty_ms = recorded.current_state_timestamp
    assert coordinator.state() == "Empty"
    coordinator.clock.advance(empty_ms + WEEK_MS - coordinator.clock.now_ms() - 1)
    assert coordinator.committed() == {("t", 0): 5}
    coordinator.clock.advance(SWEEP_MS)
    assert is_gone(coordinator)


def test_offsets_do_not_expire_while_a_rebalance_is_prepared() -> None:
    coordinator = coordinator_of("t", "u")
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    join = coordinator.join(session_ms=LONG_SESSION_MS, rebalance_ms=3 * WEEK_MS)
    coordinator.clock.advance(0)
    coordinator.sync(answered(join).member_id, 1, {})
    coordinator.join(session_ms=LONG_SESSION_MS, rebalance_ms=3 * WEEK_MS, knows_ids=True)
    coordinator.join(answered(join).member_id, protocols={"range": subscription("t", "u")})
    coordinator.clock.advance(0)
    assert coordinator.state() == "PreparingRebalance"
    coordinator.shard.write(
        lambda machine, now_ms: machine.offset_expiration.expire(
            OffsetExpirationRound(), now_ms + 2 * WEEK_MS
        )
    )
    assert coordinator.committed() == {("t", 0): 5, ("u", 0): 6}


def test_offsets_do_not_expire_while_a_rebalance_is_completed() -> None:
    coordinator = coordinator_of("t", "u")
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    join = coordinator.join(session_ms=LONG_SESSION_MS, rebalance_ms=3 * WEEK_MS)
    coordinator.clock.advance(2 * WEEK_MS)
    assert answered(join).generation_id == 1
    assert coordinator.state() == "CompletingRebalance"
    assert coordinator.committed() == {("t", 0): 5, ("u", 0): 6}
    # No member sent an assignment: the generation is aborted, and the group becomes Empty.
    coordinator.clock.advance(WEEK_MS)
    assert coordinator.state() == "Empty"


def test_a_deleted_group_has_nothing_to_expire() -> None:
    """A deleted group has the state Dead in the proposal."""
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.leave((member_id, None))
    coordinator.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    before = len(coordinator.log.entries)
    coordinator.clock.advance(2 * WEEK_MS)
    assert len(coordinator.log.entries) == before


def test_the_retention_of_the_broker_applies() -> None:
    coordinator = coordinator_of(offsets_retention_minutes="1")
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.leave((member_id, None))
    # Expiration is checked every ten minutes, independent of the retention.
    coordinator.clock.advance(SWEEP_MS - 1)
    assert coordinator.committed() == {("t", 0): 5}
    coordinator.clock.advance(1)
    assert is_gone(coordinator)


def test_the_check_interval_of_the_broker_applies() -> None:
    coordinator = coordinator_of(
        offsets_retention_minutes="1", offsets_retention_check_interval_ms="90000"
    )
    coordinator.commit({("t", 0): 5})
    coordinator.clock.advance(90_000 - 1)
    assert coordinator.committed() == {("t", 0): 5}
    coordinator.clock.advance(1)
    assert is_gone(coordinator)


def test_the_defaults_are_a_week_and_ten_minutes() -> None:
    config = BrokerConfig.from_text({})
    assert config.int("offsets.retention.minutes") * MINUTE_MS == WEEK_MS
    assert config.int("offsets.retention.check.interval.ms") == SWEEP_MS


def test_the_timer_survives_a_restart() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.leave((member_id, None))
    coordinator.clock.advance(4 * DAY_MS)
    again = coordinator.restarted()
    again.clock.advance(3 * DAY_MS - 1)
    assert again.committed() == {("t", 0): 5}
    again.clock.advance(1)
    assert is_gone(again)


def test_the_timer_survives_compaction() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.leave((member_id, None))
    coordinator.clock.advance(6 * DAY_MS)
    again = coordinator.restarted(coordinator.log.compact())
    again.clock.advance(DAY_MS - 1)
    assert again.committed() == {("t", 0): 5}
    again.clock.advance(1)
    assert is_gone(again)


def test_another_retention_after_a_restart_applies_to_old_offsets_too() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.leave((member_id, None))
    coordinator.clock.advance(2 * DAY_MS)
    again = coordinator.restarted(config={"offsets.retention.minutes": "1440"})
    again.clock.advance(SWEEP_MS)
    assert is_gone(again)


def test_a_group_without_the_time_of_its_state_expires_by_commit() -> None:
    """Group metadata records before schema 2 lack the time of the state."""
    clock_ms = coordinator_of().clock.now_ms()
    serde = CoordinatorSerde(written_version)
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader=None,
        current_state_timestamp=-1, members=[],
    )  # fmt: skip
    commits = [
        offset_commit_record(
            "g", "t", index, OffsetAndMetadata(offset=9, commit_timestamp_ms=at_ms)
        )
        for index, at_ms in enumerate((clock_ms - WEEK_MS, clock_ms - DAY_MS))
    ]
    records = [group_metadata_record("g", value), *commits]
    coordinator = ManualGroupCoordinator(
        log=MemoryCoordinatorLog([serde.encode(record) for record in records])
    )
    coordinator.clock.advance(SWEEP_MS)
    assert coordinator.committed() == {("t", 1): 9}
    coordinator.clock.advance(6 * DAY_MS)
    assert is_gone(coordinator)


# Unsubscribing from a Topic


def test_offsets_of_an_unsubscribed_topic_expire_by_their_commit() -> None:
    coordinator = coordinator_of("t", "u")
    member_id = stable(coordinator, "t", "u")
    coordinator.commit({("t", 0): 5, ("u", 0): 6, ("u", 1): 7}, member_id=member_id, generation=1)
    coordinator.clock.advance(3 * DAY_MS)
    coordinator.commit({("u", 1): 8}, member_id=member_id, generation=1)
    protocols = {"range": subscription("t")}
    coordinator.join(member_id, protocols=protocols, session_ms=LONG_SESSION_MS)
    coordinator.sync(member_id, 2, {})
    coordinator.clock.advance(4 * DAY_MS - 1)
    assert coordinator.committed() == {("t", 0): 5, ("u", 0): 6, ("u", 1): 8}
    coordinator.clock.advance(1)
    assert coordinator.committed() == {("t", 0): 5, ("u", 1): 8}
    coordinator.clock.advance(3 * DAY_MS)
    assert coordinator.committed() == {("t", 0): 5}
    coordinator.clock.advance(WEEK_MS)
    assert (coordinator.state(), coordinator.committed()) == ("Stable", {("t", 0): 5})


def test_a_topic_that_one_member_still_reads_does_not_expire() -> None:
    coordinator = coordinator_of("t", "u")
    joins = [
        coordinator.join(protocols={"range": subscription(topic)}, session_ms=LONG_SESSION_MS)
        for topic in ("t", "u")
    ]
    coordinator.clock.advance(0)
    leader, follower = [answered(join).member_id for join in joins]
    coordinator.sync(leader, 1, {})
    coordinator.sync(follower, 1)
    coordinator.commit({("t", 0): 5, ("u", 0): 6}, member_id=leader, generation=1)
    coordinator.clock.advance(2 * WEEK_MS)
    assert coordinator.committed() == {("t", 0): 5, ("u", 0): 6}
    coordinator.leave((follower, None))
    coordinator.join(leader, protocols={"range": subscription("t")}, session_ms=LONG_SESSION_MS)
    coordinator.sync(leader, 2, {})
    coordinator.clock.advance(SWEEP_MS)
    assert coordinator.committed() == {("t", 0): 5}


def test_subscriptions_in_a_rebalance_apply_to_the_next_generation() -> None:
    coordinator = coordinator_of("t", "u")
    member_id = stable(coordinator, "t")
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.join(protocols={"range": subscription("u")}, session_ms=LONG_SESSION_MS)
    assert coordinator.state() == "PreparingRebalance"
    group = coordinator.machine.classic_group("g")
    assert group is not None
    assert not group.is_subscribed_to("u")
    coordinator.join(member_id, protocols={"range": subscription("t")}, session_ms=LONG_SESSION_MS)
    assert group.is_subscribed_to("u")


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0\0\0\0\7?", b"\xff\xff\0\0\0\0"])
def test_a_group_with_unreadable_subscriptions_retains_everything(metadata: bytes) -> None:
    coordinator = coordinator_of("t", "u")
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    join = coordinator.join(protocols={"range": metadata}, session_ms=LONG_SESSION_MS)
    coordinator.clock.advance(0)
    coordinator.sync(answered(join).member_id, 1, {})
    coordinator.clock.advance(2 * WEEK_MS)
    assert coordinator.committed() == {("t", 0): 5, ("u", 0): 6}


def test_a_stable_group_with_another_protocol_type_retains_everything() -> None:
    coordinator = coordinator_of("t", "u")
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    member_id = stable(coordinator, protocol_type="connect")
    coordinator.clock.advance(2 * WEEK_MS)
    assert coordinator.committed() == {("t", 0): 5, ("u", 0): 6}
    coordinator.leave((member_id, None))
    coordinator.clock.advance(WEEK_MS)
    assert is_gone(coordinator)


# Standalone (Simple) Consumer


def test_each_offset_of_a_standalone_consumer_expires_by_its_own_commit() -> None:
    coordinator = coordinator_of()
    coordinator.commit({("t", 0): 5, ("t", 1): 6})
    coordinator.clock.advance(DAY_MS)
    coordinator.commit({("t", 1): 7})
    coordinator.clock.advance(6 * DAY_MS - 1)
    assert coordinator.committed() == {("t", 0): 5, ("t", 1): 7}
    coordinator.clock.advance(1)
    assert coordinator.committed() == {("t", 1): 7}
    assert coordinator.state() == "Empty"
    coordinator.clock.advance(DAY_MS)
    assert is_gone(coordinator)


def test_a_standalone_consumer_is_recognized_after_a_restart() -> None:
    coordinator = coordinator_of()
    coordinator.commit({("t", 0): 5})
    coordinator.clock.advance(4 * DAY_MS)
    again = coordinator.restarted()
    again.clock.advance(3 * DAY_MS - 1)
    assert again.committed() == {("t", 0): 5}
    again.clock.advance(1)
    assert is_gone(again)


def test_a_standalone_consumer_in_a_former_group_expires_from_the_last_leave() -> None:
    """The group has a protocol type, so commits of other clients do not matter."""
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1)
    coordinator.leave((member_id, None))
    coordinator.clock.advance(6 * DAY_MS)
    coordinator.commit({("t", 1): 6})
    coordinator.clock.advance(DAY_MS)
    assert is_gone(coordinator)


def test_a_simple_group_with_a_pending_member_expires_as_before() -> None:
    """A client got a member id, but no member has joined, so the group has no protocol type."""
    coordinator = coordinator_of(offsets_retention_minutes="1")
    coordinator.commit({("t", 0): 5})
    coordinator.clock.advance(SWEEP_MS - 1_000)
    answer = answered(coordinator.join(knows_ids=True))
    assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
    coordinator.clock.advance(1_000)
    assert is_gone(coordinator)
    late = answered(coordinator.join(answer.member_id, knows_ids=True))
    assert late.error_code is ErrorCode.UNKNOWN_MEMBER_ID


# The summarizing table


@pytest.mark.parametrize(
    ("protocol_type", "leaves", "since_commit_ms", "since_empty_ms", "is_expired"),
    [
        ("consumer", True, 2 * WEEK_MS, WEEK_MS - 1, False),
        ("consumer", True, WEEK_MS, WEEK_MS, True),
        ("connect", True, 2 * WEEK_MS, WEEK_MS - 1, False),
        ("connect", True, WEEK_MS, WEEK_MS, True),
        ("stream", True, WEEK_MS, WEEK_MS, True),
        ("consumer", False, 2 * WEEK_MS, 0, False),
        (None, False, WEEK_MS - 1, 0, False),
        (None, False, WEEK_MS, 0, True),
    ],
)
def test_offsets_expire_as_in_the_table_of_group_states(
    protocol_type: str | None,
    leaves: bool,  # noqa: FBT001
    since_commit_ms: int,
    since_empty_ms: int,
    is_expired: bool,  # noqa: FBT001
) -> None:
    coordinator = coordinator_of()
    member_id = ""
    if protocol_type is not None:
        member_id = stable(coordinator, protocol_type=protocol_type)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1 if member_id else -1)
    coordinator.clock.advance(since_commit_ms - since_empty_ms)
    if leaves:
        coordinator.leave((member_id, None))
    coordinator.clock.advance(since_empty_ms)
    assert (coordinator.committed() == {}) is is_expired


# Compatibility, Deprecation, and Migration Plan


def test_an_old_consumer_with_a_longer_retention_outlives_its_empty_group() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    commit = {"member_id": member_id, "generation": 1}
    coordinator.commit({("t", 0): 5}, retention_ms=30 * DAY_MS, **commit)  # type: ignore[arg-type]
    coordinator.commit({("t", 1): 6}, **commit)  # type: ignore[arg-type]
    coordinator.leave((member_id, None))
    coordinator.clock.advance(WEEK_MS)
    assert coordinator.committed() == {("t", 0): 5}
    again = coordinator.restarted()
    again.clock.advance(23 * DAY_MS - 1)
    assert again.committed() == {("t", 0): 5}
    again.clock.advance(1)
    assert is_gone(again)


def test_an_old_consumer_with_a_shorter_retention_expires_before_the_brokers() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    coordinator.commit({("t", 0): 5}, member_id=member_id, generation=1, retention_ms=HOUR_MS)
    coordinator.clock.advance(DAY_MS)
    assert coordinator.committed() == {("t", 0): 5}, "a topic that members read is never touched"
    coordinator.leave((member_id, None))
    coordinator.clock.advance(SWEEP_MS)
    assert is_gone(coordinator)


def test_a_new_commit_removes_the_own_expiry() -> None:
    coordinator = coordinator_of()
    coordinator.commit({("t", 0): 5}, retention_ms=HOUR_MS)
    coordinator.commit({("t", 0): 6})
    coordinator.clock.advance(DAY_MS)
    assert coordinator.committed() == {("t", 0): 6}


def test_an_own_expiry_applies_to_unsubscribed_topics_of_a_live_group() -> None:
    coordinator = coordinator_of("t", "u")
    coordinator.commit({("t", 0): 5, ("u", 0): 6}, retention_ms=HOUR_MS)
    stable(coordinator, "t")
    coordinator.clock.advance(HOUR_MS)
    assert (coordinator.state(), coordinator.committed()) == ("Stable", {("t", 0): 5})


# Later additions: groups of KIP-848


def test_an_empty_consumer_group_expires_by_its_commits() -> None:
    """Offsets of an empty classic group would expire a week after it became empty."""
    coordinator = coordinator_of()
    epoch = coordinator.beat("c1").member_epoch
    coordinator.commit({("t", 0): 5}, member_id="c1", generation=epoch)
    coordinator.clock.advance(40_000)
    coordinator.beat("c1", -1)
    assert coordinator.state() == "Empty"
    coordinator.clock.advance(WEEK_MS - 40_000 - 1)
    assert coordinator.committed() == {("t", 0): 5}
    coordinator.clock.advance(1)
    assert is_gone(coordinator)


def test_a_consumer_group_retains_only_subscribed_topics() -> None:
    coordinator = coordinator_of("t", "u", **long_sessions("consumer"))
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    epoch = coordinator.beat("c1").member_epoch
    for _ in range(WEEK_MS // HOUR_MS):
        coordinator.clock.advance(HOUR_MS)
        coordinator.beat("c1", epoch)
    coordinator.clock.advance(SWEEP_MS)
    assert coordinator.committed() == {("t", 0): 5}


def test_an_empty_group_without_commits_is_deleted_at_the_next_check() -> None:
    coordinator = coordinator_of()
    coordinator.beat("c1")
    coordinator.beat("c1", -1)
    assert coordinator.state() == "Empty"
    coordinator.clock.advance(SWEEP_MS)
    assert is_gone(coordinator)


def share_beat(coordinator: ManualGroupCoordinator, epoch: int) -> None:
    """Let the one member of a share group join or leave."""
    request = ShareGroupHeartbeatRequest(
        group_id="g",
        member_id="s1",
        member_epoch=epoch,
        subscribed_topic_names=["t"] if epoch == 0 else None,
    )
    client = Client("client", "/127.0.0.1")
    coordinator.shard.write(
        lambda machine, now_ms: machine.share.heartbeat(request, client, now_ms)
    )


def test_a_share_group_never_expires() -> None:
    """Its offsets are at the share coordinator; no check deletes it."""
    coordinator = coordinator_of()
    share_beat(coordinator, 0)
    share_beat(coordinator, -1)
    assert coordinator.state() == "Empty"
    coordinator.clock.advance(2 * WEEK_MS)
    assert coordinator.state() == "Empty"
    assert coordinator.restarted().state() == "Empty"


def streams_beat(coordinator: ManualGroupCoordinator, epoch: int) -> int:
    """Send a heartbeat of the one member of a streams group; return its epoch."""
    is_joining = epoch == 0
    topology = StreamsGroupHeartbeatRequest.Topology(
        epoch=0,
        subtopologies=[
            StreamsGroupHeartbeatRequest.Subtopology(subtopology_id="0", source_topics=["t"])
        ],
    )
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="p1",
        member_epoch=epoch,
        rebalance_timeout_ms=MINUTE_MS if is_joining else -1,
        process_id="process" if is_joining else None,
        topology=topology if is_joining else None,
        active_tasks=[] if is_joining else None,
        standby_tasks=[] if is_joining else None,
        warmup_tasks=[] if is_joining else None,
        client_tags=[] if is_joining else None,
    )
    client = Client("client", "/127.0.0.1")
    beaten = answered(
        coordinator.shard.write(
            lambda machine, now_ms: machine.streams.heartbeat(request, client, now_ms)
        )
    )
    return beaten.response.member_epoch


def test_a_streams_group_expires_by_its_commits_in_every_state() -> None:
    coordinator = coordinator_of("t", "u", **long_sessions("streams"))
    coordinator.commit({("t", 0): 5, ("u", 0): 6})
    epoch = streams_beat(coordinator, 0)
    assert epoch > 0
    for _ in range(WEEK_MS // HOUR_MS):
        coordinator.clock.advance(HOUR_MS)
        epoch = streams_beat(coordinator, epoch)
    coordinator.clock.advance(SWEEP_MS)
    epoch = streams_beat(coordinator, epoch)
    assert coordinator.committed() == {("t", 0): 5}, "what its topology reads stays"
    streams_beat(coordinator, -1)
    assert coordinator.state() == "Empty"
    coordinator.clock.advance(SWEEP_MS)
    assert is_gone(coordinator), "no more is waited for than the week since the commit"


# Group deletion


def test_deleting_groups_deletes_their_offsets_at_once() -> None:
    clients = OldClients()
    clients.commit(9)
    response = clients.wire.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert response.results[0].error_code == ErrorCode.NONE
    assert not clients.has_offset()
    assert clients.wire.ask(ListGroupsRequest(), 5).groups == []
    tombstones = [
        struct.unpack_from(">h", key)[0]
        for log in clients.wire.logs.values()
        for key, value in log.entries
        if key is not None and value is None
    ]
    assert tombstones == [1, 2]


# The history


def test_expired_offsets_and_the_rule_are_in_the_history() -> None:
    coordinator = coordinator_of()
    member_id = stable(coordinator)
    commit = {"member_id": member_id, "generation": 1}
    coordinator.commit({("t", 0): 5}, retention_ms=HOUR_MS, **commit)  # type: ignore[arg-type]
    coordinator.commit({("t", 1): 6}, **commit)  # type: ignore[arg-type]
    coordinator.leave((member_id, None))
    coordinator.clock.advance(WEEK_MS)
    first, second = coordinator.events("expired")
    assert first.facts["rules"] == {"own-retention": 1}
    assert first.facts["partitions"] == ["t-0"]
    assert second.facts["rules"] == {"empty-since": 1}
    assert second.facts["retention_ms"] == WEEK_MS
    assert "t-1" in second.text
    (deleted,) = coordinator.events("deleted")
    assert deleted.facts == {"rule": "expiry", "group_type": "classic"}


# Large numbers


def many_groups(coordinator: ManualGroupCoordinator, count: int, offsets: int = 1) -> list[str]:
    """Write many simple groups to the log, faster than by commits."""
    serde = CoordinatorSerde(written_version)
    committed = OffsetAndMetadata(offset=5, commit_timestamp_ms=coordinator.clock.now_ms())
    names = [f"group-{index}" for index in range(count)]
    for name in names:
        for index in range(offsets):
            record = offset_commit_record(name, "t", index, committed)
            coordinator.log.entries.append(serde.encode(record))
    return names


def _batches(coordinator: ManualGroupCoordinator) -> list[tuple[int, int, float]]:
    """Record the number of records, the bytes and the time of each batch from now on."""
    sizes: list[tuple[int, int, float]] = []
    append = coordinator.log.append

    def measured(records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        length = sum(len(key or b"") + len(value or b"") for key, value in records)
        sizes.append((len(records), length, now_ms))
        return append(records, now_ms)

    coordinator.log.append = measured  # type: ignore[method-assign]
    return sizes


def test_many_groups_expire_in_several_passes() -> None:
    coordinator = coordinator_of(offsets_retention_minutes="1")
    names = many_groups(coordinator, 5_000)
    coordinator = coordinator.restarted()
    sizes = _batches(coordinator)
    coordinator.clock.advance(SWEEP_MS)
    assert 0 < sizes[0][0] <= 501, "one decision takes no more"
    assert len(coordinator.machine.directory.groups) > 4_000
    coordinator.clock.advance(1_000)  # a decision every ten milliseconds
    assert not coordinator.machine.directory.groups
    assert sum(count for count, _, _ in sizes) == 2 * len(names)
    assert len({at_ms for _, _, at_ms in sizes}) == len(sizes), "others come in between"


def test_groups_without_expired_offsets_are_checked_in_several_passes_too() -> None:
    coordinator = coordinator_of()
    many_groups(coordinator, 10_000)
    coordinator = coordinator.restarted()
    offset_expiration = coordinator.machine.offset_expiration
    result = offset_expiration.expire(OffsetExpirationRound(), coordinator.clock.now_ms())
    (timer,) = result.timers
    assert timer.deadline_ms - coordinator.clock.now_ms() < 1_000, "it goes on soon"  # type: ignore[union-attr]
    passes = 0
    event = OffsetExpirationRound()
    while True:
        result = offset_expiration.expire(event, coordinator.clock.now_ms())
        passes += 1
        (timer,) = result.timers
        event = timer.event  # type: ignore[union-attr, assignment]
        if event == OffsetExpirationRound():
            break
    assert passes == 10


def test_long_names_make_small_batches() -> None:
    """A batch must stay below `max.message.bytes`, otherwise a check would never end."""
    coordinator = coordinator_of(offsets_retention_minutes="1")
    serde = CoordinatorSerde(written_version)
    committed = OffsetAndMetadata(offset=5, commit_timestamp_ms=coordinator.clock.now_ms())
    for index in range(100):
        name = f"{index:03}" + "ü" * 15_000
        coordinator.log.entries.append(serde.encode(offset_commit_record(name, "t", 0, committed)))
    coordinator = coordinator.restarted()
    sizes = _batches(coordinator)
    coordinator.clock.advance(SWEEP_MS + 1_000)
    assert not coordinator.machine.directory.groups
    assert max(length for _, length, _ in sizes) < 1_000_000


def test_a_log_with_a_small_batch_limit_gets_small_batches() -> None:
    coordinator = coordinator_of(offsets_retention_minutes="1")
    many_groups(coordinator, 300)
    coordinator = coordinator.restarted()
    append = coordinator.log.append

    def small(records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        if len(records) > 50:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return append(records, now_ms)

    coordinator.log.append = small  # type: ignore[method-assign]
    coordinator.clock.advance(SWEEP_MS + MINUTE_MS)
    assert not coordinator.machine.directory.groups


def test_a_check_continues_where_the_log_refused_a_batch() -> None:
    coordinator = coordinator_of(offsets_retention_minutes="1")
    many_groups(coordinator, 1_500)
    coordinator = coordinator.restarted()
    coordinator.clock.advance(SWEEP_MS)
    left = len(coordinator.machine.directory.groups)
    assert 0 < left < 1_500
    coordinator.log.next_error = OSError(28, "disk full")
    coordinator.clock.advance(100)
    assert len(coordinator.machine.directory.groups) == left
    coordinator.log.next_error = None
    coordinator.clock.advance(1_000)
    assert not coordinator.machine.directory.groups
