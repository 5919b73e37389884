"""Transactional batches: producers, epochs and sequences, in and outside transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.produce import ProduceRequest
from tests.conformance.batches import CONTROL, TRANSACTIONAL, Batch
from tests.conformance.setup import create_topic, fill, produce
from tests.conformance.transactional_producer import (
    ABORT,
    COMMIT,
    NEW,
    OLD,
    Producer,
    Protocol,
    Transactor,
    describe,
    describe_producers,
    in_both_protocols,
    read,
    start_producer,
    wait_for_transaction_coordinator,
    write,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_PRODUCE_VERSIONS = (3, 7, 8, 9, 10, 11, 12)
_BY_ID = 13
_PLAIN = 0


def batches_outside_of_a_transaction_are_refused(cluster: ScenarioCluster) -> None:
    """Such a batch begins a transaction if the client uses the new protocol."""
    topic_id = create_topic(cluster, cluster.name, partitions=2)
    for version in _PRODUCE_VERSIONS:
        producer = start_producer(
            cluster, OLD._replace(produce=version), f"{cluster.name}-{version}"
        )
        producer.write()
        cluster.ask(describe(producer.transactional_id), 0)
        producer.add(1)
        producer.write()
        producer.write(partition=1)
        producer.write(partition=1, sequence=1)
        producer.commit()
        producer.write(partition=1, sequence=2)
    producer = start_producer(cluster, NEW._replace(produce=_BY_ID), f"{cluster.name}-by-id")
    producer.write(topic_id=topic_id)
    cluster.ask(describe(producer.transactional_id), 0)
    producer.write(topic_id=bytes(range(16)), sequence=1)
    producer.commit()
    cluster.ask(read(cluster.name, isolation=0), 11)


def epochs_of_batches_are_checked(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    producer.init()
    for stage in ("empty", "ongoing", "complete"):
        if stage == "ongoing":
            producer.begin()
        for step in (-1, 1, 2, -2):
            for version in _PRODUCE_VERSIONS:
                speaker = producer.with_versions(produce=version)
                for sequence in (0, 1):
                    speaker.write(producer=producer.at(step), sequence=sequence)
        cluster.ask(describe(cluster.name), 0)
        if stage == "ongoing":
            producer.commit()


def producers_of_batches_are_checked(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Claim another producer's id, an unknown id, and matching transactional ids."""
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    other = start_producer(cluster, protocol, f"{cluster.name}-other")
    unknown_producer = Producer(producer.producer.producer_id + 9_000_000, 0)
    for stage in ("empty", "ongoing"):
        if stage == "ongoing":
            producer.begin()
        for version in (3, 10, 11, 12):
            for name in (
                cluster.name,
                f"{cluster.name}-other",
                f"{cluster.name}-unknown",
                "",
                None,
            ):
                for claimed in (unknown_producer, other.producer):
                    cluster.ask(write(name, claimed, cluster.name), version)
        for name in (cluster.name, f"{cluster.name}-other"):
            cluster.ask(describe(name), 0)


def transactional_batches_need_a_transactional_id(
    cluster: ScenarioCluster, protocol: Protocol
) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    for version in _PRODUCE_VERSIONS:
        for name in (None, "", f"{cluster.name}-unknown"):
            cluster.ask(write(name, producer.producer, cluster.name), version)
    producer.begin()
    for version in _PRODUCE_VERSIONS:
        for sequence, name in enumerate((None, "", f"{cluster.name}-unknown"), 1):
            cluster.ask(write(name, producer.producer, cluster.name, sequence=sequence), version)
    producer.commit()


def plain_batches_of_a_transactional_producer(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Write without a transaction, with the producer id of a transactional producer."""
    create_topic(cluster, cluster.name, partitions=2)
    producer = start_producer(cluster, protocol)
    for name in (cluster.name, None):
        request = write(name, producer.producer, cluster.name, partition=1, attributes=_PLAIN)
        request.transactional_id = name
        cluster.ask(request, protocol.produce)
    producer.begin()
    for sequence in (0, 1):
        for version in (9, 11, 12):
            producer.with_versions(produce=version).write(sequence=sequence, attributes=_PLAIN)
    producer.commit()
    producer.write(attributes=_PLAIN)
    producer.write(attributes=_PLAIN, sequence=1)
    cluster.ask(describe_producers(cluster.name, 0, 1), 0)
    producer.begin()
    producer.abort()
    cluster.ask(read(cluster.name, isolation=0), 11)


def batches_without_a_producer_in_a_transaction(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, OLD)
    producer.begin()
    for version in (9, 11, 12):
        for claimed in (Producer(-1, -1), Producer(-1, 0), Producer(producer.producer[0], -1)):
            producer.with_versions(produce=version).write(producer=claimed)
            producer.with_versions(produce=version).write(producer=claimed, attributes=_PLAIN)
        producer.with_versions(produce=version).write(
            attributes=CONTROL | TRANSACTIONAL, sequence=1
        )
    fill(cluster, cluster.name, b"of someone else")
    producer.commit()
    cluster.ask(read(cluster.name), 11)


def sequences_of_a_transaction_are_checked(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    if not producer.is_new:
        producer.add()
    for sequence in (1, 5, 0, 0, 1, 3, 2, 1, 9, -1):
        producer.write(sequence=sequence)
    producer.write(b"a", b"b", b"c", sequence=3)
    producer.write(b"a", b"b", b"c", sequence=3)
    producer.write(b"a", b"b", sequence=3)
    cluster.ask(describe_producers(cluster.name), 0)
    producer.commit()
    if not producer.is_new:
        producer.add()
    for sequence in (0, 5, 6, 7, 0, 1):
        producer.write(sequence=sequence)
    producer.abort()
    producer.init()
    if not producer.is_new:
        producer.add()
    for sequence in (3, 0, 1):
        producer.write(sequence=sequence)
    producer.commit()
    cluster.ask(describe_producers(cluster.name), 0)


def a_batch_is_repeated_after_its_transaction(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Resend an acknowledged batch after its transaction has ended."""
    create_topic(cluster, cluster.name)
    for is_commit in (COMMIT, ABORT):
        producer = start_producer(cluster, protocol, f"{cluster.name}-{is_commit:d}")
        producer.begin()
        sent = producer.producer
        producer.write(sequence=0)
        producer.end(is_commit=is_commit)
        producer.write(producer=sent)
        producer.write(producer=sent, sequence=1)
        for version in (9, 11, 12):
            producer.with_versions(produce=version).write(producer=sent)
        cluster.ask(describe(producer.transactional_id), 0)


def batches_to_unknown_partitions_are_refused(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    missing = f"{cluster.name}-missing"
    for version in _PRODUCE_VERSIONS:
        producer = start_producer(
            cluster, OLD._replace(produce=version), f"{cluster.name}-{version}"
        )
        for topic, partition in ((missing, 0), (cluster.name, 7), (cluster.name, -1)):
            producer.write(topic=topic, partition=partition)
        cluster.ask(describe(producer.transactional_id), 0)
    producer = start_producer(cluster, NEW._replace(produce=_BY_ID), f"{cluster.name}-by-id")
    producer.write(topic_id=bytes(range(16)))
    producer.write(topic_id=topic_id, partition=7)
    cluster.ask(describe(producer.transactional_id), 0)


def acknowledgements_of_transactions(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    if not producer.is_new:
        producer.add()
    for sequence, acks in enumerate((1, -1, 2)):
        request = write(cluster.name, producer.producer, cluster.name, sequence=sequence)
        request.acks = acks
        cluster.ask(request, protocol.produce)
    request = write(cluster.name, producer.producer, cluster.name, sequence=2)
    request.acks = 0
    cluster.send(request, protocol.produce)
    cluster.connection("main").forget_last()
    producer.write(sequence=3)
    producer.commit()
    cluster.ask(read(cluster.name), 11)


def _several(cluster: ScenarioCluster, *requests: ProduceRequest) -> ProduceRequest:
    """Merge the partitions of several requests into one request."""
    rows = [request.topic_data[0].partition_data[0] for request in requests]
    topic = ProduceRequest.TopicProduceData(name=cluster.name, partition_data=rows)
    return ProduceRequest(
        transactional_id=requests[0].transactional_id,
        acks=-1,
        timeout_ms=5000,
        topic_data=[topic],
    )


def many_partitions_are_written_at_once(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name, partitions=4)
    producer = start_producer(cluster, protocol)
    other = start_producer(cluster, protocol, f"{cluster.name}-other")
    if not producer.is_new:
        producer.add(0, 1)

    def one(partition: int, claimed: Producer, **fields: int) -> ProduceRequest:
        return write(cluster.name, claimed, cluster.name, partition=partition, **fields)  # type: ignore[arg-type]

    mine = producer.producer
    for rows in (
        (one(0, mine), one(1, mine), one(9, mine)),
        (one(0, mine, sequence=1), one(2, mine)),
        (one(0, mine, sequence=2), one(1, mine, sequence=5), one(3, mine)),
        (one(0, mine, sequence=3), one(1, other.producer)),
        (one(1, other.producer), one(0, mine, sequence=3)),
        (one(2, mine, attributes=_PLAIN), one(0, mine, sequence=3)),
        (one(2, producer.newer), one(3, producer.older)),
    ):
        cluster.ask(_several(cluster, *rows), protocol.produce)
    plain = produce(cluster.name, Batch().encode(), partition=3)
    plain.transactional_id = cluster.name
    cluster.ask(_several(cluster, plain, one(2, mine, sequence=1)), protocol.produce)
    cluster.ask(describe(cluster.name), 0)
    producer.commit()
    for partition in range(4):
        cluster.ask(read(cluster.name, partition=partition, isolation=0), 11)


def a_too_large_batch_leaves_its_partition_in_the_transaction(
    cluster: ScenarioCluster, protocol: Protocol
) -> None:
    """Add a partition to a transaction although the log refuses the batch for it."""
    create_topic(cluster, cluster.name, configs={"max.message.bytes": "200"})
    producer = start_producer(cluster, protocol)
    if not producer.is_new:
        producer.add()
    producer.write(b"x" * 500)
    cluster.ask(describe(cluster.name), 0)
    producer.write(b"x")
    producer.abort()
    cluster.ask(read(cluster.name, isolation=0), 11)


def two_producers_race_for_one_id(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Write, add and end alternately: the last producer wins, the other is a zombie."""
    create_topic(cluster, cluster.name, partitions=2)
    wait_for_transaction_coordinator(cluster, cluster.name)
    first, second = (Transactor(cluster, cluster.name, protocol) for _ in range(2))
    first.init()
    first.begin()
    second.fence()
    first.write(sequence=1)
    second.begin(1)
    first.write(partition=1)
    first.add()
    first.commit()
    first.abort()
    second.write(partition=1, sequence=1)
    second.commit()
    first.init(first.producer)
    first.fence()
    second.begin()
    second.commit()
    first.begin()
    first.commit()
    for partition in (0, 1):
        cluster.ask(read(cluster.name, partition=partition), 11)
    cluster.ask(describe_producers(cluster.name, 0, 1), 0)


SCENARIOS = (
    batches_outside_of_a_transaction_are_refused,
    *in_both_protocols(epochs_of_batches_are_checked),
    *in_both_protocols(producers_of_batches_are_checked),
    *in_both_protocols(transactional_batches_need_a_transactional_id),
    *in_both_protocols(plain_batches_of_a_transactional_producer),
    batches_without_a_producer_in_a_transaction,
    *in_both_protocols(sequences_of_a_transaction_are_checked),
    *in_both_protocols(a_batch_is_repeated_after_its_transaction),
    batches_to_unknown_partitions_are_refused,
    *in_both_protocols(acknowledgements_of_transactions),
    *in_both_protocols(many_partitions_are_written_at_once),
    *in_both_protocols(a_too_large_batch_leaves_its_partition_in_the_transaction),
    *in_both_protocols(two_producers_race_for_one_id),
)
