"""Scenarios of KIP-211, Revise Expiration Semantics of Consumer Group Offsets, by its sections.

Where Kafka has moved on since, the scenario says so and holds us to what ships: the retention time
left OffsetCommit with version 5 and not with 4, and groups of KIP-848 never wait for being Empty.
"Another Related Change" is the console consumer's to make.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.table import find_api
from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.consumer.beat import Client
from kafkalite.groups.offset import OffsetAndMetadata
from kafkalite.groups.records import group_metadata_record, offset_commit_record, written_version
from kafkalite.groups.sweeps import ExpireOffsets
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.list_groups import ListGroupsRequest
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from kafkalite.protocol.records.group_metadata import GroupMetadataKey, GroupMetadataValue
from kafkalite.protocol.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.scenarios.group_world import GroupWorld, answered, subscription, topic_image
from tests.unit.apis.group_wire import GroupWire

if TYPE_CHECKING:
    from collections.abc import Sequence

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS
SWEEP_MS = 10 * MINUTE_MS
LONG_SESSION_MS = 24 * DAY_MS
"""A member that hardly needs heartbeats to stay; an int32 holds no more."""


def world_of(*topics: str, **config: str) -> GroupWorld:
    """Return a world of these topics; a setting's dots are underscores here."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return GroupWorld(settings, topics=[topic_image(name, 4) for name in topics or ("t",)])


def stable(world: GroupWorld, *topics: str, protocol_type: str = "consumer") -> str:
    """Bring a group of one member that reads these topics to Stable; the member's id."""
    protocols = {"range": subscription(*(topics or ("t",)))}
    join = world.join(protocols=protocols, session_ms=LONG_SESSION_MS, protocol_type=protocol_type)
    world.clock.advance(0)
    member_id = answered(join).member_id
    world.sync(member_id, answered(join).generation_id, {})
    return member_id


def generation_of(world: GroupWorld, group: str = "g") -> int:
    found = world.machine.classic_group(group)
    assert found is not None
    return found.soft.generation_id


def is_gone(world: GroupWorld, group: str = "g") -> bool:
    """Whether a group is gone, now and for a coordinator that reads the log."""
    gone = world.state(group) is None and world.committed(group) == {}
    assert gone == (world.restarted().state(group) is None)
    return gone


# Motivation


class OldClients:
    """Commits of every version as bytes, to a coordinator behind the dispatcher."""

    def __init__(self, **config: str) -> None:
        self.wire = GroupWire(
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
        """Return the schema versions of the commits in the log."""
        return [
            struct.unpack_from(">h", value)[0]
            for log in self.wire.logs.values()
            for key, value in log.entries
            if key is not None and value is not None and struct.unpack_from(">h", key)[0] == 1
        ]

    def lifetime_ms(self, limit_ms: int) -> int | None:
        """Let time pass until the offset is gone; how long that took, to the sweep."""
        begin_ms = self.wire.clock.now_ms()
        while self.wire.clock.now_ms() < begin_ms + limit_ms:
            self.wire.clock.advance(SWEEP_MS)
            if not self.has_offset():
                return self.wire.clock.now_ms() - begin_ms
        return None


def test_version_0_kept_offsets_elsewhere_and_is_not_served() -> None:
    api = find_api(OffsetCommitRequest.API_KEY)
    assert api is not None
    assert api.versions.lowest == 1


def test_version_1_without_a_timestamp_ages_from_now_by_the_retention_of_the_broker() -> None:
    clients = OldClients(offsets_retention_minutes="60")
    clients.commit(1)
    assert clients.lifetime_ms(3 * HOUR_MS) == HOUR_MS


def test_version_1_with_a_timestamp_ages_from_there() -> None:
    clients = OldClients(offsets_retention_minutes="60")
    clients.commit(1, timestamp_ms=clients.wire.clock.now_ms() - 30 * MINUTE_MS)
    assert clients.lifetime_ms(3 * HOUR_MS) == 30 * MINUTE_MS


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("retention_ms", [0, HOUR_MS, 3 * HOUR_MS])
def test_versions_2_to_4_say_themselves_how_long(version: int, retention_ms: int) -> None:
    clients = OldClients(offsets_retention_minutes="120")
    clients.commit(version, retention_ms=retention_ms)
    assert clients.lifetime_ms(5 * HOUR_MS) == max(retention_ms, SWEEP_MS)


@pytest.mark.parametrize("version", range(2, 11))
def test_any_version_that_says_nothing_leaves_it_to_the_broker(version: int) -> None:
    clients = OldClients(offsets_retention_minutes="60")
    clients.commit(version)
    assert clients.lifetime_ms(3 * HOUR_MS) == HOUR_MS


def test_a_group_that_commits_rarely_keeps_its_offsets_while_it_has_members() -> None:
    """KAFKA-4682, which the proposal is for."""
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    for _ in range(5):
        world.clock.advance(2 * WEEK_MS)
        world.heartbeat(member_id, 1)
    assert world.state() == "Stable"
    assert world.committed() == {("t", 0): 5}


# Public Interfaces


@pytest.mark.parametrize("version", range(1, 11))
def test_the_retention_time_is_on_the_wire_in_versions_2_to_4(version: int) -> None:
    """The proposal drops it with version 4. Kafka's version 4 still has it, version 5 has not."""
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
    """The proposal's schema 2 has been followed by 3 (leader epoch) and 4 (topic id)."""
    clients = OldClients()
    clients.commit(version, retention_ms=retention_ms)
    assert clients.value_versions() == [schema]


def test_an_offset_with_its_own_expiry_records_when_that_is() -> None:
    world = world_of()
    world.commit({("t", 0): 5}, retention_ms=HOUR_MS)
    (record,) = world.records()
    assert record.key == OffsetCommitKey(group="g", topic="t", partition=0)
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.commit_timestamp == world.clock.now_ms()
    assert record.value.expire_timestamp == world.clock.now_ms() + HOUR_MS


def test_a_group_records_since_when_it_is_in_its_state() -> None:
    world = world_of()
    member_id = stable(world)
    world.clock.advance(DAY_MS)
    world.leave((member_id, None))
    recorded = world.last_group_record()
    assert recorded is not None
    assert recorded.current_state_timestamp == world.clock.now_ms()
    key, value = next(entry for entry in reversed(world.log.entries) if entry[0] is not None)
    assert key is not None
    assert value is not None
    assert struct.unpack_from(">h", key)[0] == 2
    assert struct.unpack_from(">h", value)[0] == 3


# Transitioning to Empty State


def test_the_timer_of_all_offsets_starts_when_the_group_becomes_empty() -> None:
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.clock.advance(3 * DAY_MS)
    world.commit({("t", 1): 6}, member_id=member_id, generation=1)
    world.clock.advance(20 * DAY_MS)
    world.leave((member_id, None))
    world.clock.advance(WEEK_MS - 1)
    assert world.committed() == {("t", 0): 5, ("t", 1): 6}
    world.clock.advance(1)
    assert is_gone(world)


def test_offsets_go_before_their_group_and_both_leave_tombstones() -> None:
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5, ("t", 3): 6}, member_id=member_id, generation=1)
    world.leave((member_id, None))
    before = len(world.log.entries)
    world.clock.advance(WEEK_MS)
    written = world.records()[before:]
    assert [record.key for record in written] == [
        OffsetCommitKey(group="g", topic="t", partition=0),
        OffsetCommitKey(group="g", topic="t", partition=3),
        GroupMetadataKey(group="g"),
    ]
    assert [record.value for record in written] == [None, None, None]


def test_whoever_joins_stops_the_timer_and_it_starts_anew_when_all_have_gone() -> None:
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.leave((member_id, None))
    world.clock.advance(6 * DAY_MS)
    member_id = stable(world)
    world.clock.advance(6 * DAY_MS)
    world.leave((member_id, None))
    world.clock.advance(WEEK_MS - 1)
    assert world.committed() == {("t", 0): 5}
    world.clock.advance(1)
    assert is_gone(world)


def test_a_member_whose_session_ends_starts_the_timer_as_one_that_leaves() -> None:
    world = world_of()
    (member_id,) = world.stable(None)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.clock.advance(HOUR_MS)
    recorded = world.last_group_record()
    assert recorded is not None
    empty_ms = recorded.current_state_timestamp
    assert world.state() == "Empty"
    world.clock.advance(empty_ms + WEEK_MS - world.clock.now_ms() - 1)
    assert world.committed() == {("t", 0): 5}
    world.clock.advance(SWEEP_MS)
    assert is_gone(world)


def test_offsets_do_not_expire_while_stable() -> None:
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.clock.advance(2 * WEEK_MS)
    assert (world.state(), world.committed()) == ("Stable", {("t", 0): 5})


def test_offsets_do_not_expire_while_a_rebalance_is_prepared() -> None:
    world = world_of("t", "u")
    world.commit({("t", 0): 5, ("u", 0): 6})
    join = world.join(session_ms=LONG_SESSION_MS, rebalance_ms=3 * WEEK_MS)
    world.clock.advance(0)
    world.sync(answered(join).member_id, 1, {})
    world.join(session_ms=LONG_SESSION_MS, rebalance_ms=3 * WEEK_MS, knows_ids=True)
    world.join(answered(join).member_id, protocols={"range": subscription("t", "u")})
    world.clock.advance(0)
    assert world.state() == "PreparingRebalance"
    world.shard.write(
        lambda machine, now_ms: machine.sweeps.expire(ExpireOffsets(), now_ms + 2 * WEEK_MS)
    )
    assert world.committed() == {("t", 0): 5, ("u", 0): 6}


def test_offsets_do_not_expire_while_a_rebalance_is_completed() -> None:
    world = world_of("t", "u")
    world.commit({("t", 0): 5, ("u", 0): 6})
    join = world.join(session_ms=LONG_SESSION_MS, rebalance_ms=3 * WEEK_MS)
    world.clock.advance(2 * WEEK_MS)
    assert answered(join).generation_id == 1
    assert world.state() == "CompletingRebalance"
    assert world.committed() == {("t", 0): 5, ("u", 0): 6}
    # Nobody asked for an assignment: the generation is given up, and the group becomes Empty.
    world.clock.advance(WEEK_MS)
    assert world.state() == "Empty"


def test_a_deleted_group_has_nothing_left_to_expire() -> None:
    """Dead, in the proposal's words."""
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.leave((member_id, None))
    world.shard.write(lambda machine, _: machine.offsets.delete_group("g"))
    before = len(world.log.entries)
    world.clock.advance(2 * WEEK_MS)
    assert len(world.log.entries) == before


def test_the_retention_is_the_brokers_to_set() -> None:
    world = world_of(offsets_retention_minutes="1")
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.leave((member_id, None))
    # It is looked for every ten minutes, whatever the retention.
    world.clock.advance(SWEEP_MS - 1)
    assert world.committed() == {("t", 0): 5}
    world.clock.advance(1)
    assert is_gone(world)


def test_how_often_the_broker_looks_is_its_to_set() -> None:
    world = world_of(offsets_retention_minutes="1", offsets_retention_check_interval_ms="90000")
    world.commit({("t", 0): 5})
    world.clock.advance(90_000 - 1)
    assert world.committed() == {("t", 0): 5}
    world.clock.advance(1)
    assert is_gone(world)


def test_the_defaults_are_a_week_and_ten_minutes() -> None:
    config = BrokerConfig.from_text({})
    assert config.int("offsets.retention.minutes") * MINUTE_MS == WEEK_MS
    assert config.int("offsets.retention.check.interval.ms") == SWEEP_MS


def test_the_timer_survives_a_restart() -> None:
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.leave((member_id, None))
    world.clock.advance(4 * DAY_MS)
    again = world.restarted()
    again.clock.advance(3 * DAY_MS - 1)
    assert again.committed() == {("t", 0): 5}
    again.clock.advance(1)
    assert is_gone(again)


def test_a_compacted_log_knows_the_timer_too() -> None:
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.leave((member_id, None))
    world.clock.advance(6 * DAY_MS)
    again = world.restarted(world.log.compacted())
    again.clock.advance(DAY_MS - 1)
    assert again.committed() == {("t", 0): 5}
    again.clock.advance(1)
    assert is_gone(again)


def test_another_retention_after_a_restart_holds_for_old_offsets_as_well() -> None:
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.leave((member_id, None))
    world.clock.advance(2 * DAY_MS)
    again = world.restarted(config={"offsets.retention.minutes": "1440"})
    again.clock.advance(SWEEP_MS)
    assert is_gone(again)


def test_a_group_whose_record_does_not_say_since_when_goes_by_commit() -> None:
    """Records of group metadata before schema 2."""
    clock_ms = world_of().clock.now_ms()
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
    world = GroupWorld(log=MemoryCoordinatorLog([serde.encode(record) for record in records]))
    world.clock.advance(SWEEP_MS)
    assert world.committed() == {("t", 1): 9}
    world.clock.advance(6 * DAY_MS)
    assert is_gone(world)


# Unsubscribing from a Topic


def test_offsets_of_a_topic_nobody_reads_any_more_go_by_their_commit() -> None:
    world = world_of("t", "u")
    member_id = stable(world, "t", "u")
    world.commit({("t", 0): 5, ("u", 0): 6, ("u", 1): 7}, member_id=member_id, generation=1)
    world.clock.advance(3 * DAY_MS)
    world.commit({("u", 1): 8}, member_id=member_id, generation=1)
    protocols = {"range": subscription("t")}
    world.join(member_id, protocols=protocols, session_ms=LONG_SESSION_MS)
    world.sync(member_id, 2, {})
    world.clock.advance(4 * DAY_MS - 1)
    assert world.committed() == {("t", 0): 5, ("u", 0): 6, ("u", 1): 8}
    world.clock.advance(1)
    assert world.committed() == {("t", 0): 5, ("u", 1): 8}
    world.clock.advance(3 * DAY_MS)
    assert world.committed() == {("t", 0): 5}
    world.clock.advance(WEEK_MS)
    assert (world.state(), world.committed()) == ("Stable", {("t", 0): 5})


def test_a_topic_that_one_member_still_reads_is_kept() -> None:
    world = world_of("t", "u")
    joins = [
        world.join(protocols={"range": subscription(topic)}, session_ms=LONG_SESSION_MS)
        for topic in ("t", "u")
    ]
    world.clock.advance(0)
    leader, follower = [answered(join).member_id for join in joins]
    world.sync(leader, 1, {})
    world.sync(follower, 1)
    world.commit({("t", 0): 5, ("u", 0): 6}, member_id=leader, generation=1)
    world.clock.advance(2 * WEEK_MS)
    assert world.committed() == {("t", 0): 5, ("u", 0): 6}
    world.leave((follower, None))
    world.join(leader, protocols={"range": subscription("t")}, session_ms=LONG_SESSION_MS)
    world.sync(leader, 2, {})
    world.clock.advance(SWEEP_MS)
    assert world.committed() == {("t", 0): 5}


def test_what_members_say_in_a_rebalance_counts_in_the_next_generation() -> None:
    world = world_of("t", "u")
    member_id = stable(world, "t")
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.join(protocols={"range": subscription("u")}, session_ms=LONG_SESSION_MS)
    assert world.state() == "PreparingRebalance"
    group = world.machine.classic_group("g")
    assert group is not None
    assert not group.is_subscribed_to("u")
    world.join(member_id, protocols={"range": subscription("t")}, session_ms=LONG_SESSION_MS)
    assert group.is_subscribed_to("u")


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\0\0\0\0\7?", b"\xff\xff\0\0\0\0"])
def test_a_group_whose_subscriptions_cannot_be_read_keeps_everything(metadata: bytes) -> None:
    world = world_of("t", "u")
    world.commit({("t", 0): 5, ("u", 0): 6})
    join = world.join(protocols={"range": metadata}, session_ms=LONG_SESSION_MS)
    world.clock.advance(0)
    world.sync(answered(join).member_id, 1, {})
    world.clock.advance(2 * WEEK_MS)
    assert world.committed() == {("t", 0): 5, ("u", 0): 6}


def test_a_stable_group_that_is_no_consumer_keeps_everything() -> None:
    world = world_of("t", "u")
    world.commit({("t", 0): 5, ("u", 0): 6})
    member_id = stable(world, protocol_type="connect")
    world.clock.advance(2 * WEEK_MS)
    assert world.committed() == {("t", 0): 5, ("u", 0): 6}
    world.leave((member_id, None))
    world.clock.advance(WEEK_MS)
    assert is_gone(world)


# Standalone (Simple) Consumer


def test_each_offset_of_a_standalone_consumer_goes_by_its_own_commit() -> None:
    world = world_of()
    world.commit({("t", 0): 5, ("t", 1): 6})
    world.clock.advance(DAY_MS)
    world.commit({("t", 1): 7})
    world.clock.advance(6 * DAY_MS - 1)
    assert world.committed() == {("t", 0): 5, ("t", 1): 7}
    world.clock.advance(1)
    assert world.committed() == {("t", 1): 7}
    assert world.state() == "Empty"
    world.clock.advance(DAY_MS)
    assert is_gone(world)


def test_a_standalone_consumer_is_one_after_a_restart_as_well() -> None:
    world = world_of()
    world.commit({("t", 0): 5})
    world.clock.advance(4 * DAY_MS)
    again = world.restarted()
    again.clock.advance(3 * DAY_MS - 1)
    assert again.committed() == {("t", 0): 5}
    again.clock.advance(1)
    assert is_gone(again)


def test_a_standalone_consumer_in_a_group_that_had_members_goes_by_when_they_left() -> None:
    """The group has a protocol type, so when an observer commits to it does not count."""
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1)
    world.leave((member_id, None))
    world.clock.advance(6 * DAY_MS)
    world.commit({("t", 1): 6})
    world.clock.advance(DAY_MS)
    assert is_gone(world)


def test_a_simple_group_whose_first_member_is_on_its_way_keeps_its_age() -> None:
    """An id was given out; nobody has joined, and no protocol type is known."""
    world = world_of(offsets_retention_minutes="1")
    world.commit({("t", 0): 5})
    world.clock.advance(SWEEP_MS - 1_000)
    told = answered(world.join(knows_ids=True))
    assert told.error_code is ErrorCode.MEMBER_ID_REQUIRED
    world.clock.advance(1_000)
    assert is_gone(world)
    late = answered(world.join(told.member_id, knows_ids=True))
    assert late.error_code is ErrorCode.UNKNOWN_MEMBER_ID


# The table that sums it up


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
def test_the_table_of_states(
    protocol_type: str | None,
    leaves: bool,  # noqa: FBT001
    since_commit_ms: int,
    since_empty_ms: int,
    is_expired: bool,  # noqa: FBT001
) -> None:
    world = world_of()
    member_id = ""
    if protocol_type is not None:
        member_id = stable(world, protocol_type=protocol_type)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1 if member_id else -1)
    world.clock.advance(since_commit_ms - since_empty_ms)
    if leaves:
        world.leave((member_id, None))
    world.clock.advance(since_empty_ms)
    assert (world.committed() == {}) is is_expired


# Compatibility, Deprecation, and Migration Plan


def test_an_old_consumer_with_a_longer_retention_outlives_its_empty_group() -> None:
    world = world_of()
    member_id = stable(world)
    commit = {"member_id": member_id, "generation": 1}
    world.commit({("t", 0): 5}, retention_ms=30 * DAY_MS, **commit)  # type: ignore[arg-type]
    world.commit({("t", 1): 6}, **commit)  # type: ignore[arg-type]
    world.leave((member_id, None))
    world.clock.advance(WEEK_MS)
    assert world.committed() == {("t", 0): 5}
    again = world.restarted()
    again.clock.advance(23 * DAY_MS - 1)
    assert again.committed() == {("t", 0): 5}
    again.clock.advance(1)
    assert is_gone(again)


def test_an_old_consumer_with_a_shorter_retention_does_not_wait_for_the_broker() -> None:
    world = world_of()
    member_id = stable(world)
    world.commit({("t", 0): 5}, member_id=member_id, generation=1, retention_ms=HOUR_MS)
    world.clock.advance(DAY_MS)
    assert world.committed() == {("t", 0): 5}, "a topic that members read is never touched"
    world.leave((member_id, None))
    world.clock.advance(SWEEP_MS)
    assert is_gone(world)


def test_a_new_commit_takes_the_own_expiry_back() -> None:
    world = world_of()
    world.commit({("t", 0): 5}, retention_ms=HOUR_MS)
    world.commit({("t", 0): 6})
    world.clock.advance(DAY_MS)
    assert world.committed() == {("t", 0): 6}


def test_an_own_expiry_holds_for_unsubscribed_topics_of_a_live_group() -> None:
    world = world_of("t", "u")
    world.commit({("t", 0): 5, ("u", 0): 6}, retention_ms=HOUR_MS)
    stable(world, "t")
    world.clock.advance(HOUR_MS)
    assert (world.state(), world.committed()) == ("Stable", {("t", 0): 5})


# What came later: groups of KIP-848


def test_a_consumer_group_goes_by_its_commits_even_when_it_has_just_become_empty() -> None:
    """A classic group would have a week from here; Kafka gives this one none."""
    world = world_of()
    epoch = world.beat("c1").member_epoch
    world.commit({("t", 0): 5}, member_id="c1", generation=epoch)
    world.clock.advance(40_000)
    world.beat("c1", -1)
    assert world.state() == "Empty"
    world.clock.advance(WEEK_MS - 40_000 - 1)
    assert world.committed() == {("t", 0): 5}
    world.clock.advance(1)
    assert is_gone(world)


def test_a_consumer_group_keeps_what_its_members_read_and_no_more() -> None:
    world = world_of("t", "u")
    world.commit({("t", 0): 5, ("u", 0): 6})
    epoch = world.beat("c1").member_epoch
    for _ in range(WEEK_MS // 40_000 + 1):
        world.clock.advance(40_000)
        world.beat("c1", epoch)
    world.clock.advance(SWEEP_MS - 600_000)
    assert world.committed() == {("t", 0): 5}


def test_an_empty_group_that_never_committed_goes_at_the_next_sweep() -> None:
    world = world_of()
    world.beat("c1")
    world.beat("c1", -1)
    assert world.state() == "Empty"
    world.clock.advance(SWEEP_MS)
    assert is_gone(world)


def share_beat(world: GroupWorld, epoch: int) -> None:
    """Let the one member of a share group join or leave."""
    request = ShareGroupHeartbeatRequest(
        group_id="g",
        member_id="s1",
        member_epoch=epoch,
        subscribed_topic_names=["t"] if epoch == 0 else None,
    )
    client = Client("client", "/127.0.0.1")
    world.shard.write(lambda machine, now_ms: machine.share.heartbeat(request, client, now_ms))


def test_a_share_group_has_nothing_that_expires_and_lasts() -> None:
    """It keeps its place in the share coordinator; no sweep ever deletes it."""
    world = world_of()
    share_beat(world, 0)
    share_beat(world, -1)
    assert world.state() == "Empty"
    world.clock.advance(2 * WEEK_MS)
    assert world.state() == "Empty"
    assert world.restarted().state() == "Empty"


def streams_beat(world: GroupWorld, epoch: int) -> int:
    """Let the one member of a streams group join, stay or leave; its epoch."""
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
        world.shard.write(
            lambda machine, now_ms: machine.streams.heartbeat(request, client, now_ms)
        )
    )
    return beaten.response.member_epoch


def test_a_streams_group_goes_by_its_commits_whatever_its_state() -> None:
    world = world_of("t", "u")
    world.commit({("t", 0): 5, ("u", 0): 6})
    epoch = streams_beat(world, 0)
    assert epoch > 0
    for _ in range(WEEK_MS // 40_000 + 1):
        world.clock.advance(40_000)
        epoch = streams_beat(world, epoch)
    assert world.committed() == {("t", 0): 5}, "what its topology reads stays"
    streams_beat(world, -1)
    assert world.state() == "Empty"
    world.clock.advance(SWEEP_MS)
    assert is_gone(world), "no more is waited for than the week since the commit"


# Group deletion


def test_deleting_groups_takes_their_offsets_along_at_once() -> None:
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


# Explaining it


def test_what_expired_and_by_which_rule_is_told() -> None:
    world = world_of()
    member_id = stable(world)
    commit = {"member_id": member_id, "generation": 1}
    world.commit({("t", 0): 5}, retention_ms=HOUR_MS, **commit)  # type: ignore[arg-type]
    world.commit({("t", 1): 6}, **commit)  # type: ignore[arg-type]
    world.leave((member_id, None))
    world.clock.advance(WEEK_MS)
    first, second = world.events("expired")
    assert first.facts["rules"] == {"own-retention": 1}
    assert first.facts["partitions"] == ["t-0"]
    assert second.facts["rules"] == {"empty-since": 1}
    assert second.facts["retention_ms"] == WEEK_MS
    assert "t-1" in second.text
    (deleted,) = world.events("deleted")
    assert deleted.facts == {"rule": "expiry", "group_type": "classic"}


# Many of them


def many_groups(world: GroupWorld, count: int, offsets: int = 1) -> list[str]:
    """Fill the log with simple groups, quicker than by committing."""
    serde = CoordinatorSerde(written_version)
    committed = OffsetAndMetadata(offset=5, commit_timestamp_ms=world.clock.now_ms())
    names = [f"group-{index}" for index in range(count)]
    for name in names:
        for index in range(offsets):
            record = offset_commit_record(name, "t", index, committed)
            world.log.entries.append(serde.encode(record))
    return names


def _batches(world: GroupWorld) -> list[tuple[int, int, float]]:
    """Note of each batch from now on how many records and bytes it has, and when it came."""
    sizes: list[tuple[int, int, float]] = []
    append = world.log.append

    def measured(records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        length = sum(len(key or b"") + len(value or b"") for key, value in records)
        sizes.append((len(records), length, now_ms))
        return append(records, now_ms)

    world.log.append = measured  # type: ignore[method-assign]
    return sizes


def test_many_groups_expire_a_few_at_a_time() -> None:
    world = world_of(offsets_retention_minutes="1")
    names = many_groups(world, 5_000)
    world = world.restarted()
    sizes = _batches(world)
    world.clock.advance(SWEEP_MS)
    assert 0 < sizes[0][0] <= 501, "one decision takes no more"
    assert len(world.machine.directory.groups) > 4_000
    world.clock.advance(1_000)  # a decision every ten milliseconds
    assert not world.machine.directory.groups
    assert sum(count for count, _, _ in sizes) == 2 * len(names)
    assert len({at_ms for _, _, at_ms in sizes}) == len(sizes), "others come in between"


def test_groups_with_nothing_to_expire_are_looked_at_a_few_at_a_time_too() -> None:
    world = world_of()
    many_groups(world, 10_000)
    world = world.restarted()
    sweeps = world.machine.sweeps
    result = sweeps.expire(ExpireOffsets(), world.clock.now_ms())
    (timer,) = result.timers
    assert timer.deadline_ms - world.clock.now_ms() < 1_000, "it goes on soon"  # type: ignore[union-attr]
    passes = 0
    event = ExpireOffsets()
    while True:
        result = sweeps.expire(event, world.clock.now_ms())
        passes += 1
        (timer,) = result.timers
        event = timer.event  # type: ignore[union-attr, assignment]
        if event == ExpireOffsets():
            break
    assert passes == 10


def test_long_names_make_small_batches() -> None:
    """A batch must stay below `max.message.bytes`, or no sweep would ever come to an end."""
    world = world_of(offsets_retention_minutes="1")
    serde = CoordinatorSerde(written_version)
    committed = OffsetAndMetadata(offset=5, commit_timestamp_ms=world.clock.now_ms())
    for index in range(100):
        name = f"{index:03}" + "ü" * 15_000
        world.log.entries.append(serde.encode(offset_commit_record(name, "t", 0, committed)))
    world = world.restarted()
    sizes = _batches(world)
    world.clock.advance(SWEEP_MS + 1_000)
    assert not world.machine.directory.groups
    assert max(length for _, length, _ in sizes) < 1_000_000


def test_a_log_that_takes_but_small_batches_gets_small_ones() -> None:
    world = world_of(offsets_retention_minutes="1")
    many_groups(world, 300)
    world = world.restarted()
    append = world.log.append

    def small(records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        if len(records) > 50:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return append(records, now_ms)

    world.log.append = small  # type: ignore[method-assign]
    world.clock.advance(SWEEP_MS + MINUTE_MS)
    assert not world.machine.directory.groups


def test_a_sweep_goes_on_where_it_was_when_the_log_refuses() -> None:
    world = world_of(offsets_retention_minutes="1")
    many_groups(world, 1_500)
    world = world.restarted()
    world.clock.advance(SWEEP_MS)
    left = len(world.machine.directory.groups)
    assert 0 < left < 1_500
    world.log.fails_with = OSError(28, "disk full")
    world.clock.advance(100)
    assert len(world.machine.directory.groups) == left
    world.log.fails_with = None
    world.clock.advance(1_000)
    assert not world.machine.directory.groups
