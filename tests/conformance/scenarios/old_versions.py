"""Versions that Kafka 4.0 removed, as Kafka 3.9 answers them, with messages of formats 0 and 1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_acls import DescribeAclsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.conformance.batches import BASE_TIMESTAMP, Batch
from tests.conformance.message_sets import Message, described
from tests.conformance.setup import (
    create_topic,
    fill,
    produce,
    wait_for_group_coordinator,
)
from tests.conformance.transactional_producer import OLD, start_producer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.scenario_cluster import ScenarioCluster

_PRODUCE_VERSIONS = (0, 1, 2)
_FETCH_VERSIONS = (0, 1, 2, 3)
_MAX_BYTES = 100_000
_ZSTD = 4
_TOPIC, _LITERAL, _ANY = 2, 3, 1

_IN_FORMAT_1 = Message(magic=1)
_INNER = (
    Message(magic=1, value=b"x", timestamp=BASE_TIMESTAMP + 1),
    Message(magic=1, value=b"y", timestamp=BASE_TIMESTAMP + 5, offset=1),
)
_WRAPPER = Message(magic=1, offset=1, timestamp=BASE_TIMESTAMP + 5)

_VALID: Mapping[str, bytes] = {
    "one of format 0": Message().encode(),
    "several of format 0": Message().encode() + Message(key=None, offset=1).encode(),
    "several of format 1": _IN_FORMAT_1.encode() + Message(magic=1, value=None, offset=1).encode(),
    "compressed, of format 0": Message(offset=1).wrapping(
        Message(value=b"x"), Message(value=b"y", offset=1)
    ),
    "compressed, of format 1": _WRAPPER.wrapping(*_INNER),
    "with the append time": Message(magic=1, attributes=8).encode(),
    "without messages": b"",
    "with an incomplete last message": Message().encode() + Message().encode()[:-1],
    "compressed by librdkafka": Message(magic=1, timestamp=BASE_TIMESTAMP).wrapping(
        Message(magic=1, offset=5), Message(magic=1, offset=9)
    ),
    "a batch": Batch(values=(b"v",), timestamp=BASE_TIMESTAMP).encode(),
}
_INVALID: Mapping[str, bytes] = {
    "wrong CRC": Message(crc_error=1).encode(),
    "two formats": Message().encode() + _IN_FORMAT_1.encode(),
    "compressed and not": _WRAPPER.wrapping(*_INNER) + _IN_FORMAT_1.encode(),
    "zstd": Message(attributes=_ZSTD).encode(),
    "unknown compression": Message(attributes=5).encode(),
    "format 3": Message(magic=3).encode(),
    "negative timestamp": Message(magic=1, timestamp=-5).encode(),
    "no inner message": _WRAPPER.wrapping(),
    "compressed without a value": Message(attributes=1, value=None).encode(),
    "not compressed": Message(attributes=1, value=b"zzzz").encode(),
    "wrong inner CRC": _WRAPPER.wrapping(Message(magic=1, crc_error=1)),
    "inner message of format 0": _WRAPPER.wrapping(Message()),
    "compressed inner message": _WRAPPER.wrapping(Message(magic=1, attributes=1)),
    "offset after the wrapper's": _WRAPPER.wrapping(Message(magic=1, offset=3)),
    "two batches": Batch().encode() + Batch().encode(),
}


def _fetch(
    cluster: ScenarioCluster,
    version: int,
    topic: str,
    offset: int = 0,
    *,
    max_bytes: int = _MAX_BYTES,
    limit: int = 2**31 - 1,
) -> None:
    """Record the messages of a partition, without the filling at the end."""
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=limit,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )
    response = cluster.probe(request, version)
    (row,) = response.responses[0].partitions
    records = bytes(row.records or b"")
    messages = described(records) if version in _FETCH_VERSIONS else [bool(records)]
    answer: Any = [row.error_code, row.high_watermark, *messages]
    cluster.record(f"Fetch v{version} from {offset}", answer)


def messages_are_produced(cluster: ScenarioCluster) -> None:
    """Produce message sets in each version, and fetch them as batches."""
    for version in _PRODUCE_VERSIONS:
        topic = f"{cluster.name}-{version}"
        create_topic(cluster, topic)
        for title, records in {**_VALID, **_INVALID}.items():
            cluster.record(title, version)
            cluster.ask(produce(topic, records), version)
        partition = FetchRequest.FetchPartition(
            partition=0, fetch_offset=0, partition_max_bytes=_MAX_BYTES
        )
        rows = [FetchRequest.FetchTopic(topic=topic, partitions=[partition])]
        cluster.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=rows), 4)
    cluster.ask(produce(f"{cluster.name}-unknown", _INVALID["wrong CRC"]), 0)


def messages_obey_the_settings_of_topics(cluster: ScenarioCluster) -> None:
    """Produce to topics whose settings refuse or change messages, and fetch them."""
    for key, value in (
        ("message.timestamp.type", "LogAppendTime"),
        ("cleanup.policy", "compact"),
        ("compression.type", "gzip"),
        ("compression.type", "zstd"),
        ("max.message.bytes", "100"),
        ("message.timestamp.after.max.ms", "1"),
    ):
        topic = f"{cluster.name}-{key}-{value}"
        create_topic(cluster, topic, configs={key: value})
        future = Message(magic=1, timestamp=4_000_000_000_000).encode()
        for records in (
            *_VALID.values(),
            Message(key=None).encode(),
            Message(value=b"v" * 90).encode(),
            future,
        ):
            cluster.ask(produce(topic, records), 2)
        for version in (*_FETCH_VERSIONS, 4, 9):
            if value == "zstd":
                _fetch(cluster, version, topic)


def messages_are_fetched(cluster: ScenarioCluster) -> None:
    """Fetch batches of each kind as messages, from each offset."""
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a", b"b", b"c")
    for records in (_VALID["compressed, of format 1"], _VALID["several of format 0"]):
        cluster.probe(produce(cluster.name, records), 2)
    fill(cluster, cluster.name, b"x" * 500)
    for version in _FETCH_VERSIONS:
        for offset in range(10):
            _fetch(cluster, version, cluster.name, offset)
        for max_bytes, limit in ((10, 2**31 - 1), (_MAX_BYTES, 10), (0, 0)):
            _fetch(cluster, version, cluster.name, max_bytes=max_bytes, limit=limit)


def transactions_are_fetched_as_messages(cluster: ScenarioCluster) -> None:
    """Fetch committed, aborted and open transactions as messages; markers have none."""
    create_topic(cluster, cluster.name)
    producer = start_producer(cluster, OLD)
    for is_commit in (True, False):
        producer.begin()
        producer.end(is_commit=is_commit)
    producer.begin()
    for version in _FETCH_VERSIONS:
        for offset in range(6):
            _fetch(cluster, version, cluster.name, offset)
    producer.abort()


def messages_may_be_refused(cluster: ScenarioCluster) -> None:
    """Fetch from topics without down-conversion, with and without records."""
    create_topic(cluster, cluster.name, configs={"message.downconversion.enable": "false"})
    for version in (*_FETCH_VERSIONS, 4):
        _fetch(cluster, version, cluster.name)
    fill(cluster, cluster.name, b"a")
    for version in (*_FETCH_VERSIONS, 4):
        for offset in (0, 5):
            _fetch(cluster, version, cluster.name, offset)


def offsets_of_segments_are_listed(cluster: ScenarioCluster) -> None:
    """List offsets in version 0, with limits, before and after the segment was written."""
    create_topic(cluster, cluster.name)
    far = 4_000_000_000_000
    for count in range(2):
        for timestamp in (-1, -2, 0, BASE_TIMESTAMP, far):
            for maximum in (0, 1, 2, 9):
                row = ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=0, timestamp=timestamp, max_num_offsets=maximum
                )
                topic = ListOffsetsRequest.ListOffsetsTopic(name=cluster.name, partitions=[row])
                cluster.ask(ListOffsetsRequest(topics=[topic]), 0)
        if not count:
            fill(cluster, cluster.name, b"a", b"b")


def old_versions_of_other_apis_are_answered(cluster: ScenarioCluster) -> None:
    """Send the first versions of APIs whose first versions Kafka 4.0 removed."""
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    row = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata="m"
    )
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=cluster.name, partitions=[row])]
    cluster.ask(OffsetCommitRequest(group_id=cluster.name, topics=topics), 0)
    for version in (0, 1):
        new_topics = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            for name in (f"{cluster.name}-{version}", "no name")
        ]
        cluster.ask(CreateTopicsRequest(topics=new_topics), version)
    cluster.ask(DeleteTopicsRequest(topic_names=[f"{cluster.name}-0", "unknown"]), 0)
    for version in (0, 1):
        rows = [
            OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=index, leader_epoch=0)
            for index in (0, 7)
        ]
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
            topic=cluster.name, partitions=rows
        )
        cluster.ask(OffsetForLeaderEpochRequest(topics=[topic]), version)
    marker = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=cluster.name, partition_indexes=[0])
    cluster.ask(
        WriteTxnMarkersRequest(
            markers=[
                WriteTxnMarkersRequest.WritableTxnMarker(
                    producer_id=1, producer_epoch=0, transaction_result=True, topics=[marker]
                )
            ]
        ),
        0,
    )
    cluster.ask(
        DescribeAclsRequest(
            resource_type_filter=_TOPIC,
            pattern_type_filter=_LITERAL,
            operation=_ANY,
            permission_type=_ANY,
        ),
        0,
    )
    described_topic = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=_TOPIC,
        resource_name=cluster.name,
        configuration_keys=["cleanup.policy", "retention.ms"],
    )
    cluster.ask(DescribeConfigsRequest(resources=[described_topic]), 0)
    replica = DescribeLogDirsRequest.DescribableLogDirTopic(topic=cluster.name, partitions=[0])
    cluster.ask(DescribeLogDirsRequest(topics=[replica]), 0)


def offsets_are_not_fetched_from_zookeeper(cluster: ScenarioCluster) -> None:
    """Fetch a committed offset, missing ones and those of unknown groups, in versions 0 to 2.

    The first round has no coordinator.
    """
    create_topic(cluster, cluster.name)
    row = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata="m"
    )
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=cluster.name, partitions=[row])]
    rows = [
        OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1])
        for name in (cluster.name, "unknown")
    ]
    for has_coordinator in (False, True):
        if has_coordinator:
            wait_for_group_coordinator(cluster, cluster.name)
        cluster.ask(OffsetCommitRequest(group_id=cluster.name, topics=topics), 2)
        for version in (0, 1, 2):
            for group in (cluster.name, f"{cluster.name}-unknown", ""):
                cluster.ask(OffsetFetchRequest(group_id=group, topics=rows), version)


SCENARIOS = (
    messages_are_produced,
    messages_obey_the_settings_of_topics,
    messages_are_fetched,
    transactions_are_fetched_as_messages,
    messages_may_be_refused,
    offsets_of_segments_are_listed,
    old_versions_of_other_apis_are_answered,
    offsets_are_not_fetched_from_zookeeper,
)
