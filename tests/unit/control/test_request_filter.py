"""Selection of logged requests, and what is different in the others."""

from __future__ import annotations

import pytest

from kafkalite.config.typed_json import JsonError, read
from kafkalite.control.request_filter import RequestFilter, check_fields, field_differences
from kafkalite.protocol._generated.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.server.request_log import LoggedRequest
from tests.unit.exchanges import ended_exchange

PARTITION = OffsetCommitRequest.OffsetCommitRequestPartition
TOPIC = OffsetCommitRequest.OffsetCommitRequestTopic


def commit() -> LoggedRequest:
    partitions = [PARTITION(partition_index=each, committed_offset=10 + each) for each in range(2)]
    request = OffsetCommitRequest(
        group_id="shop", topics=[TOPIC(name="orders", partitions=partitions)]
    )
    refused = OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=0, error_code=22)
    topic = OffsetCommitResponse.OffsetCommitResponseTopic(name="orders", partitions=[refused])
    return LoggedRequest(1, ended_exchange(request, 9, OffsetCommitResponse(topics=[topic])))


@pytest.mark.parametrize(
    ("conditions", "differences"),
    [
        ({}, []),
        ({"api": "OffsetCommit", "client_id": "me", "group": "shop", "topic": "orders"}, []),
        ({"error": "ILLEGAL_GENERATION", "node": 1}, []),
        ({"api": "Heartbeat"}, ["the API is OffsetCommit, not Heartbeat"]),
        ({"client_id": "you"}, ["client_id is 'me', not 'you'"]),
        ({"group": "other"}, ["group is 'shop', not 'other'"]),
        ({"topic": "other", "node": 2}, ["topic is 'orders', not 'other'", "node is 1, not 2"]),
        ({"transactional_id": "t"}, ["transactional_id is missing, not 't'"]),
        ({"error": "NOT_COORDINATOR"}, ["error is ILLEGAL_GENERATION, not NOT_COORDINATOR"]),
    ],
)
def test_each_condition_is_compared(conditions: dict[str, object], differences: list[str]) -> None:
    selected = read(RequestFilter, conditions, "requests")
    assert list(selected.differences(commit())) == differences
    assert selected.matches(commit()) == (not differences)


def test_a_filter_is_described() -> None:
    conditions = {"api": "OffsetCommit", "group": "shop", "error": "NOT_COORDINATOR"}
    selected = read(RequestFilter, conditions, "requests")
    assert selected.description() == (
        "OffsetCommit request with group='shop', error=NOT_COORDINATOR"
    )
    assert RequestFilter().description() == "request"


@pytest.mark.parametrize(
    ("fields", "differences"),
    [
        ({"groupId": "shop", "topics.name": "orders"}, []),
        ({"committedOffset": 11, "partitions.partitionIndex": 0}, []),
        ({"memberId": "m"}, ["memberId is '', not 'm'"]),
        ({"topics.partitions.committedOffset": 12}, [
            "topics.partitions.committedOffset is 10, 11, not 12"
        ]),
    ],
)  # fmt: skip
def test_fields_are_named_by_their_path_or_its_end(
    fields: dict[str, object], differences: list[str]
) -> None:
    check_fields(ApiKey.OFFSET_COMMIT, fields)
    assert list(field_differences(fields, commit())) == differences


@pytest.mark.parametrize(
    ("api", "fields", "reason"),
    [
        (None, {"acks": 1}, "fields needs an API: set api"),
        (
            ApiKey.PRODUCE,
            {"ack": 1},
            "fields 'ack' is not a field of Produce requests; similar names are acks",
        ),
        (ApiKey.PRODUCE, {"topicData": {}}, "fields 'topicData' must be a single value"),
    ],
)
def test_a_field_that_no_request_has_is_rejected(
    api: ApiKey | None, fields: dict[str, object], reason: str
) -> None:
    with pytest.raises(JsonError, match=reason):
        check_fields(api, fields)


def test_batches_of_records_have_fields() -> None:
    check_fields(ApiKey.PRODUCE, {"recordsBatches.compression": "gzip", "recordsSizeInBytes": 3})
    check_fields(ApiKey.PRODUCE, {})
