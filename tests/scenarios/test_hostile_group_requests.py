"""Scenarios: classic groups and offsets with invalid or very large requests.

The checks are in Kafka's order, with its errors. A refused request does not change the group. The
time and memory of a request are limited by its size.
"""

from __future__ import annotations

import gc
import tracemalloc
from struct import pack
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.groups.classic.describe import describe_group
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from tests.cluster.groups import GroupCluster
from tests.cluster.responses import PendingResponse
from tests.scenarios.group_coordinator import subscription

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.protocol.message import Message

MANY = 20_000
SOME = 5_000
"""A number of items whose memory can be measured quickly."""
MEGABYTE = 1 << 20
JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT = 9, 5, 4, 5, 9
CODE = ErrorCode


class Group:
    """A Stable group g with a dynamic leader and a static follower i-2, which has an offset."""

    def __init__(self, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.wire = GroupCluster(config={"offsets.topic.num.partitions": "1", **settings})
        self.wire.ask(FindCoordinatorRequest(key="g"), 3)
        self.topic_id = self.wire.create("t", 3)
        answer = self.wire.ask(self.join(), JOIN)
        joins = [
            self.wire.ask(self.join(member_id=answer.member_id), JOIN),
            self.wire.ask(self.join(group_instance_id="i-2"), JOIN),
        ]
        self.wire.clock.advance(0)
        first, second = [join.response for join in joins]
        self.leader, self.follower = first.member_id, second.member_id
        waiting = self.wire.ask(self.sync(self.follower, group_instance_id="i-2"), SYNC)
        self.wire.ask(self.sync(self.leader), SYNC)
        assert waiting.has_arrived
        self.wire.ask(self.commit(member_id=self.leader, generation_id_or_member_epoch=1), COMMIT)

    def join(self, **fields: Any) -> JoinGroupRequest:  # noqa: ANN401
        defaults: dict[str, Any] = {
            "group_id": "g",
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [
                JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription("t"))
            ],
        }
        return JoinGroupRequest(**(defaults | fields))

    def sync(self, member_id: str, **fields: Any) -> SyncGroupRequest:  # noqa: ANN401
        defaults: dict[str, Any] = {
            "group_id": "g",
            "generation_id": 1,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [],
        }
        return SyncGroupRequest(**(defaults | fields))

    def commit(self, **fields: Any) -> OffsetCommitRequest:  # noqa: ANN401
        row = OffsetCommitRequest.OffsetCommitRequestPartition
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(
            name="t", partitions=[row(partition_index=0, committed_offset=5)]
        )
        return OffsetCommitRequest(**({"group_id": "g", "topics": [topic]} | fields))

    def look(self) -> object:
        """Return the state that a refused request must not change."""
        machine = self.wire.groups.shards()[0].machine
        group = machine.classic_group("g")
        assert group is not None
        return (
            describe_group(group),
            group.soft.generation_id,
            sorted(group.soft.pending_joins),
            sorted(machine.directory.groups),
            list(machine.offsets.all_committed()),
            len(self.wire.logs[0].entries),
        )

    def refuses(self, request: Message, version: int, code: ErrorCode) -> None:
        """Send a request that must be refused with this error and change nothing."""
        before = self.look()
        answer = self.wire.ask(request, version)
        assert not isinstance(answer, PendingResponse), "it waits"
        assert error_of(answer) == code
        assert self.look() == before


def error_of(answer: Any) -> int:  # noqa: ANN401 - any response class
    """Return the error of an answer, in the field of its type."""
    if hasattr(answer, "error_code") and answer.error_code:
        return int(answer.error_code)
    for rows in ("members", "topics", "groups", "results"):
        for row in getattr(answer, rows, None) or ():
            if code := error_of(row):
                return code
    for row in getattr(answer, "partitions", None) or ():
        if row.error_code:
            return int(row.error_code)
    return 0


# Each request violates the rule of its row and all later rules.


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": "", "session_timeout_ms": 1}, CODE.INVALID_GROUP_ID),
        ({"group_id": "none", "session_timeout_ms": 1}, CODE.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 2_000_000, "member_id": "x"}, CODE.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": -1, "protocols": []}, CODE.INVALID_SESSION_TIMEOUT),
        ({"group_id": "none", "member_id": "x", "protocols": []}, CODE.UNKNOWN_MEMBER_ID),
        ({"member_id": "x", "protocols": []}, CODE.GROUP_MAX_SIZE_REACHED),
        ({"protocol_type": "connect"}, CODE.GROUP_MAX_SIZE_REACHED),
        ({"group_instance_id": "i-9", "protocols": []}, CODE.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_joins_of_a_full_group_are_checked_in_order(
    fields: dict[str, Any], code: ErrorCode
) -> None:
    group = Group(group_max_size="2")
    group.refuses(group.join(**fields), JOIN, code)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocols": [], "member_id": "x"}, CODE.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect", "member_id": "x"}, CODE.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, CODE.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": [], "group_instance_id": "i-2"}, CODE.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "x", "group_instance_id": "i-9"}, CODE.UNKNOWN_MEMBER_ID),
        ({"member_id": "x", "group_instance_id": "i-2"}, CODE.FENCED_INSTANCE_ID),
        ({"member_id": "x"}, CODE.UNKNOWN_MEMBER_ID),
    ],
)
def test_joins_are_checked_in_order(fields: dict[str, Any], code: ErrorCode) -> None:
    group = Group()
    group.refuses(group.join(**fields), JOIN, code)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"protocol_type": None, "group_id": ""}, CODE.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None, "member_id": "x"}, CODE.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": "", "member_id": "x"}, CODE.INVALID_GROUP_ID),
        ({"group_id": "none", "generation_id": 7}, CODE.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i-9", "generation_id": 7}, CODE.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i-2", "generation_id": 7}, CODE.FENCED_INSTANCE_ID),
        ({"member_id": "x", "generation_id": 7}, CODE.UNKNOWN_MEMBER_ID),
        ({"member_id": "", "generation_id": 7}, CODE.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7, "protocol_name": "own"}, CODE.ILLEGAL_GENERATION),
        ({"generation_id": -1, "protocol_type": "connect"}, CODE.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, CODE.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "own"}, CODE.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_syncs_are_checked_in_order(fields: dict[str, Any], code: ErrorCode) -> None:
    group = Group()
    request = group.sync(group.leader)
    for name, value in fields.items():
        setattr(request, name, value)
    group.refuses(request, SYNC, code)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": "", "member_id": "x"}, CODE.INVALID_GROUP_ID),
        ({"group_id": "none", "generation_id": 7}, CODE.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i-9", "generation_id": 7}, CODE.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i-2", "generation_id": 7}, CODE.FENCED_INSTANCE_ID),
        ({"member_id": "x", "generation_id": 7}, CODE.UNKNOWN_MEMBER_ID),
        ({"generation_id": 7}, CODE.ILLEGAL_GENERATION),
        ({"generation_id": -1}, CODE.ILLEGAL_GENERATION),
    ],
)
def test_heartbeats_are_checked_in_order(fields: dict[str, Any], code: ErrorCode) -> None:
    group = Group()
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=group.leader)
    for name, value in fields.items():
        setattr(request, name, value)
    group.refuses(request, HEARTBEAT, code)


@pytest.mark.parametrize(
    ("group_id", "member_id", "instance_id", "code"),
    [
        ("", "x", "i-9", CODE.INVALID_GROUP_ID),
        ("none", "x", "i-9", CODE.UNKNOWN_MEMBER_ID),
        ("g", "", "i-9", CODE.UNKNOWN_MEMBER_ID),
        ("g", "", None, CODE.UNKNOWN_MEMBER_ID),
        ("g", "x", "i-9", CODE.UNKNOWN_MEMBER_ID),
        ("g", "x", "i-2", CODE.FENCED_INSTANCE_ID),
        ("g", "x", None, CODE.UNKNOWN_MEMBER_ID),
    ],
)
def test_leaves_are_checked_in_order(
    group_id: str, member_id: str, instance_id: str | None, code: ErrorCode
) -> None:
    group = Group()
    identity = LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
    group.refuses(LeaveGroupRequest(group_id=group_id, members=[identity]), LEAVE, code)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": "none", "generation_id_or_member_epoch": 0}, CODE.GROUP_ID_NOT_FOUND),
        ({"group_instance_id": "i-9", "member_id": "x"}, CODE.UNKNOWN_MEMBER_ID),
        ({"group_instance_id": "i-2", "member_id": "x"}, CODE.FENCED_INSTANCE_ID),
        ({"member_id": "x", "generation_id_or_member_epoch": 7}, CODE.UNKNOWN_MEMBER_ID),
        ({"generation_id_or_member_epoch": 1}, CODE.UNKNOWN_MEMBER_ID),
        ({}, CODE.UNKNOWN_MEMBER_ID),
    ],
)
def test_commits_are_checked_in_order(fields: dict[str, Any], code: ErrorCode) -> None:
    group = Group()
    group.refuses(group.commit(**fields), COMMIT, code)


def test_commits_with_other_generations_are_refused() -> None:
    group = Group()
    for generation_id in (-1, 0, 2, 1 << 30):
        request = group.commit(member_id=group.leader, generation_id_or_member_epoch=generation_id)
        group.refuses(request, COMMIT, CODE.ILLEGAL_GENERATION)


def test_commits_are_refused_until_the_assignment() -> None:
    group = Group()
    wire = group.wire
    rejoin = wire.ask(group.join(member_id=group.leader), JOIN)
    wire.ask(group.join(member_id=group.follower, group_instance_id="i-2"), JOIN)
    assert rejoin.has_arrived
    assert rejoin.response.generation_id == 2
    request = group.commit(member_id=group.leader, generation_id_or_member_epoch=2)
    group.refuses(request, COMMIT, CODE.REBALANCE_IN_PROGRESS)
    group.refuses(group.commit(), COMMIT, CODE.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize(
    ("request_", "version", "code"),
    [
        (OffsetDeleteRequest(group_id="", topics=[]), 0, CODE.INVALID_GROUP_ID),
        (OffsetDeleteRequest(group_id="none", topics=[]), 0, CODE.GROUP_ID_NOT_FOUND),
        (DeleteGroupsRequest(groups_names=["g"]), 2, CODE.NON_EMPTY_GROUP),
        (DeleteGroupsRequest(groups_names=["none"]), 2, CODE.GROUP_ID_NOT_FOUND),
        (DescribeGroupsRequest(groups=["none"]), 6, CODE.GROUP_ID_NOT_FOUND),
    ],
)
def test_requests_of_administrators_are_refused_too(
    request_: Message, version: int, code: ErrorCode
) -> None:
    Group().refuses(request_, version, code)


# Malformed subscriptions and assignments


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\0\0\0\0\0\1", b"\0\0\x7f\xff\xff\xff", b"\0\0\xff\xff\xff\xff", b"\xff" * 99],
)
def test_malformed_member_metadata_is_accepted(data: bytes) -> None:
    """Kafka 4.3 never answers a join with an invalid length in the metadata; 4.4 does."""
    group = Group()
    wire = group.wire
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=data)
    answer = wire.ask(group.join(group_id="h"), JOIN)
    join = wire.ask(
        group.join(group_id="h", member_id=answer.member_id, protocols=[protocol]), JOIN
    )
    wire.clock.advance(0)
    assert join.response.error_code == 0
    given = SyncGroupRequest.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=data)
    synced = wire.ask(group.sync(answer.member_id, group_id="h", assignments=[given]), SYNC)
    assert answer_of(synced).assignment == data
    # As its topics are unknown, all topics count as subscribed.
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(name="t", partitions=[row])
    deleted = wire.ask(OffsetDeleteRequest(group_id="h", topics=[topic]), 0)
    assert error_of(deleted) == CODE.GROUP_SUBSCRIBED_TO_TOPIC


def answer_of(answer: Any) -> Any:  # noqa: ANN401 - any response class
    return answer.response if isinstance(answer, PendingResponse) else answer


# Sizes


def long_string(length: int, *, is_compact: bool) -> bytes:
    """Return a string with that many bytes on the wire; the maximum is 32767."""
    if not is_compact:
        return pack(">h", min(length, 0x7FFF)) + b"x" * min(length, 0x7FFF)
    value, head = length + 1, bytearray()
    while value >= 0x80:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    head.append(value)
    return bytes(head) + b"x" * length


def with_long_string(request: Message, version: int, marker: str, length: int) -> bytes:
    """Return a request frame with one string that is longer than the protocol allows."""
    key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
    body: list[bytes | memoryview] = []
    codec.request_builder(key, version)(request, body)
    is_compact = codec.is_flexible(key, version)
    data = b"".join(body)
    short = marker.encode()
    named = bytes([len(short) + 1]) + short if is_compact else pack(">h", len(short)) + short
    assert data.count(named) == 1
    data = data.replace(named, long_string(length, is_compact=is_compact))
    return pack(">hhih", key, version, 7, 6) + b"client" + (b"\0" if is_compact else b"") + data


def offered(wire: GroupCluster, frame: bytes) -> object:
    """Pass a frame to the gateway."""
    out: list[bytes | memoryview] = []
    return wire.gateway.serve_in_worker(wire.contexts[1], bytearray(frame), 0, len(frame), out)


@pytest.mark.parametrize(
    ("make", "version"),
    [
        (lambda group: group.join(member_id="MARKER"), JOIN),
        (lambda group: group.join(group_instance_id="MARKER"), JOIN),
        (lambda group: group.join(group_id="MARKER"), JOIN),
        (lambda group: group.join(protocol_type="MARKER"), JOIN),
        (lambda group: group.sync("MARKER"), SYNC),
        (lambda _: HeartbeatRequest(group_id="g", generation_id=1, member_id="MARKER"), HEARTBEAT),
        (lambda group: group.commit(member_id="MARKER"), COMMIT),
        (lambda group: group.commit(group_id="MARKER"), COMMIT),
        (lambda _: DescribeGroupsRequest(groups=["MARKER"]), 6),
        (lambda _: DeleteGroupsRequest(groups_names=["MARKER"]), 2),
    ],
)
@pytest.mark.parametrize("length", [0x8000, MEGABYTE])
def test_a_string_of_a_megabyte_closes_the_connection(
    make: Callable[[Group], Message], version: int, length: int
) -> None:
    group = Group()
    before = group.look()
    frame = with_long_string(make(group), version, "MARKER", length)
    with pytest.raises(ProtocolViolation):
        offered(group.wire, frame)
    assert group.look() == before


def many_topics(count: int) -> list[OffsetCommitRequest.OffsetCommitRequestTopic]:
    row = OffsetCommitRequest.OffsetCommitRequestPartition
    return [
        OffsetCommitRequest.OffsetCommitRequestTopic(
            name=f"no-{index}", partitions=[row(partition_index=0, committed_offset=1)]
        )
        for index in range(count)
    ]


def test_many_unknown_topics_are_refused_one_by_one() -> None:
    group = Group()
    before = group.look()
    answer = group.wire.ask(group.commit(topics=many_topics(MANY)), COMMIT)
    assert len(answer.topics) == MANY
    codes = {topic.partitions[0].error_code for topic in answer.topics}
    assert codes == {CODE.UNKNOWN_TOPIC_OR_PARTITION}
    assert group.look() == before


@pytest.mark.endurance  # five seconds
def test_the_memory_of_a_large_request_is_released() -> None:
    group = Group()
    wire = group.wire
    identity = LeaveGroupRequest.MemberIdentity
    members = [identity(member_id=f"unknown-{index}") for index in range(SOME)]
    row = OffsetFetchRequest.OffsetFetchRequestGroup
    requests: list[tuple[Message, int]] = [
        (LeaveGroupRequest(group_id="g", members=members), LEAVE),
        (DeleteGroupsRequest(groups_names=[f"no-{index}" for index in range(SOME)]), 2),
        (DescribeGroupsRequest(groups=[f"no-{index}" for index in range(SOME)]), 6),
        (OffsetFetchRequest(groups=[row(group_id=f"no-{index}") for index in range(SOME)]), 8),
        (ListGroupsRequest(states_filter=[f"no-{index}" for index in range(SOME)]), 5),
    ]
    before = group.look()
    for request, version in requests:
        wire.ask(request, version)  # other tests check the limits of stored data
    gc.collect()
    left = []
    for _ in range(2):
        tracemalloc.start()
        try:
            for request, version in requests:
                answer = wire.ask(request, version)
                assert group.look() == before
                del answer
            gc.collect()
            left.append(tracemalloc.get_traced_memory()[0])
        finally:
            tracemalloc.stop()
    # A leak grows every time; tables of the interpreter grow rarely and by much.
    assert min(left) < MEGABYTE // 4


def test_the_history_of_many_refusals_is_limited() -> None:
    group = Group()
    identity = LeaveGroupRequest.MemberIdentity
    members = [identity(member_id=f"unknown-{index}") for index in range(MANY)]
    group.wire.ask(LeaveGroupRequest(group_id="g", members=members), LEAVE)
    history = group.wire.contexts[1].node.history
    assert 50 <= len(history.about("g")) <= 100


def test_assignments_of_unknown_members_are_not_stored() -> None:
    group = Group()
    wire = group.wire
    rejoin = wire.ask(group.join(member_id=group.leader), JOIN)
    wire.ask(group.join(member_id=group.follower, group_instance_id="i-2"), JOIN)
    assert rejoin.has_arrived
    row = SyncGroupRequest.SyncGroupRequestAssignment
    unknown_members = [
        row(member_id=f"unknown-{index}", assignment=b"x" * 50) for index in range(MANY)
    ]
    synced = wire.ask(group.sync(group.leader, generation_id=2, assignments=unknown_members), SYNC)
    assert answer_of(synced).error_code == 0
    key, value = wire.logs[0].entries[-1]
    assert key is not None
    assert value is not None
    assert len(value) < 1_000


def test_many_protocols_are_compared_fast() -> None:
    group = Group()
    row = JoinGroupRequest.JoinGroupRequestProtocol
    protocols = [row(name=f"own-{index}", metadata=b"") for index in range(MANY)]
    group.refuses(group.join(protocols=protocols), JOIN, CODE.INCONSISTENT_GROUP_PROTOCOL)
    wire = group.wire
    answer = wire.ask(group.join(group_id="h", protocols=protocols), JOIN)
    join = wire.ask(group.join(group_id="h", member_id=answer.member_id, protocols=protocols), JOIN)
    wire.clock.advance(0)
    assert join.response.protocol_name == "own-0"
    entry = wire.contexts[1].node.history.about("g")[-1]
    assert len(entry.text) < 2_000


def test_offset_metadata_is_limited_and_the_number_of_offsets_is_not() -> None:
    group = Group(offset_metadata_max_bytes="10")
    row = OffsetCommitRequest.OffsetCommitRequestPartition
    rows = [
        row(partition_index=0, committed_offset=9, committed_metadata="x" * 11),
        row(partition_index=1, committed_offset=9, committed_metadata="x" * 10),
        row(partition_index=2, committed_offset=9, committed_metadata="x" * 30_000),
    ]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=rows)
    request = group.commit(topics=[topic], member_id=group.leader, generation_id_or_member_epoch=1)
    answer = group.wire.ask(request, COMMIT)
    codes = [each.error_code for each in answer.topics[0].partitions]
    assert codes == [CODE.OFFSET_METADATA_TOO_LARGE, CODE.NONE, CODE.OFFSET_METADATA_TOO_LARGE]


def test_too_long_metadata_is_checked_before_the_epoch() -> None:
    """Checks of the group come first, then the metadata, then the epoch of the partition."""
    group = Group(offset_metadata_max_bytes="10")
    row = OffsetCommitRequest.OffsetCommitRequestPartition
    rows = [row(partition_index=0, committed_offset=9, committed_metadata="x" * 11)]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=rows)
    request = group.commit(topics=[topic], member_id="x", generation_id_or_member_epoch=1)
    group.refuses(request, COMMIT, CODE.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize("version", range(10))
def test_any_timeout_is_accepted(version: int) -> None:
    """A rebalance timeout of zero or less expires at once, without an error."""
    for rebalance_timeout_ms in (0, -1, -(1 << 31), (1 << 31) - 1):
        group = Group()
        wire = group.wire
        request = group.join(group_id="h", rebalance_timeout_ms=rebalance_timeout_ms)
        answer = wire.ask(request, version)
        if not isinstance(answer, PendingResponse):
            request.member_id = answer.member_id
            answer = wire.ask(request, version)
        wire.clock.advance(0)
        assert answer.response.generation_id == 1
        wire.clock.advance(60_000)
        assert error_of(wire.ask(DescribeGroupsRequest(groups=["h"]), 5)) == 0
