"""Refusals by the rows of the catalogue: errors in the response, in rows, and in rows of rows."""

from __future__ import annotations

import pytest

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
from kafkalite.protocol._generated.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.rows import refusal

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
