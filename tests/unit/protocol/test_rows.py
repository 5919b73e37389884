"""Refusals by the rows of the catalogue: errors in the response, in rows, and in rows of rows."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.ports.waiting import Waiting
from kafkalite.protocol._generated.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from kafkalite.protocol._generated.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from kafkalite.protocol._generated.messages.end_txn import EndTxnResponse
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol._generated.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.rows import depths_with_errors, paths_of_rows, refusal, repetition, split

CODE = ErrorCode.NOT_CONTROLLER


def test_an_error_stands_in_the_request_and_in_the_rows_inside_rows() -> None:
    topic = ElectLeadersRequest.TopicPartitions(topic="t", partitions=[3, 1])
    request = ElectLeadersRequest(topic_partitions=[topic])
    refused = [
        ElectLeadersResponse.PartitionResult(
            partition_id=index, error_code=CODE, error_message="why"
        )
        for index in (3, 1)
    ]
    assert refusal(ApiKey.ELECT_LEADERS, request, CODE, "why") == ElectLeadersResponse(
        error_code=CODE,
        replica_election_results=[
            ElectLeadersResponse.ReplicaElectionResult(topic="t", partition_result=refused)
        ],
    )
    everything = ElectLeadersRequest(topic_partitions=None)
    assert refusal(ApiKey.ELECT_LEADERS, everything, CODE, None) == ElectLeadersResponse(
        error_code=CODE
    )


def test_an_error_stands_in_the_outermost_rows_with_a_field_for_it() -> None:
    topic = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic(topic_name="t")
    group = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
        group_id="g", topics=[topic]
    )
    request = DescribeShareGroupOffsetsRequest(groups=[group])
    refused = DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup(
        group_id="g", error_code=CODE
    )
    answer = refusal(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, CODE, None)
    assert answer == DescribeShareGroupOffsetsResponse(groups=[refused])


def test_an_error_of_the_request_leaves_the_rows_out() -> None:
    topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(name="t")
    request = OffsetDeleteRequest(group_id="g", topics=[topic])
    answer = refusal(ApiKey.OFFSET_DELETE, request, CODE, None)
    assert answer == OffsetDeleteResponse(error_code=CODE)
    assert refusal(ApiKey.END_TXN, None, CODE, None) == EndTxnResponse(error_code=CODE)


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        (CODE, "why", "why"),
        (CODE, None, CODE.message),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "why", None),
    ],
)
def test_the_text_follows_from_the_error(code: ErrorCode, message: str, text: str) -> None:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name="t"
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = refusal(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, code, message)
    (row,) = answer.responses
    assert (row.resource_type, row.resource_name) == (2, "t")
    assert (row.error_code, row.error_message) == (code, text)


def list_offsets(**partitions: tuple[int, ...]) -> ListOffsetsRequest:
    topic, partition = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsPartition
    return ListOffsetsRequest(
        topics=[
            topic(name=name, partitions=[partition(partition_index=each) for each in indexes])
            for name, indexes in partitions.items()
        ]
    )


def listed(**partitions: dict[int, ErrorCode]) -> ListOffsetsResponse:
    answer = ListOffsetsResponse.ListOffsetsPartitionResponse
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name=name,
                partitions=[
                    answer(partition_index=index, error_code=code) for index, code in codes.items()
                ],
            )
            for name, codes in partitions.items()
        ]
    )


def test_rows_with_an_error_are_removed_and_answered() -> None:
    request = list_offsets(a=(0, 1), b=(0,), c=(2,))
    refused = {("a", 1), ("b", 0)}

    def error_of(path: Any) -> KafkaError | None:  # noqa: ANN401 - rows of any API
        topic, partition = path
        return KafkaError(CODE) if (topic.name, partition.partition_index) in refused else None

    without = split(ApiKey.LIST_OFFSETS, request, 1, error_of)
    assert without.has_rows
    assert without.request == list_offsets(a=(0,), c=(2,))
    assert request == list_offsets(a=(0, 1), b=(0,), c=(2,))
    handled = listed(a={0: ErrorCode.NONE}, c={2: ErrorCode.NONE})
    expected = listed(a={0: ErrorCode.NONE, 1: CODE}, c={2: ErrorCode.NONE}, b={0: CODE})
    assert without.merge(handled) == expected
    assert handled == listed(a={0: ErrorCode.NONE}, c={2: ErrorCode.NONE})


def test_refused_rows_of_commits_are_the_first_ones_as_in_kafka() -> None:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    answered = OffsetCommitResponse.OffsetCommitResponseTopic
    answer = OffsetCommitResponse.OffsetCommitResponsePartition
    request = OffsetCommitRequest(
        topics=[
            topic(name=name, partitions=[partition(partition_index=index) for index in (0, 1)])
            for name in "ab"
        ]
    )
    without = split(
        ApiKey.OFFSET_COMMIT,
        request,
        1,
        lambda path: (
            KafkaError(CODE) if (path[0].name, path[1].partition_index) == ("b", 1) else None
        ),
    )
    handled = OffsetCommitResponse(
        topics=[
            answered(
                name=each.name,
                partitions=[answer(partition_index=row.partition_index) for row in each.partitions],
            )
            for each in without.request.topics
        ]
    )
    merged = without.merge(handled)
    assert [
        (each.name, row.partition_index, row.error_code)
        for each in merged.topics
        for row in each.partitions
    ] == [("b", 1, CODE), ("b", 0, 0), ("a", 0, 0), ("a", 1, 0)]


def test_refused_partitions_of_described_producers_keep_the_order_of_the_request() -> None:
    topic = DescribeProducersRequest.TopicRequest
    answered = DescribeProducersResponse.TopicResponse
    answer = DescribeProducersResponse.PartitionResponse
    request = DescribeProducersRequest(
        topics=[topic(name=name, partition_indexes=[2, 1, 0]) for name in "ba"]
    )
    refused = {("b", 1), ("a", 2), ("a", 1), ("a", 0)}
    without = split(
        ApiKey.DESCRIBE_PRODUCERS,
        request,
        1,
        lambda path: KafkaError(CODE) if (path[0].name, path[1]) in refused else None,
    )
    handled = DescribeProducersResponse(
        topics=[
            answered(
                name=each.name,
                partitions=[answer(partition_index=index) for index in each.partition_indexes],
            )
            for each in without.request.topics
        ]
    )
    assert [
        (each.name, row.partition_index, row.error_code)
        for each in without.merge(handled).topics
        for row in each.partitions
    ] == [("b", 2, 0), ("b", 1, CODE), ("b", 0, 0), ("a", 2, CODE), ("a", 1, CODE), ("a", 0, CODE)]


def test_a_request_without_refused_rows_stays_as_it_is() -> None:
    request = list_offsets(a=(0, 1))
    without = split(ApiKey.LIST_OFFSETS, request, 0, lambda _: None)
    assert without.request is request
    assert without.refused == []
    answer = listed(a={0: ErrorCode.NONE, 1: ErrorCode.NONE})
    assert without.answer(lambda handled: answer if handled is request else None) is answer


def test_answers_of_a_handler_are_merged_with_refused_rows() -> None:
    request = list_offsets(a=(0, 1))
    some = split(
        ApiKey.LIST_OFFSETS,
        request,
        1,
        lambda path: KafkaError(CODE) if path[1].partition_index else None,
    )
    waiting: Waiting[ListOffsetsResponse] = Waiting()
    merged = some.answer(lambda _: waiting)
    waiting.resolve(listed(a={0: ErrorCode.NONE}))
    assert merged.value == listed(a={0: ErrorCode.NONE, 1: CODE})
    assert some.answer(lambda _: None) == listed(a={1: CODE})


def test_a_handler_is_called_without_rows_only_if_it_must() -> None:
    called: list[ListOffsetsRequest] = []
    every = split(ApiKey.LIST_OFFSETS, list_offsets(a=(0, 1)), 0, lambda _: KafkaError(CODE))
    assert not every.has_rows
    expected = listed(a={0: CODE, 1: CODE})
    assert every.answer(called.append) == expected
    assert called == []
    assert every.answer(called.append, is_handled_without_rows=True) == expected
    assert called == [list_offsets()]


def test_rows_are_found_at_every_depth() -> None:
    request = list_offsets(a=(0, 1), b=())
    outer = list(paths_of_rows(ApiKey.LIST_OFFSETS, request, 0))
    assert [topic.name for (topic,) in outer] == ["a", "b"]
    inner = list(paths_of_rows(ApiKey.LIST_OFFSETS, request, 1))
    assert [(topic.name, each.partition_index) for topic, each in inner] == [("a", 0), ("a", 1)]
    assert depths_with_errors(ApiKey.LIST_OFFSETS) == {0, 1}
    assert depths_with_errors(ApiKey.METADATA) == {0}
    assert depths_with_errors(ApiKey.LIST_PARTITION_REASSIGNMENTS) == set()


def test_rows_with_the_same_copied_fields_are_repeated() -> None:
    request = list_offsets(a=(0,), b=(0,))
    request.topics.append(list_offsets(a=(1,)).topics[0])
    assert [*map(repetition(ApiKey.LIST_OFFSETS, request), request.topics)] == [True, False, True]
