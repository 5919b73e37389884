"""Edge cases of Produce, Fetch and related APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from tests.conformance.batches import LOG_APPEND_TIME, Batch, batch
from tests.conformance.setup import (
    EARLIEST,
    create_topic,
    fill,
    list_offsets,
    produce,
    producer_id,
    wait_for_group_coordinator,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_MANY_BYTES = 1 << 20
_SPECIAL = (-1, -2, -3, -4, -5, -6)
_OFFSETS_TOPIC = "__consumer_offsets"


def _partition(index: int = 0, offset: int = 0, **fields: int) -> FetchRequest.FetchPartition:
    row = FetchRequest.FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=_MANY_BYTES
    )
    for name, value in fields.items():
        setattr(row, name, value)
    return row


def _fetch(
    topic: str | bytes, *partitions: FetchRequest.FetchPartition, **fields: int
) -> FetchRequest:
    """Ask for partitions of one topic, by name or (v13) by id; without a session or a wait."""
    named = FetchRequest.FetchTopic(partitions=list(partitions))
    if isinstance(topic, bytes):
        named.topic_id = topic
    else:
        named.topic = topic
    request = FetchRequest(session_epoch=-1, min_bytes=1, max_bytes=_MANY_BYTES, topics=[named])
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def _delete(name: str, *cuts: tuple[int, int]) -> DeleteRecordsRequest:
    rows = [
        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
        for index, offset in cuts
    ]
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=rows)
    return DeleteRecordsRequest(timeout_ms=1000, topics=[topic])


def fetching_starts_in_the_middle_of_a_batch(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a", b"b", b"c")
    fill(cluster, cluster.name, b"d", b"e")
    for offset in range(6):
        row = _partition(offset=offset)
        cluster.ask(_fetch(cluster.name, row), 12)
        cluster.ask(_fetch(cluster.name, _partition(offset=offset, partition_max_bytes=1)), 12)
        for max_bytes in (1, 0, -5):
            cluster.ask(_fetch(cluster.name, row, min_bytes=-1, max_bytes=max_bytes), 12)


def a_partition_is_requested_twice(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name, 2)
    request = produce(cluster.name, batch(b"a"))
    request.topic_data[0].partition_data += (
        produce(cluster.name, batch(b"b")).topic_data[0].partition_data
    )
    cluster.ask(request, 9)
    request = produce(cluster.name, batch(b"c"))
    request.topic_data += produce(cluster.name, batch(b"d")).topic_data
    cluster.ask(request, 9)
    rows = (_partition(), _partition(1), _partition(0, 1))
    cluster.ask(_fetch(cluster.name, *rows), 12)
    cluster.ask(_fetch(topic_id, *rows), 13)
    cluster.ask(_fetch(cluster.name, *rows, session_epoch=0), 12)
    cluster.ask(_delete(cluster.name, (0, 1), (0, 2)), 2)


def unknown_partition_indexes_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for index in (-1, -2, 99_999):
        cluster.ask(produce(cluster.name, batch(), partition=index), 9)
        cluster.ask(_fetch(cluster.name, _partition(index)), 12)
        cluster.ask(list_offsets(cluster.name, index), 7)
        cluster.ask(_delete(cluster.name, (index, 0)), 2)


def empty_requests_are_answered(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    cluster.ask(ProduceRequest(acks=1), 9)
    cluster.ask(ProduceRequest(acks=7), 9)
    topic = ProduceRequest.TopicProduceData(name=cluster.name)
    cluster.ask(ProduceRequest(acks=1, topic_data=[topic]), 9)
    for version in (4, 7, 12):
        cluster.ask(FetchRequest(session_epoch=-1, max_wait_ms=200, min_bytes=1), version)
    for version in (7, 13):
        cluster.ask(FetchRequest(session_epoch=0, max_wait_ms=200, min_bytes=1), version)
    cluster.ask(_fetch(cluster.name), 12)
    cluster.ask(_fetch(cluster.name, session_epoch=0), 12)
    cluster.ask(DeleteRecordsRequest(), 2)
    cluster.ask(OffsetForLeaderEpochRequest(), 4)


def a_transactional_request_may_carry_plain_batches(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    request = produce(cluster.name, batch())
    request.transactional_id = "tx"
    cluster.ask(request, 9)


def internal_topics_cannot_be_written(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, f"g-{cluster.name}")
    for version in (3, 9):
        cluster.ask(produce(_OFFSETS_TOPIC, batch()), version)
    cluster.ask(list_offsets(_OFFSETS_TOPIC, timestamp=EARLIEST), 7)
    cluster.ask(_delete(_OFFSETS_TOPIC, (0, 0)), 2)


def timestamps_increase_and_decrease(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for timestamp, count, step in ((1000, 3, 10), (900, 2, 5), (2000, 3, 500), (3000, 2, 0)):
        values = (b"v",) * count
        records = Batch(values=values, timestamp=timestamp, timestamp_step=step).encode()
        cluster.ask(produce(cluster.name, records), 9)
    for timestamp in (0, 900, 901, 905, 906, 1000, 1001, 1020, 1021, 2500, 2501, 3000, 3001):
        cluster.ask(list_offsets(cluster.name, timestamp=timestamp), 11)
    for timestamp in _SPECIAL:
        cluster.ask(list_offsets(cluster.name, timestamp=timestamp), 11)


def records_may_have_no_timestamp(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    records = Batch(values=(b"v",) * 2, timestamp=-1, timestamp_step=0).encode()
    cluster.ask(produce(cluster.name, records), 9)
    for timestamp in (0, 5, *_SPECIAL):
        cluster.ask(list_offsets(cluster.name, timestamp=timestamp), 11)
    cluster.ask(_fetch(cluster.name, _partition()), 12)


def a_repeated_batch_returns_its_timestamp(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    create_topic(cluster, f"{cluster.name}-b", configs={"message.timestamp.type": "LogAppendTime"})
    number, epoch = producer_id(cluster)
    records = Batch(producer_id=number, producer_epoch=epoch, base_sequence=0).encode()
    for name in (cluster.name, f"{cluster.name}-b"):
        cluster.ask(produce(name, records), 9)
        cluster.ask(produce(name, records), 9)


def a_client_sets_log_append_time(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    create_topic(cluster, f"{cluster.name}-b", configs={"message.timestamp.type": "LogAppendTime"})
    timed = Batch(attributes=LOG_APPEND_TIME, values=(b"a", b"b")).encode()
    timeless = Batch(attributes=LOG_APPEND_TIME, timestamp=-1, timestamp_step=0).encode()
    for name in (cluster.name, f"{cluster.name}-b"):
        cluster.ask(produce(name, timed), 9)
        cluster.ask(produce(name, timeless), 9)
        cluster.ask(_fetch(name, _partition()), 12)


def a_truncated_log_continues(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, 2)
    create_topic(cluster, f"{cluster.name}-c", configs={"cleanup.policy": "compact"})
    create_topic(cluster, f"{cluster.name}-b", configs={"cleanup.policy": "compact,delete"})
    for _ in range(4):
        fill(cluster, cluster.name, b"x")
    for version in (0, 1, 2):
        for offset in (0, 2, 1, 5, -1, -2):
            cluster.ask(_delete(cluster.name, (0, offset)), version)
    for name, index, offset in (
        (f"{cluster.name}-c", 0, 0),
        (f"{cluster.name}-b", 0, 0),
        (cluster.name, 1, -1),
    ):
        cluster.ask(_delete(name, (index, offset)), 2)
    for offset in (0, 4):
        cluster.ask(_fetch(cluster.name, _partition(offset=offset)), 12)
    cluster.ask(produce(cluster.name, batch(b"next")), 9)
    cluster.ask(list_offsets(cluster.name, timestamp=EARLIEST), 11)
    for epoch in (0, 1):
        row = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition=0, leader_epoch=epoch, current_leader_epoch=-1
        )
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
            topic=cluster.name, partitions=[row]
        )
        cluster.ask(OffsetForLeaderEpochRequest(topics=[topic]), 4)


def partitions_of_a_session_take_turns(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, 3)
    for index in range(3):
        for _ in range(3):
            fill(cluster, cluster.name, b"%d" % index * 300, partition=index)
    at_end = (_partition(index, 3) for index in range(3))
    session_id = cluster.ask(_fetch(cluster.name, *at_end, session_epoch=0), 12).session_id
    within = {"session_id": session_id, "max_bytes": 800}
    at_start = (_partition(index) for index in range(3))
    cluster.ask(_fetch(cluster.name, *at_start, session_epoch=1, **within), 12)
    for epoch in (2, 3, 4):
        cluster.ask(_fetch(cluster.name, session_epoch=epoch, **within), 12)
    request = _fetch(cluster.name, _partition(0, 3), _partition(1, 99), session_epoch=5, **within)
    request.forgotten_topics_data = [
        FetchRequest.ForgottenTopic(topic=cluster.name, partitions=[2, 7])
    ]
    cluster.ask(request, 12)
    cluster.ask(_fetch(cluster.name, _partition(1, 3), session_epoch=6, **within), 12)
    cluster.ask(_fetch(cluster.name, session_epoch=7, **within), 12)
    cluster.ask(_fetch(cluster.name, session_epoch=0, **within), 12)
    cluster.ask(_fetch(cluster.name, session_epoch=1, **within), 12)


def a_wait_ends_early_for_errors(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, 2)
    for rows, max_wait_ms in (
        ((_partition(), _partition(1, 5)), 10_000),
        ((_partition(), _partition(7, 5)), 200),
        ((_partition(7, 5),), 10_000),
        ((_partition(last_fetched_epoch=0),), 200),
        ((_partition(0, 1, last_fetched_epoch=0),), 10_000),
        ((_partition(last_fetched_epoch=9),), 10_000),
    ):
        cluster.ask(_fetch(cluster.name, *rows, max_wait_ms=max_wait_ms), 12)


def segments_have_a_maximum_size(cluster: ScenarioCluster) -> None:
    configs = {"segment.bytes": "1048576", "max.message.bytes": "2000000"}
    create_topic(cluster, cluster.name, configs=configs)
    for size in (1_100_000, 1_000_000, 1_000_000):
        cluster.ask(produce(cluster.name, batch(b"x" * size)), 9)
    row = _partition(partition_max_bytes=5_000_000)
    limits = {"min_bytes": 1_500_000, "max_bytes": 10_000_000}
    cluster.ask(_fetch(cluster.name, row, max_wait_ms=10_000, **limits), 12)


def producer_ids_are_issued_in_every_version(cluster: ScenarioCluster) -> None:
    producer_id(cluster)
    for version in range(6):
        for transactional_id in (None, ""):
            request = InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=1000
            )
            cluster.ask(request, version)
    for version in (3, 4, 5):
        for number, epoch in ((5, -1), (-1, 5), (5, 5)):
            request = InitProducerIdRequest(
                transactional_id=None,
                transaction_timeout_ms=1000,
                producer_id=number,
                producer_epoch=epoch,
            )
            cluster.ask(request, version)


SCENARIOS = (
    fetching_starts_in_the_middle_of_a_batch,
    a_partition_is_requested_twice,
    unknown_partition_indexes_are_refused,
    empty_requests_are_answered,
    a_transactional_request_may_carry_plain_batches,
    internal_topics_cannot_be_written,
    timestamps_increase_and_decrease,
    records_may_have_no_timestamp,
    a_repeated_batch_returns_its_timestamp,
    a_client_sets_log_append_time,
    a_truncated_log_continues,
    partitions_of_a_session_take_turns,
    a_wait_ends_early_for_errors,
    segments_have_a_maximum_size,
    producer_ids_are_issued_in_every_version,
)
