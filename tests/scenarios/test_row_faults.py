"""Faults that name a topic, a partition or a group refuse only the rows that match."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.catalogue import entities_in_response, row, values_at
from kafkalite.protocol.codec import api_name
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.conformance.batches import batch
from tests.conformance.raw import ConnectionClosedError, RawClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafkalite.protocol.message import Message

NONE, FAILED = ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP = "readers"
EVERY_PARTITION = (("orders", (0, 1)), ("audit", (0,)))


class Stage:
    """A broker with three partitions, and a client."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.client = RawClient(int(broker.bootstrap_servers.rpartition(":")[2]), 10)
        self.call = self.client.call
        self.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP, "other"]), 6)
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in ("orders", "audit")]
        found = self.call(MetadataRequest(topics=topics), 12).topics
        self.ids = {topic.name: topic.topic_id for topic in found}
        self.names = {topic_id: name for name, topic_id in self.ids.items()}

    def codes(self, key: ApiKey, answer: Any) -> dict[tuple[str, int], int]:  # noqa: ANN401
        """Return the error of each partition in an answer."""
        rows = row(key).rows
        assert rows is not None
        partitions = [
            (self.names.get(topic, topic), index)
            for topic, index in entities_in_response(key, Entity.PARTITION, answer)
        ]
        assert max(Counter(partitions).values()) == 1
        errors = values_at(answer, f"{rows.answered}.error_code")
        return dict(zip(partitions, errors, strict=True))

    def end_offsets(self) -> list[int]:
        answer = self.call(list_offsets(self), 6)
        return [each.offset for topic in answer.topics for each in topic.partitions]


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Broker(topics={"orders": 2, "audit": 1}, clock="manual@2026-03-01") as broker:
        stage = Stage(broker)
        with closing(stage.client):
            yield stage


def produce(stage: Stage, acks: int = -1) -> ProduceRequest:
    data, topic = ProduceRequest.PartitionProduceData, ProduceRequest.TopicProduceData
    return ProduceRequest(
        acks=acks,
        timeout_ms=1_000,
        topic_data=[
            topic(
                name=name,
                topic_id=stage.ids[name],
                partition_data=[data(index=each, records=batch(b"v")) for each in indexes],
            )
            for name, indexes in EVERY_PARTITION
        ],
    )


def fetch(stage: Stage, max_wait_ms: int = 0) -> FetchRequest:
    partition = FetchRequest.FetchPartition
    return FetchRequest(
        max_bytes=1_000,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=[
            FetchRequest.FetchTopic(
                topic=name,
                topic_id=stage.ids[name],
                partitions=[partition(partition=each, partition_max_bytes=99) for each in indexes],
            )
            for name, indexes in EVERY_PARTITION
        ],
    )


def list_offsets(stage: Stage) -> ListOffsetsRequest:
    del stage
    partition = ListOffsetsRequest.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=name,
                partitions=[partition(partition_index=each, timestamp=-1) for each in indexes],
            )
            for name, indexes in EVERY_PARTITION
        ],
    )


def offset_commit(stage: Stage) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    return OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                topic_id=stage.ids[name],
                partitions=[
                    partition(partition_index=each, committed_offset=7) for each in indexes
                ],
            )
            for name, indexes in EVERY_PARTITION
        ],
    )


def offset_fetch(stage: Stage) -> OffsetFetchRequest:
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopics(
            name=name, topic_id=stage.ids[name], partition_indexes=list(indexes)
        )
        for name, indexes in EVERY_PARTITION
    ]
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=topics)
    return OffsetFetchRequest(groups=[group])


def delete_records(stage: Stage) -> DeleteRecordsRequest:
    del stage
    partition = DeleteRecordsRequest.DeleteRecordsPartition
    return DeleteRecordsRequest(
        timeout_ms=1_000,
        topics=[
            DeleteRecordsRequest.DeleteRecordsTopic(
                name=name,
                partitions=[partition(partition_index=each, offset=0) for each in indexes],
            )
            for name, indexes in EVERY_PARTITION
        ],
    )


class Case(NamedTuple):
    """An API whose requests have partitions, and a version."""

    key: ApiKey
    version: int
    request: Callable[[Stage], Message]


CASES = (
    Case(ApiKey.PRODUCE, 9, produce),
    Case(ApiKey.PRODUCE, 13, produce),
    Case(ApiKey.FETCH, 12, fetch),
    Case(ApiKey.FETCH, 17, fetch),
    Case(ApiKey.LIST_OFFSETS, 6, list_offsets),
    Case(ApiKey.OFFSET_COMMIT, 9, offset_commit),
    Case(ApiKey.OFFSET_COMMIT, 10, offset_commit),
    Case(ApiKey.OFFSET_FETCH, 9, offset_fetch),
    Case(ApiKey.OFFSET_FETCH, 10, offset_fetch),
    Case(ApiKey.DELETE_RECORDS, 2, delete_records),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.key.name} v{case.version}")
@pytest.mark.parametrize(
    ("match", "failed"),
    [
        ({"topic": "orders", "partition": 1}, {("orders", 1)}),
        ({"topic": "orders"}, {("orders", 0), ("orders", 1)}),
        ({"partition": 0}, {("orders", 0), ("audit", 0)}),
        ({"topic": "audit", "partition": 1}, set()),
    ],
    ids=["partition", "topic", "index", "other"],
)
def test_only_the_partitions_that_match_are_refused(
    stage: Stage, case: Case, match: dict[str, Any], failed: set[tuple[str, int]]
) -> None:
    fault = stage.broker.faults.add(api=api_name(case.key), error=FAILED.name, **match)
    codes = stage.codes(case.key, stage.call(case.request(stage), case.version))
    every = [(name, index) for name, indexes in EVERY_PARTITION for index in indexes]
    assert codes == {each: FAILED if each in failed else NONE for each in every}
    assert fault.firings == bool(failed)


def test_the_other_partitions_are_written(stage: Stage) -> None:
    stage.broker.faults.add(topic="orders", partition=1, api="Produce", error=FAILED.name)
    stage.call(produce(stage), 9)
    assert stage.end_offsets() == [1, 0, 1]
    stage.client.send(produce(stage, acks=0), 9)
    with pytest.raises(ConnectionClosedError):
        stage.client.receive()
    other = Stage(stage.broker)
    with closing(other.client):
        assert other.end_offsets() == [2, 0, 2]


def test_nothing_is_handled_if_all_rows_are_refused(stage: Stage) -> None:
    for topic in ("orders", "audit"):
        stage.broker.faults.add(api="OffsetCommit", topic=topic, error=FAILED.name)
    request = offset_commit(stage)
    request.topics.pop()
    codes = stage.codes(ApiKey.OFFSET_COMMIT, stage.call(request, 9))
    assert set(codes.values()) == {FAILED}
    stage.broker.faults.add(api="OffsetFetch", partition=1, error=FAILED.name)
    (group,) = stage.call(offset_fetch(stage), 9).groups
    offsets = [each.committed_offset for topic in group.topics for each in topic.partitions]
    assert set(offsets) == {-1}


@pytest.mark.parametrize("version", [8, 9])
def test_refused_topics_of_a_group_do_not_refuse_the_group(stage: Stage, version: int) -> None:
    orders = OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0, 1])
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=[orders])
    stage.broker.faults.add(api="OffsetFetch", topic="orders", error=FAILED.name)
    (group,) = stage.call(OffsetFetchRequest(groups=[asked]), version).groups
    assert group.error_code == NONE
    (topic,) = group.topics
    assert [each.error_code for each in topic.partitions] == [FAILED, FAILED]


@pytest.mark.parametrize(("version", "brokers"), [(0, 0), (1, 1), (12, 1)])
def test_no_other_topics_are_described_if_all_are_refused(
    stage: Stage, version: int, brokers: int
) -> None:
    stage.broker.faults.add(api="Metadata", topic="orders", error=FAILED.name)
    topics = [MetadataRequest.MetadataRequestTopic(name="orders")]
    answer = stage.call(MetadataRequest(topics=topics), version)
    assert len(answer.brokers) == brokers
    (topic,) = answer.topics
    assert (topic.name, topic.error_code, topic.partitions) == ("orders", FAILED, [])


def test_a_delayed_fault_refuses_rows_after_its_delay(stage: Stage) -> None:
    stage.broker.faults.add(
        api="Produce", topic="orders", partition=0, error=FAILED.name, delay_ms=500
    )
    stage.client.send(produce(stage), 9)
    stage.broker.clock.advance(seconds=1)
    answer = stage.client.receive()
    assert list(stage.codes(ApiKey.PRODUCE, answer).values()).count(FAILED) == 1


def test_a_waiting_fetch_is_answered_at_once_if_a_partition_is_refused(stage: Stage) -> None:
    stage.broker.faults.add(api="Fetch", topic="orders", partition=0, error=FAILED.name)
    answer = stage.call(fetch(stage, max_wait_ms=60_000), 12)
    assert stage.codes(ApiKey.FETCH, answer)["orders", 0] == FAILED


def test_a_share_fetch_acquires_no_records_of_a_refused_partition(stage: Stage) -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig(
        name="share.auto.offset.reset", value="earliest"
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=32, resource_name=GROUP, configs=[config]
    )
    stage.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    member = "A" * 22
    heartbeat = ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id=member, member_epoch=0, subscribed_topic_names=["orders"]
    )
    assert stage.call(heartbeat, 1).error_code == NONE
    stage.call(produce(stage), 9)
    partition = ShareFetchRequest.FetchPartition
    topic = ShareFetchRequest.FetchTopic(
        topic_id=stage.ids["orders"],
        partitions=[partition(partition_index=each) for each in (0, 1)],
    )

    def fetch_shared(epoch: int, *topics: ShareFetchRequest.FetchTopic) -> dict[int, Any]:
        request = ShareFetchRequest(
            group_id=GROUP, member_id=member, share_session_epoch=epoch, max_wait_ms=0,
            max_bytes=1_000, max_records=10, batch_size=10, topics=list(topics),
        )  # fmt: skip
        answer = stage.call(request, 2)
        assert answer.error_code == NONE
        return {
            each.partition_index: each for topic in answer.responses for each in topic.partitions
        }

    with stage.broker.faults.add(
        api="ShareFetch", topic="orders", partition=1, error=FAILED.name
    ) as fault:
        rows = fetch_shared(0, topic)
        assert rows[1].error_code == FAILED
        assert not rows[1].acquired_records
        assert rows[0].acquired_records
        assert fetch_shared(1)[1].error_code == FAILED  # its session has the partition
        assert fault.firings == 2
    assert fetch_shared(2)[1].acquired_records


def test_groups_and_resources_are_refused_one_by_one(stage: Stage) -> None:
    stage.broker.faults.add(api="DeleteGroups", group="other", error="NOT_COORDINATOR")
    results = stage.call(DeleteGroupsRequest(groups_names=["other", GROUP]), 2).results
    assert {each.group_id: each.error_code for each in results} == {
        "other": ErrorCode.NOT_COORDINATOR,
        GROUP: ErrorCode.GROUP_ID_NOT_FOUND,
    }
    stage.broker.faults.add(api="IncrementalAlterConfigs", topic="audit", error=FAILED.name)
    config = IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", value="1000")
    resources = [
        IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=2, resource_name=name, configs=[config]
        )
        for name in ("audit", "orders")
    ]
    answer = stage.call(IncrementalAlterConfigsRequest(resources=resources), 1)
    assert {each.resource_name: each.error_code for each in answer.responses} == {
        "audit": FAILED,
        "orders": NONE,
    }


def test_a_refused_partition_is_in_the_history_of_its_topic(stage: Stage) -> None:
    fault = stage.broker.faults.add(
        api="Produce", topic="orders", partition=1, error="NOT_ENOUGH_REPLICAS"
    )
    stage.call(produce(stage), 9)
    (entry,) = stage.broker.explain(topic="orders")
    assert entry.text == (
        f"Produce refused by fault {fault.id} (NOT_ENOUGH_REPLICAS) for topic orders partition 1"
    )
    assert entry.facts["fault"] == fault.id


def test_a_partition_needs_an_api_with_partitions(stage: Stage) -> None:
    with pytest.raises(
        ValueError, match=r"^match\.partition selects no request: requests of Heart"
    ):
        stage.broker.faults.add(api="Heartbeat", partition=0, error="NOT_COORDINATOR")
    with pytest.raises(ValueError, match=r"^match\.partition must be a whole number from 0 to "):
        stage.broker.faults.add(api="Produce", partition=-1, error="NOT_COORDINATOR")
