"""Recorded requests that were refused with retriable errors."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.capture.model import Direction
from kafkalite.lab.replay.comparison.refusals import (
    RETRIABLE_ERRORS,
    error_codes,
    was_refused,
)
from kafkalite.lab.replay.comparison.shapes import shape_of
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kafkalite.protocol._generated.messages.join_group import JoinGroupResponse
from kafkalite.protocol._generated.messages.produce import ProduceResponse
from kafkalite.protocol.error_codes import ErrorCode


def produce_response(*codes: int) -> ProduceResponse:
    row = ProduceResponse.PartitionProduceResponse
    rows = [row(index=number, error_code=code) for number, code in enumerate(codes)]
    topic = ProduceResponse.TopicProduceResponse(name="t", partition_responses=rows)
    return ProduceResponse(responses=[topic])


def add_partitions_response(top_level: int, row: int) -> AddPartitionsToTxnResponse:
    partition = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
        partition_error_code=row
    )
    topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
        name="t", results_by_partition=[partition]
    )
    result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult(topic_results=[topic])
    return AddPartitionsToTxnResponse(error_code=top_level, results_by_transaction=[result])


@pytest.mark.parametrize(
    ("response", "version", "expected"),
    [
        (JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), 7, True),
        (JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED), 7, False),
        (JoinGroupResponse(), 7, False),
        (
            produce_response(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            9,
            True,
        ),
        (produce_response(ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE), 9, False),
        (produce_response(), 9, False),
        (add_partitions_response(ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS), 4, True),
        (add_partitions_response(ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE), 4, False),
    ],
)
def test_response_with_only_retriable_errors_is_refused(
    response: Any,  # noqa: ANN401 - any response
    version: int,
    expected: bool,  # noqa: FBT001 - a column of the table
) -> None:
    shape = shape_of(response.API_KEY, version, Direction.RESPONSE)
    assert was_refused(response.API_KEY, shape, response) is expected


def test_all_error_codes_of_a_response_are_found() -> None:
    assert error_codes(shape_of(0, 9, Direction.RESPONSE), produce_response(0, 3)) == [0, 3]


def test_every_api_with_retriable_errors_has_a_shape() -> None:
    for api_key in RETRIABLE_ERRORS:
        shape = shape_of(api_key, 0, Direction.RESPONSE)
        assert shape.leaves or shape.branches, api_key
