"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from tests.conformance.batches import BASE_TIMESTAMP, Batch
from tests.conformance.setup import EARLIEST, LATEST, create_topic, fill, list_offsets, produce

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING = -3, -4, -5, -6
_SPECIAL = (LATEST, EARLIEST, _MAX_TIMESTAMP, _EARLIEST_LOCAL, _LATEST_TIERED, _EARLIEST_PENDING)


def _timed(cluster: ScenarioCluster) -> None:
    """Fill a topic with batches whose timestamps rise, fall and rise again."""
    for start in (0, 1000, 500, 2000):
        records = Batch(
            values=(b"a", b"b", b"c"), timestamp=BASE_TIMESTAMP + start, timestamp_step=10
        ).encode()
        cluster.probe(produce(cluster.name, records), 9)


def offsets_are_listed_in_every_version(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    _timed(cluster)
    for version in range(1, 12):
        for timestamp in (LATEST, EARLIEST, BASE_TIMESTAMP + 1005):
            cluster.ask(list_offsets(cluster.name, 0, 1, timestamp=timestamp), version)


def special_timestamps_need_their_version(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    _timed(cluster)
    for version in (1, 6, 7, 8, 9, 10, 11):
        for timestamp in (*_SPECIAL, -7):
            cluster.ask(list_offsets(cluster.name, timestamp=timestamp), version)


def offsets_are_found_by_time(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    _timed(cluster)
    for after in (-5, 0, 5, 20, 21, 500, 999, 1000, 1020, 1021, 2010, 2020, 2021):
        cluster.ask(list_offsets(cluster.name, timestamp=BASE_TIMESTAMP + after), 7)
    cluster.ask(list_offsets(cluster.name, timestamp=0), 7)


def an_empty_log_has_offsets(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for timestamp in (*_SPECIAL, BASE_TIMESTAMP):
        cluster.ask(list_offsets(cluster.name, timestamp=timestamp), 11)


def a_truncated_log_starts_later(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    _timed(cluster)
    row = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=4)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=cluster.name, partitions=[row])
    cluster.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), 2)
    for timestamp in (*_SPECIAL, BASE_TIMESTAMP, BASE_TIMESTAMP + 1005):
        cluster.ask(list_offsets(cluster.name, timestamp=timestamp), 11)


def offsets_of_unknown_partitions_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in (1, 7, 10):
        cluster.ask(list_offsets(f"{cluster.name}-missing"), version)
        cluster.ask(list_offsets(cluster.name, 0, 7), version)
        cluster.ask(list_offsets(cluster.name, 0, 0), version)
        cluster.ask(list_offsets("in valid"), version)


def epochs_are_checked_when_listing(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for epoch in (-1, 0, 1, 9):
        for version in (4, 10):
            cluster.ask(list_offsets(cluster.name, leader_epoch=epoch), version)


def isolation_and_replicas_when_listing(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    for level in (0, 1):
        request = list_offsets(cluster.name)
        request.isolation_level = level
        cluster.ask(request, 7)
    for replica in (-2, 1, 9):
        request = list_offsets(cluster.name)
        request.replica_id = replica
        cluster.ask(request, 7)


def _epoch_end(
    name: str, *partitions: int, leader_epoch: int = 0, current: int = -1
) -> OffsetForLeaderEpochRequest:
    row = OffsetForLeaderEpochRequest.OffsetForLeaderPartition
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
        topic=name,
        partitions=[
            row(partition=index, current_leader_epoch=current, leader_epoch=leader_epoch)
            for index in partitions or (0,)
        ],
    )
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])


def epochs_end_at_the_end_of_the_log(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    fill(cluster, cluster.name, b"a", b"b")
    for version in (2, 3, 4):
        for epoch in (0, 1, 9, -1):
            cluster.ask(_epoch_end(cluster.name, 0, 1, leader_epoch=epoch), version)
        for current in (0, 1, 9):
            cluster.ask(_epoch_end(cluster.name, current=current), version)
        cluster.ask(_epoch_end(f"{cluster.name}-missing"), version)
        cluster.ask(_epoch_end(cluster.name, 7), version)


def an_empty_request_has_an_empty_response(cluster: ScenarioCluster) -> None:
    for version in (1, 7, 11):
        cluster.ask(ListOffsetsRequest(replica_id=-1, topics=[]), version)
    cluster.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[]), 4)


SCENARIOS = (
    offsets_are_listed_in_every_version,
    special_timestamps_need_their_version,
    offsets_are_found_by_time,
    an_empty_log_has_offsets,
    a_truncated_log_starts_later,
    offsets_of_unknown_partitions_are_refused,
    epochs_are_checked_when_listing,
    isolation_and_replicas_when_listing,
    epochs_end_at_the_end_of_the_log,
    an_empty_request_has_an_empty_response,
)
