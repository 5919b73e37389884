"""ShareFetch: records for members of a share group, immediately or later, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.partitions.partition import Partition
from kafkalite.partitions.replicas import Leader, ReplicaView
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.shares import sessions
from kafkalite.shares.state import ShareKey
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView
from kafkalite.storage.transaction_marker import TransactionMarker
from tests.cluster.shares import (
    ACCEPT,
    FIRST,
    GAP,
    LAST,
    LOCK_MS,
    RELEASE,
    RENEW,
    AcquiredRecords,
    ShareCluster,
    acquired,
    errors,
)
from tests.unit.data_plane import batch_of, batches_in

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def wire(tmp_path: Path) -> ShareCluster:
    return ShareCluster(tmp_path)


def test_records_are_returned_with_their_batches(wire: ShareCluster) -> None:
    wire.produce(2, 3, 4)
    answer = wire.fetch(FIRST, max_records=2)
    (row,) = answer.responses[0].partitions
    assert [batch.base_offset for batch in batches_in(row.records)] == [0]
    assert answer.acquisition_lock_timeout_ms == LOCK_MS
    assert acquired(wire.fetch(1)) == {0: [(2, 8, 1)]}
    wire.ack(2, (2, 4, RELEASE))
    answer = wire.fetch(3)
    (row,) = answer.responses[0].partitions
    assert [batch.base_offset for batch in batches_in(row.records)] == [2]


def test_a_fetch_waits_for_min_bytes_or_its_deadline(wire: ShareCluster) -> None:
    answer = wire.fetch(FIRST, max_wait_ms=1000, min_bytes=150)
    assert isinstance(answer, Waiting)
    wire.produce(1)
    assert not answer.is_resolved
    wire.produce(9)
    assert acquired(answer) == {0: [(0, 9, 1)]}
    later = wire.fetch(1, max_wait_ms=1000)
    wire.clock.advance(999)
    assert not later.is_resolved
    wire.clock.advance(1)
    assert acquired(later) == {}
    assert wire.clock.next_deadline_ms is not None


def test_a_waiting_fetch_gets_released_records(wire: ShareCluster) -> None:
    wire.produce(4, 4)
    assert acquired(wire.fetch(FIRST)) == {0: [(0, 7, 1)]}
    waiting = [wire.fetch(FIRST, member, max_wait_ms=60_000) for member in "bc"]
    assert wire.ack(1, (2, 3, RELEASE)) == (0, 0)
    assert acquired(waiting[0]) == {0: [(2, 3, 2)]}
    assert not waiting[1].is_resolved
    wire.fetch(LAST)
    assert acquired(waiting[1]) == {0: [(0, 1, 2), (4, 7, 2)]}


def test_a_waiting_fetch_gets_records_whose_lock_expires(wire: ShareCluster) -> None:
    wire.produce(4)
    wire.fetch(FIRST)
    waiting = wire.fetch(FIRST, "b", max_wait_ms=60_000)
    wire.clock.advance(LOCK_MS - 1)
    assert not waiting.is_resolved
    wire.clock.advance(1)
    assert acquired(waiting) == {0: [(0, 3, 2)]}
    (entry,) = [each for each in wire.cluster.history.about("g") if each.kind == "expired"]
    assert entry.text == (
        "member a did not acknowledge records 0 to 3 of t-0 in time (rule acquisition-lock)"
    )
    assert entry.facts["lock_ms"] == LOCK_MS


def test_a_renewed_lock_lasts_longer(wire: ShareCluster) -> None:
    wire.produce(2)
    wire.fetch(FIRST)
    wire.clock.advance(LOCK_MS - 1)
    nothing: dict[str, Any] = {"max_bytes": 0, "min_bytes": 0, "max_records": 0}
    answer = wire.fetch(1, acks={0: [(0, 1, [RENEW, ACCEPT])]}, is_renew_ack=True, **nothing)
    assert errors(answer) == (0, {0: (0, 0)})
    wire.clock.advance(LOCK_MS - 1)
    assert acquired(wire.fetch(FIRST, "b")) == {0: []}
    wire.clock.advance(1)
    assert acquired(wire.fetch(1, "b")) == {0: [(0, 0, 2)]}


def test_a_renewal_cannot_fetch(wire: ShareCluster) -> None:
    wire.produce(2)
    answer = wire.fetch(FIRST, is_renew_ack=True)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_closed_connection_ends_its_sessions(wire: ShareCluster) -> None:
    wire.produce(3)
    wire.fetch(FIRST, connection="other")
    waiting = wire.fetch(FIRST, "b", max_wait_ms=60_000)
    wire.close_connection("other")
    assert acquired(waiting) == {0: [(0, 2, 2)]}
    assert wire.fetch(1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    wire.close_connection("main")
    assert acquired(wire.fetch(FIRST, "c")) == {0: [(0, 2, 3)]}


def test_after_a_closed_connection_others_can_begin_new_sessions(
    wire: ShareCluster,
) -> None:
    wire.produce(8)
    assert acquired(wire.fetch(FIRST, connection="other")) == {0: [(0, 7, 1)]}
    wire.fetch(LAST, connection="other")
    wire.begin(epoch=1, start=6)
    wire.close_connection("other")
    assert acquired(wire.fetch(FIRST, "b")) == {0: [(6, 7, 1)]}


def test_a_closed_connection_ends_its_wait(wire: ShareCluster) -> None:
    waiting = wire.fetch(FIRST, max_wait_ms=60_000)
    waiting.abandon()
    wire.produce(1)
    assert not waiting.is_resolved
    assert acquired(wire.fetch(FIRST, "b")) == {0: [(0, 0, 1)]}


def test_acknowledged_records_are_not_delivered_after_a_restart(wire: ShareCluster) -> None:
    wire.produce(4, 4)
    wire.fetch(FIRST)
    wire.ack(1, (0, 1, ACCEPT), (3, 3, RELEASE), (6, 6, ACCEPT))
    wire.restart_after_kill()
    assert acquired(wire.fetch(FIRST, "b")) == {0: [(2, 2, 1), (3, 3, 2), (4, 5, 1), (7, 7, 1)]}


def test_a_repeated_fetch_is_detected_when_it_is_answered(wire: ShareCluster) -> None:
    wire.fetch(FIRST)
    waiting = wire.fetch(1, max_wait_ms=1000)
    assert acquired(wire.fetch(2)) == {}
    wire.clock.advance(1000)
    assert waiting.value.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_the_number_of_sessions_of_a_node_is_limited(tmp_path: Path) -> None:
    sessions = {"group.share.max.share.sessions": "2", "group.share.max.size": "2"}
    wire = ShareCluster(tmp_path, config=sessions)
    assert errors(wire.fetch(FIRST))[0] == ErrorCode.NONE
    assert errors(wire.fetch(FIRST, "b"))[0] == ErrorCode.NONE
    refused = wire.fetch(FIRST, "c", max_wait_ms=700)
    assert not refused.is_resolved
    wire.clock.advance(700)
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    wire.fetch(LAST, "b")
    assert errors(wire.fetch(FIRST, "c"))[0] == ErrorCode.NONE


def test_a_new_leader_that_does_not_know_it_serves_no_share_group(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, nodes=2, partitions=2)
    hosted = wire.cluster.partitions.topic("t")
    assert hosted is not None
    partition = next(each for each in hosted.partitions if each.leader == 2)
    view = partition.views[2] = ReplicaView(partition)
    view.known_leader = Leader(1, 0, (1, 2))
    (row,) = wire.fetch(FIRST, index=[partition.index], node_id=2).responses[0].partitions
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_partition_with_another_leader_has_its_leader(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, nodes=2, partitions=2)
    led = wire.cluster.metadata.image.topics["t"].partitions
    elsewhere = next(each for each in led if each.leader == 2)
    answer = wire.fetch(FIRST, index=[elsewhere.index])
    (row,) = answer.responses[0].partitions
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (2, 0)
    assert [each.node_id for each in answer.node_endpoints] == [2]
    wire.produce(1, index=elsewhere.index)
    there = wire.fetch(FIRST, index=[elsewhere.index], connection="two", node_id=2)
    assert acquired(there) == {elsewhere.index: [(0, 0, 1)]}


def test_a_deleted_topic_ends_waiting_fetches(wire: ShareCluster) -> None:
    waiting = wire.fetch(FIRST, max_wait_ms=60_000)
    wire.cluster.metadata.delete_topics([wire.topic_id])
    assert errors(waiting) == (0, {0: (0, 0)})
    assert errors(wire.fetch(1)) == (0, {0: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)})
    assert wire.ack(2, (0, 0, ACCEPT))[1] == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_unknown_topic_id_is_answered_as_such(wire: ShareCluster) -> None:
    topic = ShareFetchRequest.FetchTopic(
        topic_id=bytes(16), partitions=[ShareFetchRequest.FetchPartition()]
    )
    answers = wire.fetch(FIRST, topics=[topic]), wire.fetch(1)
    assert [errors(answer) for answer in answers] == [(0, {0: (ErrorCode.UNKNOWN_TOPIC_ID, 0)})] * 2


def test_an_unknown_topic_id_fails_the_session_before_kafka_4_4(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, as_version="4.3")
    topic = ShareFetchRequest.FetchTopic(
        topic_id=bytes(16), partitions=[ShareFetchRequest.FetchPartition()]
    )
    assert wire.fetch(FIRST, topics=[topic]).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert wire.fetch(1).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_all_partitions_have_their_turn(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, partitions=3)
    for index in range(3):
        wire.produce(1, 1, index=index)
    answers = [wire.fetch(FIRST, index=range(3), max_records=1)]
    answers += [wire.fetch(epoch, max_records=1) for epoch in range(1, 6)]
    got = [index for each in answers for index, given in acquired(each).items() if given]
    assert sorted(got) == [0, 0, 1, 1, 2, 2]
    assert got[:2] == [0, 1]


def test_a_topic_with_many_partitions_is_answered_within_the_limit(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, partitions=4)
    for index in range(4):
        wire.produce(50, 50, index=index)
    answer = wire.fetch(FIRST, index=range(4), max_bytes=1200)
    sizes = [len(row.records) for topic in answer.responses for row in topic.partitions]
    assert 0 < sum(sizes) <= 1200


def test_large_batches_of_several_partitions_are_returned_whole(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, partitions=2)
    large = batch_of(b"v" * 300_000)
    for index in range(2):
        for _ in range(3):
            wire.log(index).append(BatchView(large), wire.clock.now_ms())
    answer = wire.fetch(FIRST, index=range(2), max_bytes=8_000_000)
    assert acquired(answer) == {0: [(0, 2, 1)], 1: [(0, 2, 1)]}


def test_reads_are_limited_to_what_can_be_acquired(
    wire: ShareCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.produce(*[1000] * 200)
    sizes = []
    read = Partition.read

    def recorded_read(log: Partition, offset: int, *, max_bytes: int, **bounds: Any) -> bytes:  # noqa: ANN401
        sizes.append(max_bytes)
        return read(log, offset, max_bytes=max_bytes, **bounds)

    monkeypatch.setattr(Partition, "read", recorded_read)
    assert acquired(wire.fetch(FIRST, max_records=500)) == {0: [(0, 999, 1)]}
    assert max(sizes) == 256 * 1024


def test_read_committed_returns_only_committed_records(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path)
    committed = ConfigChange("share.isolation.level", AlterOperation.SET, "read_committed")
    wire.cluster.metadata.alter_configs({ConfigResource(ResourceType.GROUP, "g"): [committed]})
    log, now_ms = wire.log(), wire.clock.now_ms()
    nothing: list[AcquiredRecords] = []
    histories = ((7, False, nothing), (8, True, [(2, 2, 1)]))
    for producer_id, is_commit, seen in histories:
        producer = BatchProducer(producer_id, 0, 0)
        batch = batch_of(b"a", b"b", attributes=TRANSACTIONAL, producer=producer)
        log.append(BatchView(batch), now_ms, is_verified=True)
        assert acquired(wire.fetch(FIRST, "early")) == {0: seen}
        log.append_marker(TransactionMarker(producer_id, 0, 0, is_commit), now_ms)
    assert acquired(wire.fetch(FIRST)) == {0: [(3, 5, 1)]}
    assert wire.ack(1, (3, 5, ACCEPT)) == (0, 0)
    wire.fetch(LAST, "early", acks={0: [(2, 2, GAP)]})
    share = wire.cluster.share_partitions.find(ShareKey("g", wire.topic_id, 0))
    assert share is not None
    assert share.window.start_offset == 6


def test_the_longest_waiting_fetch_is_served_first(wire: ShareCluster) -> None:
    members = "abcd"
    waiting = {member: wire.fetch(FIRST, member, max_wait_ms=60_000) for member in members}
    served: list[str] = []
    for turn in range(3):
        for _ in members:
            wire.produce(2)
            (lucky,) = [member for member, each in waiting.items() if each.is_resolved]
            served.append(lucky)
            (given,) = acquired(waiting[lucky])[0]
            waiting[lucky] = wire.fetch(
                1 + turn,
                lucky,
                acks={0: [(given[0], given[1], ACCEPT)]},
                max_wait_ms=60_000,
            )
    assert "".join(served) == members * 3


def test_the_partitions_of_all_sessions_are_limited(
    wire: ShareCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MAX_PARTITIONS", 2_500)
    rows = [ShareFetchRequest.FetchPartition(partition_index=index) for index in range(1, 1_001)]
    topics = [ShareFetchRequest.FetchTopic(topic_id=wire.topic_id, partitions=rows)]
    codes = [errors(wire.fetch(FIRST, member, topics=topics, max_wait_ms=1))[0] for member in "ab"]
    assert codes == [0, 0]
    refused = wire.fetch(FIRST, "c", topics=topics, max_wait_ms=1)
    wire.clock.advance(1)
    assert refused.value.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    wire.close_connection("main")
    assert errors(wire.fetch(FIRST, "c", max_wait_ms=0))[0] == 0


def test_records_are_not_returned_if_share_groups_are_disabled(tmp_path: Path) -> None:
    wire = ShareCluster(tmp_path, config={"share.version": "0"})
    answer = wire.fetch(FIRST)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.acquisition_lock_timeout_ms == 0
