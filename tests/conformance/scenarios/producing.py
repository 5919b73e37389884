"""Produce: stored and refused records, and responses to idempotent producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.storage.batch import build_batch
from kafkalite.storage.record_format import NewRecord
from tests.conformance.batches import BASE_TIMESTAMP, CONTROL, TRANSACTIONAL, Batch, batch
from tests.conformance.setup import UNKNOWN_ID, create_topic, list_offsets, produce, producer_id

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_BY_ID = 13
_YEAR_MS = 365 * 24 * 3600 * 1000


def records_are_produced_in_every_version(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    for version in range(3, 14):
        for acks in (-1, 1):
            request = produce(cluster.name, batch(b"a", b"b"), acks=acks, topic_id=topic_id)
            cluster.ask(request, version)


def records_without_acknowledgement_are_stored(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    cluster.send(produce(cluster.name, batch(b"a", b"b", b"c"), acks=0), 9)
    # There is no response, so the next response belongs to the next request.
    connection = cluster.connection("main")
    connection.forget_last()
    cluster.call_until(
        list_offsets(cluster.name), 7, lambda found: found.topics[0].partitions[0].offset == 3
    )
    cluster.ask(list_offsets(cluster.name), 7)


def failed_records_without_acknowledgement_close_the_connection(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    cluster.send(produce(f"{cluster.name}-missing", batch(b"a"), acks=0), 9)
    cluster.connection("main").forget_last()
    cluster.ask(list_offsets(cluster.name), 7)


def producing_to_unknown_partitions_is_refused(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    for version in (3, 8, 9, 12):
        cluster.ask(produce(f"{cluster.name}-missing", batch()), version)
        cluster.ask(produce(cluster.name, batch(), partition=7), version)
    cluster.ask(produce("", batch(), topic_id=UNKNOWN_ID), _BY_ID)
    cluster.ask(produce("", batch(), topic_id=topic_id, partition=7), _BY_ID)
    cluster.ask(produce("", batch()), _BY_ID)
    cluster.ask(produce("in valid", batch()), 9)


def required_acknowledgements_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for acks in (2, -2, 100):
        for version in (3, 9):
            cluster.ask(produce(cluster.name, batch(), acks=acks), version)


def corrupt_batches_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    good = batch(b"a", b"b")
    for records in (
        Batch(crc_error=1).encode(),
        good[:-1],
        good[:40],
        good[:8],
        good + b"\0",
        good + good,
        Batch(magic=1).encode(),
        Batch(magic=9).encode(),
        Batch(base_offset=5).encode(),
    ):
        for version in (3, 9):
            cluster.ask(produce(cluster.name, records), version)
    cluster.ask(list_offsets(cluster.name), 7)


def empty_records_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in (3, 9):
        cluster.ask(produce(cluster.name, b""), version)


def inconsistent_batches_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for attributes in (CONTROL, TRANSACTIONAL, CONTROL | TRANSACTIONAL, 7, 0x40):
        cluster.ask(produce(cluster.name, Batch(attributes=attributes).encode()), 9)
    not_compressed = Batch(attributes=1, values=(b"plain",)).encode()
    cluster.ask(produce(cluster.name, not_compressed), 9)
    cluster.ask(list_offsets(cluster.name), 7)


def large_batches_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, configs={"max.message.bytes": "200"})
    cluster.ask(produce(cluster.name, batch(b"x" * 100)), 9)
    cluster.ask(produce(cluster.name, batch(b"x" * 200)), 9)
    cluster.ask(produce(cluster.name, batch(*[b"x" * 50] * 4)), 9)


def large_records_of_compressed_batches_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, configs={"max.decompressed.message.bytes": "107"})
    for size in (100, 101):
        records = [NewRecord(b"k", b"x" * length, BASE_TIMESTAMP) for length in (1, size)]
        for codec in (0, 1, 2, 3, 4):
            cluster.ask(produce(cluster.name, build_batch(records, attributes=codec)), 9)


def the_broker_sets_log_append_time_if_configured(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, configs={"message.timestamp.type": "LogAppendTime"})
    for version in (3, 9):
        cluster.ask(produce(cluster.name, batch(b"a", b"b")), version)


def timestamps_outside_the_limits_are_refused(cluster: ScenarioCluster) -> None:
    limits = {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}
    create_topic(cluster, cluster.name, configs=limits)
    cluster.ask(
        produce(cluster.name, Batch(timestamp=BASE_TIMESTAMP, values=(b"a", b"b")).encode()), 9
    )
    future = Batch(timestamp=BASE_TIMESTAMP + 100 * _YEAR_MS).encode()
    cluster.ask(produce(cluster.name, future), 9)
    cluster.ask(produce(cluster.name, future), 7)
    create_topic(cluster, f"{cluster.name}-default")
    cluster.ask(produce(f"{cluster.name}-default", future), 9)
    cluster.ask(produce(f"{cluster.name}-default", Batch(timestamp=-1).encode()), 9)


def compacted_topics_require_keys(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, configs={"cleanup.policy": "compact"})
    keyless = Batch(key=None, values=(b"a", b"b")).encode()
    for version in (7, 8, 9):
        cluster.ask(produce(cluster.name, keyless), version)
    cluster.ask(produce(cluster.name, batch(b"a", None)), 9)


def several_partitions_have_individual_results(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    request = produce(cluster.name, batch(b"a"))
    (topic,) = request.topic_data
    part = ProduceRequest.PartitionProduceData
    topic.partition_data += [
        part(index=1, records=Batch(crc_error=1).encode()),
        part(index=2, records=batch(b"c")),
    ]
    other = produce(f"{cluster.name}-missing", batch(b"d"))
    request.topic_data += other.topic_data
    cluster.ask(request, 9)


def sequences_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    pid, epoch = producer_id(cluster)

    def numbered(first: int, count: int = 1, of_epoch: int = epoch) -> ProduceRequest:
        values = tuple(b"%d" % number for number in range(first, first + count))
        return produce(
            cluster.name,
            Batch(
                values=values, producer_id=pid, producer_epoch=of_epoch, base_sequence=first
            ).encode(),
        )

    cluster.ask(numbered(0, 2), 9)
    cluster.ask(numbered(2), 9)
    cluster.ask(numbered(0, 2), 9)  # a duplicate gets the same answer again
    cluster.ask(numbered(2), 9)
    cluster.ask(numbered(5), 9)  # a gap
    cluster.ask(numbered(3, 2), 9)
    cluster.ask(numbered(4), 9)  # overlaps the previous batch
    for first in range(5, 11):
        cluster.ask(numbered(first), 9)
    cluster.ask(numbered(6), 9)  # among the last five
    cluster.ask(numbered(5), 9)  # no longer among the last five
    cluster.ask(numbered(11, of_epoch=epoch + 1), 9)  # a new epoch begins at 0
    cluster.ask(numbered(0, of_epoch=epoch + 1), 9)
    cluster.ask(numbered(11), 9)  # the old epoch is fenced
    cluster.ask(list_offsets(cluster.name), 7)


def an_unknown_producer_may_start_at_any_sequence(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    pid, epoch = producer_id(cluster)
    for first in (7, 8, 5):
        records = Batch(producer_id=pid, producer_epoch=epoch, base_sequence=first).encode()
        cluster.ask(produce(cluster.name, records), 9)


def producer_ids_are_issued(cluster: ScenarioCluster) -> None:
    for version in range(6):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        cluster.call_until(request, version, lambda found: found.error_code == 0)
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=60_000)
    cluster.ask(request, 4)
    for version in (3, 4):
        resumed = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=60_000, producer_id=5, producer_epoch=3
        )
        cluster.ask(resumed, version)
    half = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=5, producer_epoch=-1
    )
    cluster.ask(half, 4)


SCENARIOS = (
    records_are_produced_in_every_version,
    records_without_acknowledgement_are_stored,
    failed_records_without_acknowledgement_close_the_connection,
    producing_to_unknown_partitions_is_refused,
    required_acknowledgements_are_checked,
    corrupt_batches_are_refused,
    empty_records_are_refused,
    inconsistent_batches_are_refused,
    large_batches_are_refused,
    large_records_of_compressed_batches_are_refused,
    the_broker_sets_log_append_time_if_configured,
    timestamps_outside_the_limits_are_refused,
    compacted_topics_require_keys,
    several_partitions_have_individual_results,
    sequences_are_checked,
    an_unknown_producer_may_start_at_any_sequence,
    producer_ids_are_issued,
)
