"""Requests that take several turns: the same answers, with other requests served in between."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.gateway.call import ConnectionContext
from kafkalite.ports.turns import ThreadCall
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.describe_producers import DescribeProducersRequest
from kafkalite.protocol._generated.messages.describe_transactions import DescribeTransactionsRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest as Alter,
)
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import build_batch
from kafkalite.storage.compression import CODEC_NUMBERS
from kafkalite.storage.record_format import NewRecord
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalite.protocol.message import Message

pytestmark = pytest.mark.endurance

COUNT = 700
NAMES = [f"unknown-{number:04}-{'n' * 60}" for number in range(COUNT)]
INDEXES = list(range(COUNT))
KNOWN, COMPACTED = "known", "compacted"
CODECS = ("gzip", "lz4", "zstd", "snappy")


def produce(partitions: dict[int, bytes], topic: str = KNOWN) -> ProduceRequest:
    data = [
        ProduceRequest.PartitionProduceData(index=index, records=records)
        for index, records in partitions.items()
    ]
    topic_data = [ProduceRequest.TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topic_data)


@cache
def batch(count: int, codec: str = "none") -> bytes:
    records = [NewRecord(key=b"%d" % n, value=bytes(50), timestamp=1) for n in range(count)]
    return build_batch(records, attributes=CODEC_NUMBERS.get(codec, 0))


def listed(topic: str) -> ListOffsetsRequest:
    partitions = [
        ListOffsetsRequest.ListOffsetsPartition(partition_index=n, timestamp=-1) for n in INDEXES
    ]
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=partitions)]
    return ListOffsetsRequest(replica_id=-1, topics=topics)


def fetched() -> FetchRequest:
    partitions = [
        FetchRequest.FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=100)
        for n in INDEXES
    ]
    topics = [FetchRequest.FetchTopic(topic=KNOWN, partitions=partitions)]
    return FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=9999, session_epoch=-1, topics=topics
    )


def committed() -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=n, committed_offset=n)
        for n in INDEXES
    ]
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name=KNOWN, partitions=partitions)]
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, topics=topics)


def txn_committed() -> TxnOffsetCommitRequest:
    partitions = [
        TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=n, committed_offset=n
        )
        for n in INDEXES
    ]
    topics = [TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=KNOWN, partitions=partitions)]
    return TxnOffsetCommitRequest(
        transactional_id="t", group_id="g", producer_id=1, producer_epoch=0, topics=topics
    )


def offsets_fetched() -> OffsetFetchRequest:
    topics = [OffsetFetchRequest.OffsetFetchRequestTopics(name=KNOWN, partition_indexes=INDEXES)]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=topics)]
    )


def added() -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=KNOWN, partitions=INDEXES)]
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=1,
        v3_and_below_topics=topics,
    )


def created() -> CreateTopicsRequest:
    topics = [
        CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in [*NAMES, KNOWN, NAMES[0]]
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True)


REQUESTS: dict[str, tuple[Callable[[], Message], int]] = {
    "Metadata": (
        lambda: MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in [*NAMES, KNOWN]],
            allow_auto_topic_creation=False,
        ),
        12,
    ),
    "DeleteTopics": (
        lambda: DeleteTopicsRequest(topic_names=[*NAMES, NAMES[7]], timeout_ms=1000),
        5,
    ),
    "CreatePartitions": (
        lambda: CreatePartitionsRequest(
            topics=[
                CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=3) for name in NAMES
            ],
            timeout_ms=1000,
        ),
        3,
    ),
    "DeleteRecords": (
        lambda: DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest.DeleteRecordsTopic(
                    name=name,
                    partitions=[
                        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)
                    ],
                )
                for name in NAMES
            ]
        ),
        2,
    ),
    "DescribeGroups": (lambda: DescribeGroupsRequest(groups=NAMES), 6),
    "DeleteGroups": (lambda: DeleteGroupsRequest(groups_names=NAMES), 2),
    "ConsumerGroupDescribe": (lambda: ConsumerGroupDescribeRequest(group_ids=NAMES), 1),
    "FindCoordinator": (lambda: FindCoordinatorRequest(coordinator_keys=NAMES), 4),
    "DescribeTransactions": (lambda: DescribeTransactionsRequest(transactional_ids=NAMES), 0),
    "DescribeConfigs": (
        lambda: DescribeConfigsRequest(
            resources=[
                DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name=name)
                for name in [KNOWN, *NAMES]
            ]
        ),
        4,
    ),
    "DescribeProducers": (
        lambda: DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[0])
                for name in NAMES
            ]
        ),
        0,
    ),
    "ElectLeaders": (
        lambda: ElectLeadersRequest(
            topic_partitions=[
                ElectLeadersRequest.TopicPartitions(topic=topic, partitions=INDEXES)
                for topic in (KNOWN, "unknown")
            ],
            timeout_ms=1000,
        ),
        2,
    ),
    "CreateTopics": (created, 7),
    "ListOffsets": (lambda: listed(KNOWN), 7),
    "Fetch": (fetched, 12),
    "OffsetCommit": (committed, 8),
    "TxnOffsetCommit": (txn_committed, 3),
    "OffsetFetch": (offsets_fetched, 8),
    "AddPartitionsToTxn": (added, 3),
    "Produce": (lambda: produce({n: batch(2) for n in INDEXES}), 9),
    "Produce of compressed records": (
        lambda: produce({n: batch(40_000, codec) for n, codec in enumerate(CODECS)}, COMPACTED),
        9,
    ),
}  # fmt: skip
"""Name → function that returns the request, which takes time, and the version."""


class Stage:
    """A cluster whose requests can be served in turns."""

    def __init__(self, path: Path) -> None:
        self.wire = TestCluster(path, config={"group.initial.rebalance.delay.ms": "0"})
        self.wire.create(KNOWN, partitions=3)
        self.wire.create(COMPACTED, partitions=4)
        entry = Alter.AlterableConfig(name="cleanup.policy", config_operation=0, value="compact")
        resource = Alter.AlterConfigsResource(
            resource_type=2, resource_name=COMPACTED, configs=[entry]
        )
        self.wire.ask(Alter(resources=[resource]), 1)
        self.wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4)

    def steps(self, request: Message, version: int) -> Iterator[Any]:
        """Serve a request of a new client in turns that end immediately.

        Yields None between the turns, and the answer at the end.
        """
        contexts = self.wire.contexts
        client = len(contexts) + 1
        contexts[client] = ConnectionContext(
            node=contexts[1].node, listener="PLAINTEXT", client_host="/127.0.0.1"
        )
        answers: list[Any] = []
        worker = Worker()
        worker.task = lambda: answers.append(self.wire.ask(request, version, client))
        while (state := worker.take_turn(-inf)) is not None:
            if isinstance(state, ThreadCall):
                state.run()
            yield None
        worker.end()
        yield answers[0]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "turns")
    yield stage
    stage.wire.end()


@pytest.mark.parametrize("name", REQUESTS)
def test_a_long_request_has_the_same_answer_in_steps(
    name: str, stage: Stage, tmp_path: Path
) -> None:
    make, version = REQUESTS[name]
    request = make()
    other = Stage(tmp_path / "at once")
    at_once = other.wire.ask(request, version)
    other.wire.end()
    *pauses, answer = stage.steps(request, version)
    assert len(pauses) >= 5, "otherwise no other request would have been served"
    assert answer == at_once


def test_other_requests_are_served_between_the_steps(stage: Stage) -> None:
    """All requests are served concurrently, one step of each in turn."""
    under_way = {name: stage.steps(make(), version) for name, (make, version) in REQUESTS.items()}
    answers: dict[str, Any] = {}
    while under_way:
        for name, steps in list(under_way.items()):
            answer = next(steps)
            if answer is not None:
                answers[name] = answer
                del under_way[name]
        assert stage.wire.ask(DescribeClusterRequest(), 1).brokers
    (produced,) = answers["Produce"].responses
    assert [each.error_code for each in produced.partition_responses[:3]] == [0, 0, 0]
    (compressed,) = answers["Produce of compressed records"].responses
    assert [each.error_code for each in compressed.partition_responses] == [0, 0, 0, 0]
    partitions = stage.wire.cluster.partitions
    for topic, ends in ((KNOWN, [2, 2, 2]), (COMPACTED, [40_000] * 4)):
        hosted = partitions.topic(topic)
        assert hosted is not None
        assert [partition.end_offset for partition in hosted.partitions] == ends


def test_a_batch_is_refused_if_its_topic_is_deleted_meanwhile(stage: Stage) -> None:
    compacted = stage.wire.cluster.metadata.image.topics[COMPACTED].topic_id
    steps = stage.steps(produce({0: batch(5_000, "zstd")}, COMPACTED), 9)
    assert next(steps) is None
    stage.wire.cluster.metadata.delete_topics([compacted])
    *_, answer = steps
    ((refused,),) = (topic.partition_responses for topic in answer.responses)
    assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert stage.wire.cluster.partitions.topic(COMPACTED) is None
