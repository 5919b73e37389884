"""Recorded requests that are sent or skipped, and long polls."""

from __future__ import annotations

import pytest

from kafkalite.lab.replay.comparison.refusals import NO_SECRETS, REFUSED_WITH_RETRIABLE_ERROR
from kafkalite.lab.replay.player.requests import OpenTransactions, OutgoingRequests
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, ValueKind
from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from tests.unit.lab.replay.capture_builder import exchange


def test_authentication_requests_are_skipped() -> None:
    recorded = exchange(SaslAuthenticateRequest(), None, 2)
    assert OutgoingRequests(IdMapping(), 0).skip_reason(recorded) == NO_SECRETS


def test_requests_refused_with_retriable_errors_are_skipped() -> None:
    outgoing = OutgoingRequests(IdMapping(), 0)
    refused = exchange(JoinGroupRequest(), JoinGroupResponse(error_code=15), 5)
    assert outgoing.skip_reason(refused) == REFUSED_WITH_RETRIABLE_ERROR
    assert outgoing.skip_reason(exchange(JoinGroupRequest(), JoinGroupResponse(), 5)) is None
    assert outgoing.skip_reason(exchange(JoinGroupRequest(), None, 5)) is None


def max_wait_ms(wait_speedup: float, duration_ms: int) -> int:
    """Return the maximum wait at the target for a recorded long poll of 500 ms."""
    recorded = exchange(FetchRequest(max_wait_ms=500), FetchResponse(), 11, duration_ms)
    frame = OutgoingRequests(IdMapping(), wait_speedup).frame(recorded)
    request, _ = codec.request_parser(1, 11)(frame, recorded.request_start, len(frame))
    assert isinstance(request.max_wait_ms, int)
    return request.max_wait_ms


def test_expired_long_poll_is_shortened() -> None:
    assert max_wait_ms(0, 502) == 1
    assert max_wait_ms(10, 502) == 50
    assert max_wait_ms(1, 502) == 500
    assert max_wait_ms(0, 30) == 500


def test_request_without_changes_keeps_its_bytes() -> None:
    heartbeat = exchange(HeartbeatRequest(group_id="g", member_id="a-1"), None, 4)
    assert OutgoingRequests(IdMapping(), 0).frame(heartbeat) is heartbeat.request


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (None, (None, -1)),
        (ApiVersionsResponse(), (None, -1)),
        (ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED), ("recorded", 2)),
    ],
)
def test_recorded_cluster_is_sent_only_if_it_was_refused(
    response: ApiVersionsResponse | None, expected: tuple[str | None, int]
) -> None:
    recorded = exchange(ApiVersionsRequest(cluster_id="recorded", node_id=2), response, 5)
    frame = OutgoingRequests(IdMapping(), 0).frame(recorded)
    request, _ = codec.request_parser(ApiKey.API_VERSIONS, 5)(
        frame, recorded.request_start, len(frame)
    )
    assert (request.cluster_id, request.node_id) == expected


def test_api_versions_without_a_cluster_keeps_its_bytes() -> None:
    for version in (0, 4, 5):
        recorded = exchange(ApiVersionsRequest(), ApiVersionsResponse(), version)
        assert OutgoingRequests(IdMapping(), 0).frame(recorded) is recorded.request


def test_malformed_request_that_must_be_translated_is_an_error() -> None:
    mapping = IdMapping()
    mapping.learn(ValueKind.MEMBER, "a-1", "a-2")
    recorded = exchange(HeartbeatRequest(group_id="g", member_id="a-1"), None, 4)
    truncated = type(recorded)(
        **{name: getattr(recorded, name) for name in recorded.__slots__ if name != "request"},
        request=recorded.request[:-8],
    )
    with pytest.raises(ProtocolViolation):
        OutgoingRequests(mapping, 0).frame(truncated)


CONCURRENT = 51
INIT = exchange(InitProducerIdRequest(transactional_id="t"), None, 4)
PRODUCE = exchange(ProduceRequest(transactional_id="t", acks=-1), None, 9)
END_TXN = exchange(EndTxnRequest(transactional_id="t"), None, 3)


def test_transaction_is_open_until_its_end() -> None:
    transactions = OpenTransactions()
    for request in (
        PRODUCE,
        exchange(AddPartitionsToTxnRequest(v3_and_below_transactional_id="t"), None, 3),
    ):
        transactions.apply(request)
        assert transactions.is_open(INIT)
        transactions.apply(END_TXN)
        assert not transactions.is_open(INIT)
    transactions.apply(exchange(ProduceRequest(acks=-1), None, 9))
    transactions.apply(exchange(HeartbeatRequest(), None, 4))
    assert not transactions.is_open(INIT)


def test_refused_init_producer_id_is_sent_only_if_it_aborts_a_transaction() -> None:
    outgoing = OutgoingRequests(IdMapping(), 0)
    refused = exchange(
        InitProducerIdRequest(transactional_id="t"),
        InitProducerIdResponse(error_code=CONCURRENT),
        4,
    )
    assert outgoing.skip_reason(refused) == REFUSED_WITH_RETRIABLE_ERROR
    assert outgoing.skip_reason(PRODUCE) is None
    assert outgoing.skip_reason(refused) is None
    assert outgoing.skip_reason(refused) == REFUSED_WITH_RETRIABLE_ERROR
