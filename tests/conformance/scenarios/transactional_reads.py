"""Reading transactions: stable offsets, aborted transactions, markers, producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.runtime import partition_of
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.describe_producers import DescribeProducersRequest
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import BASE_TIMESTAMP
from tests.conformance.scenarios.commits import fetch
from tests.conformance.scenarios.fetching import fetch_from, partition_at
from tests.conformance.setup import (
    EARLIEST,
    LATEST,
    create_topic,
    fill,
    list_offsets,
    wait_for_group_coordinator,
)
from tests.conformance.transactional_producer import (
    ABORT,
    COMMIT,
    NEW,
    OLD,
    READ_COMMITTED,
    Producer,
    Protocol,
    describe,
    describe_producers,
    in_both_protocols,
    latest,
    markers,
    read,
    start_producer,
)
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_FETCH_VERSIONS = range(4, 19)
_BY_ID = 13
_ISOLATIONS = (0, READ_COMMITTED)
_MAX_TIMESTAMP = -3
_MARKER_VERSIONS = (1, 2)


def readers_stop_at_the_last_stable_offset(cluster: ScenarioCluster) -> None:
    """Fetch in every version: before, within and after an aborted and an open transaction."""
    topic_id = create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"before")
    producer = start_producer(cluster, NEW)
    producer.begin()
    producer.abort()
    fill(cluster, cluster.name, b"between")
    producer.begin()
    fill(cluster, cluster.name, b"behind")
    for version in _FETCH_VERSIONS:
        topic: str | bytes = topic_id if version >= _BY_ID else cluster.name
        for isolation in _ISOLATIONS:
            for offset in (0, 2, 4, 5, 6, 7):
                request = fetch_from(topic, partition_at(offset=offset))
                request.isolation_level = isolation
                cluster.ask(request, version)
    producer.commit()
    cluster.ask(read(cluster.name), 11)


def offsets_of_readers_are_listed(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)

    def ask() -> None:
        for version in (2, 4, 7, 11):
            for timestamp in (LATEST, EARLIEST, BASE_TIMESTAMP, BASE_TIMESTAMP + 1):
                for isolation in _ISOLATIONS:
                    request = list_offsets(cluster.name, 0, timestamp=timestamp)
                    request.isolation_level = isolation
                    cluster.ask(request, version)

    ask()
    producer.begin()
    ask()
    producer.commit()
    fill(cluster, cluster.name, b"a", b"b")
    ask()
    producer.begin()
    ask()
    producer.abort()
    ask()


def the_newest_record_of_readers_is_listed(cluster: ScenarioCluster) -> None:
    """Request the largest timestamp, also while only an open transaction has it."""
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    producer = start_producer(cluster, NEW)
    for is_commit in (COMMIT, ABORT):
        producer.begin()
        producer.write(b"a", b"b", b"c", sequence=1)
        for isolation in _ISOLATIONS:
            request = list_offsets(cluster.name, 0, timestamp=_MAX_TIMESTAMP)
            request.isolation_level = isolation
            cluster.ask(request, 7)
        producer.end(is_commit=is_commit)


def transactions_interleave(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Let three producers begin and end in turns; list aborted transactions from every offset."""
    create_topic(cluster, cluster.name)
    first, second, third = (
        start_producer(cluster, protocol, f"{cluster.name}-{letter}") for letter in "abc"
    )
    first.begin()
    second.begin()
    cluster.ask(latest(cluster.name), 7)
    first.abort()
    cluster.ask(latest(cluster.name), 7)
    third.begin()
    second.commit()
    first.begin()
    third.abort()
    cluster.ask(latest(cluster.name), 7)
    cluster.ask(read(cluster.name), 11)
    first.abort()
    for offset in range(12):
        cluster.ask(read(cluster.name, offset), 11)
    for partition_max_bytes in (1, 150, 300):
        for offset in (0, 3, 5):
            row = partition_at(0, offset, partition_max_bytes=partition_max_bytes)
            request = fetch_from(cluster.name, row)
            request.isolation_level = READ_COMMITTED
            cluster.ask(request, 11)


def markers_are_control_batches(cluster: ScenarioCluster, protocol: Protocol) -> None:
    """Compare markers byte by byte, except ids and timestamps."""
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    for is_commit in (COMMIT, ABORT):
        producer.begin()
        producer.end(is_commit=is_commit)
    producer.begin()
    producer.fence()
    producer.begin()
    for version in _MARKER_VERSIONS:
        cluster.ask(markers(producer.newer, {cluster.name: [0]}, is_commit=COMMIT), version)
    for isolation in _ISOLATIONS:
        cluster.ask(read(cluster.name, isolation=isolation), 11)


def a_session_reads_what_is_committed(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name, partitions=2)
    producer = start_producer(cluster, NEW)
    producer.begin(0, 1)
    for version, topic in ((11, cluster.name), (17, topic_id)):
        opened = fetch_from(topic, partition_at(), partition_at(1), session_epoch=0)
        opened.isolation_level = READ_COMMITTED
        answer = cluster.ask(opened, version)
        for epoch in (1, 2):
            again = fetch_from(topic, session_id=answer.session_id, session_epoch=epoch)
            again.isolation_level = READ_COMMITTED
            cluster.ask(again, version)
        producer.commit()
        again = fetch_from(topic, session_id=answer.session_id, session_epoch=3)
        again.isolation_level = READ_COMMITTED
        cluster.ask(again, version)
        producer.begin(0, 1)


def a_waiting_reader_is_woken_by_the_end(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, protocol)
    for is_commit in (COMMIT, ABORT):
        offset = cluster.probe(latest(cluster.name), 7).topics[0].partitions[0].offset
        producer.begin()
        request = fetch_from(
            cluster.name, partition_at(offset=offset), max_wait_ms=10_000, min_bytes=1
        )
        request.isolation_level = READ_COMMITTED
        cluster.send(request, 11, on="reader")
        producer.write(sequence=1)
        producer.end(is_commit=is_commit)
        cluster.receive("reader", title="the fetch that waited")


def producers_are_described(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    cluster.ask(describe_producers(cluster.name, 0, 1), 0)
    producer = start_producer(cluster, protocol)
    if not producer.is_new:
        producer.add(0, 1)
        cluster.ask(describe_producers(cluster.name, 0, 1), 0)
    producer.write(b"a", b"b")
    cluster.ask(describe_producers(cluster.name, 0, 1), 0)
    producer.write(sequence=2)
    cluster.ask(describe_producers(cluster.name, 0, 1), 0)
    producer.commit()
    cluster.ask(describe_producers(cluster.name, 0, 1), 0)
    other = start_producer(cluster, protocol, f"{cluster.name}-other")
    other.begin(0, 1)
    producer.begin(1)
    cluster.ask(describe_producers(cluster.name, 0, 1), 0)
    other.abort()
    producer.fence()
    cluster.ask(describe_producers(cluster.name, 0, 1), 0)
    producer.begin(1)
    cluster.ask(describe_producers(cluster.name, 1, 0), 0)


def producers_of_unknown_partitions_are_not_described(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for topic in (cluster.name, f"{cluster.name}-missing", "in valid", "", "x" * 250):
        cluster.ask(describe_producers(topic, 0, 1, -1), 0)
    row = DescribeProducersRequest.TopicRequest
    rows = [row(name=cluster.name, partition_indexes=[])]
    cluster.ask(DescribeProducersRequest(topics=rows), 0)
    cluster.ask(DescribeProducersRequest(topics=[]), 0)
    twice = row(name=cluster.name, partition_indexes=[0, 0])
    cluster.ask(DescribeProducersRequest(topics=[twice, twice]), 0)


def a_hanging_transaction_is_aborted_by_a_marker(
    cluster: ScenarioCluster, protocol: Protocol
) -> None:
    """Write the marker as an administrator does; the coordinator is not informed."""
    create_topic(cluster, cluster.name)
    for version in _MARKER_VERSIONS:
        producer = start_producer(cluster, protocol, f"{cluster.name}-{version}")
        producer.begin()
        cluster.ask(describe_producers(cluster.name), 0)
        request = markers(producer.producer, {cluster.name: [0]}, coordinator_epoch=-1)
        cluster.ask(request, version)
        cluster.ask(latest(cluster.name), 7)
        cluster.ask(describe_producers(cluster.name), 0)
        cluster.ask(describe(producer.transactional_id), 0)
        producer.write(sequence=1)
        producer.commit()
    for isolation in _ISOLATIONS:
        cluster.ask(read(cluster.name, isolation=isolation), 11)


def epochs_of_markers_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for number, transaction_version in enumerate((0, 1, 2)):
        producer = start_producer(cluster, OLD, f"{cluster.name}-{number}")
        producer.init()
        for stage in ("empty", "open", "closed"):
            if stage == "open":
                producer.begin()
            # Begin with epochs whose markers do not end the transaction.
            for step in (-1, -2, 0, 0, 1, 1, 0, 5):
                request = markers(
                    producer.at(step), {cluster.name: [0]}, transaction_version=transaction_version
                )
                cluster.ask(request, 2)
                cluster.ask(latest(cluster.name), 7)
    cluster.ask(read(cluster.name, isolation=0), 11)


def the_maximum_epoch_ends_every_transaction(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for transaction_version in (0, 2):
        producer = start_producer(cluster, OLD, f"{cluster.name}-{transaction_version}")
        producer.begin()
        last = Producer(producer.producer.producer_id, 32_767)
        for _ in range(2):
            request = markers(last, {cluster.name: [0]}, transaction_version=transaction_version)
            cluster.ask(request, 2)
        cluster.ask(describe_producers(cluster.name), 0)
        producer.write(sequence=1)
        producer.write(producer=last)


def epochs_of_coordinators_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in _MARKER_VERSIONS:
        producer = start_producer(cluster, OLD, f"{cluster.name}-{version}")
        for coordinator_epoch in (5, 4, 5, 6, -1, 0, 7):
            producer.begin()
            for is_commit in (COMMIT, ABORT):
                request = markers(
                    producer.producer,
                    {cluster.name: [0]},
                    coordinator_epoch=coordinator_epoch,
                    is_commit=is_commit,
                )
                cluster.ask(request, version)
            cluster.ask(describe_producers(cluster.name), 0)


def markers_for_unknown_partitions(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    wait_for_group_coordinator(cluster, cluster.name)
    unknown = Producer(987_654_321, 3)
    missing = f"{cluster.name}-missing"
    for version in _MARKER_VERSIONS:
        several: tuple[dict[str, list[int]], ...] = (
            {cluster.name: [0]},
            {cluster.name: [0, 1, 2, -1]},
            {missing: [0]},
            {missing: [0], cluster.name: [1]},
            {"in valid": [0]},
            {cluster.name: []},
            {},
        )
        for partitions in several:
            for is_commit in (COMMIT, ABORT):
                cluster.ask(markers(unknown, partitions, is_commit=is_commit), version)
        cluster.ask(WriteTxnMarkersRequest(markers=[]), version)
        both = markers(unknown, {cluster.name: [0]})
        both.markers += markers(Producer(987_654_322, 0), {cluster.name: [1], missing: [1]}).markers
        cluster.ask(both, version)
    cluster.ask(describe_producers(cluster.name, 0, 1), 0)
    for partition in (0, 1):
        cluster.ask(read(cluster.name, partition=partition, isolation=0), 11)


def offsets_are_committed_by_a_marker_of_a_client(
    cluster: ScenarioCluster, protocol: Protocol
) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    stable = fetch(cluster.name, cluster.name, 0)
    stable.require_stable = True
    for is_commit in (COMMIT, ABORT):
        producer = start_producer(cluster, protocol, f"{cluster.name}-{is_commit:d}")
        if not producer.is_new:
            producer.add_offsets(cluster.name)
        producer.commit_offsets(cluster.name, 7 + is_commit)
        cluster.ask(stable, 8)
        partition = partition_of(cluster.name, int(COMMON_CONFIG["offsets.topic.num.partitions"]))
        for version in _MARKER_VERSIONS:
            request = markers(
                producer.producer, {"__consumer_offsets": [partition]}, is_commit=is_commit
            )
            answer = cluster.probe(request, version)
            codes = [row.error_code for row in answer.markers[0].topics[0].partitions]
            cluster.record(f"the markers in v{version}", [ErrorCode(code).name for code in codes])
            cluster.ask(stable, 8)
        producer.commit_offsets(cluster.name, 20)
        cluster.ask(stable, 8)
        producer.abort()
        cluster.ask(stable, 8)


def records_are_deleted_under_a_transaction(cluster: ScenarioCluster, protocol: Protocol) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a", b"b")
    producer = start_producer(cluster, protocol)
    producer.begin()
    producer.abort()
    producer.begin()
    fill(cluster, cluster.name, b"c")
    row = DeleteRecordsRequest.DeleteRecordsPartition
    for offset in (1, 3, 4, 5, -1):
        topics = [
            DeleteRecordsRequest.DeleteRecordsTopic(
                name=cluster.name, partitions=[row(partition_index=0, offset=offset)]
            )
        ]
        cluster.ask(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), 2)
        cluster.ask(latest(cluster.name), 7)
        cluster.ask(read(cluster.name, offset if offset > 0 else 6), 11)
        cluster.ask(describe_producers(cluster.name), 0)
    producer.write(sequence=1)
    producer.commit()
    cluster.ask(latest(cluster.name), 7)
    cluster.ask(read(cluster.name, 6), 11)


def ends_of_epochs_do_not_wait_for_transactions(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, NEW)
    producer.begin()
    row = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
        topic=cluster.name, partitions=[row(partition=0, current_leader_epoch=-1, leader_epoch=0)]
    )
    for version in (2, 3, 4):
        cluster.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]), version)
    producer.abort()
    cluster.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic]), 4)


SCENARIOS = (
    readers_stop_at_the_last_stable_offset,
    *in_both_protocols(offsets_of_readers_are_listed),
    the_newest_record_of_readers_is_listed,
    *in_both_protocols(transactions_interleave),
    *in_both_protocols(markers_are_control_batches),
    a_session_reads_what_is_committed,
    *in_both_protocols(a_waiting_reader_is_woken_by_the_end),
    *in_both_protocols(producers_are_described),
    producers_of_unknown_partitions_are_not_described,
    *in_both_protocols(a_hanging_transaction_is_aborted_by_a_marker),
    epochs_of_markers_are_checked,
    the_maximum_epoch_ends_every_transaction,
    epochs_of_coordinators_are_checked,
    markers_for_unknown_partitions,
    *in_both_protocols(offsets_are_committed_by_a_marker_of_a_client),
    *in_both_protocols(records_are_deleted_under_a_transaction),
    ends_of_epochs_do_not_wait_for_transactions,
)
