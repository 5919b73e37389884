"""Members with extreme requests get an error or a limited answer; the group remains valid."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.groups.modern import ownership
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.cluster.consumers import ConsumerCluster
from tests.unit.groups.consumer.stage import hard_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.testing.coordinator_log import Entry

LARGEST_BATCH = 1_048_588
LONGEST_STRING = 32_767
KEY = ConsumerGroupHeartbeatRequest.API_KEY


class BoundedLog(MemoryCoordinatorLog):
    """A log with the limits of the topic of offsets."""

    def append(self, records: Sequence[Entry], now_ms: int) -> int:
        if sum(len(part or b"") for row in records for part in row) > LARGEST_BATCH:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return super().append(records, now_ms)


@pytest.fixture
def cluster() -> ConsumerCluster:
    """Return a group with one member, a, at epoch 2 with four partitions."""
    cluster = ConsumerCluster({"t": 4})
    cluster.logs[0] = BoundedLog(cluster.logs[0].entries)
    cluster.restart()
    assert cluster.epoch("a") == 2
    cluster.new_records()
    return cluster


def state(group: ConsumerGroup) -> dict[str, object]:
    return hard_fields(group)


def error(response: Any) -> ErrorCode:  # noqa: ANN401 - any response
    return ErrorCode(response.error_code)


def send_with(cluster: ConsumerCluster, member_id: bytes) -> None:
    """Send a heartbeat with a member id that no client library would generate."""
    out: list[bytes | memoryview] = []
    codec.request_builder(KEY, 1)(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="\1\2\3", member_epoch=2), out
    )
    size, count = bytearray(), len(member_id) + 1
    while count > 0x7F:
        size.append(count & 0x7F | 0x80)
        count >>= 7
    size.append(count)
    body = b"".join(out).replace(b"\4\1\2\3", bytes(size) + member_id)
    frame = bytearray(struct.pack(">hhih", KEY, 1, 7, 6) + b"client\0" + body)
    cluster.gateway.serve_in_worker(cluster.contexts[1], frame, 0, len(frame), [])


def test_a_hundred_thousand_topics_exceed_the_limit_of_a_record(cluster: ConsumerCluster) -> None:
    before = state(cluster.group())
    names = [f"a-topic-that-is-not-there-{number:06}" for number in range(100_000)]
    assert error(cluster.beat("b", topics=names)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert error(cluster.beat("a", 2, topics=names)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert cluster.new_records() == []
    assert state(cluster.group()) == before
    assert cluster.epoch("a", 2) == 2
    assert cluster.events("refused")


def test_a_hundred_thousand_short_names_are_stored_without_effect(
    cluster: ConsumerCluster,
) -> None:
    names = [f"{number:05}" for number in range(100_000)]
    response = cluster.beat("b", topics=names)
    assert (error(response), cluster.given(response)) == (ErrorCode.NONE, {})
    cluster.pass_interval()
    assert cluster.epoch("a", 2) == 3
    assert cluster.group().current_of("a").assigned == {
        cluster.ids["t"]: dict.fromkeys(range(4), 2)
    }


def test_a_member_id_of_a_megabyte_is_malformed(cluster: ConsumerCluster) -> None:
    before = state(cluster.group())
    for length in (LONGEST_STRING + 1, 1 << 20):
        with pytest.raises(ProtocolViolation):
            send_with(cluster, b"m" * length)
    assert state(cluster.group()) == before


def test_the_longest_possible_member_id_is_accepted(cluster: ConsumerCluster) -> None:
    member_id = "m" * LONGEST_STRING
    assert cluster.beat(member_id).member_id == member_id
    cluster.restart()
    assert sorted(cluster.group().members) == ["a", member_id]
    assert error(cluster.beat(member_id, -1)) is ErrorCode.NONE


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_million_owned_partitions_are_not_stored(cluster: ConsumerCluster, epoch: int) -> None:
    before = state(cluster.group())
    response = cluster.beat("a", epoch, {"t": range(1_000_000)})
    assert error(response) is (ErrorCode.NONE if epoch == 2 else ErrorCode.FENCED_MEMBER_EPOCH)
    assert cluster.new_records() == []
    assert state(cluster.group()) == before


def test_repeated_negative_and_unknown_owned_partitions_are_ignored(
    cluster: ConsumerCluster,
) -> None:
    cluster.ids["nothing"] = b"n" * 16
    owned = {"t": [0, 0, -1, 1 << 30], "nothing": [0, -5]}
    assert cluster.epoch("a", 2, owned) == 2
    assert cluster.new_records() == []


@pytest.mark.endurance  # five seconds
def test_thousands_of_expressions_are_resolved_together(cluster: ConsumerCluster) -> None:
    members = 2_000
    for number in range(members):
        request = ConsumerGroupHeartbeatRequest(
            group_id="many",
            member_id=f"m{number}",
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=f"t{number}?",
            topic_partitions=[],
        )
        assert error(cluster.ask(request, 1)) is ErrorCode.NONE
    cluster.clock.advance(11_000)
    assert cluster.epoch("m0", 1, group="many") > 0
    cluster.clock.advance(0)
    group = cluster.group("many")
    assert len(group.resolved_regexes) == len(group.regex_subscribers) == members
    assert group.subscribed_topics() == {"t"}


@pytest.mark.parametrize("regex", ["(a{1000}){1000}", "(", "x" * LONGEST_STRING])
def test_an_expression_above_the_limits_creates_no_group(
    cluster: ConsumerCluster, regex: str
) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="new",
        member_id="m",
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )
    response = cluster.ask(request, 1)
    if error(response) is ErrorCode.NONE:
        # A single long expression is valid.
        assert cluster.group("new").regex_subscribers == {regex: 1}
    else:
        assert error(response) is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert "new" not in cluster.groups.shards()[0].machine.directory.groups
        assert cluster.new_records() == []


def test_the_memory_of_ownership_history_is_limited() -> None:
    partitions = ownership.MAX_ENTRIES + 500
    cluster = ConsumerCluster({"t": partitions})
    cluster.epoch("a")
    history = cluster.group().ownership()
    known = [history.owner_since_ms(cluster.ids["t"], each, "a") for each in range(partitions)]
    assert sum(each is not None for each in known) == ownership.MAX_ENTRIES
    cluster.beat("m" * LONGEST_STRING)
    cluster.beat("m" * LONGEST_STRING, -1)
    assert history.departure("m" * LONGEST_STRING) is None
