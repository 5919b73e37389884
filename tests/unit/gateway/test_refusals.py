"""Refusals of requests that name a group, as the history shows them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from kafkalite.coordinator.event_history import EventHistory
from kafkalite.gateway.call import Call, ConnectionContext
from kafkalite.gateway.refusals import (
    client_address,
    report_refusal,
    report_refusal_of_request,
    warn_about_denial,
)
from kafkalite.protocol._generated.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
)
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node


def call(client_host: str = "/127.0.0.1") -> Call:
    node = SimpleNamespace(history=EventHistory(), clock=ManualClock(5_000))
    context = ConnectionContext(
        node=cast("Node", node),
        listener="PLAINTEXT",
        client_host=client_host,
        client_id="shop",
    )
    return Call(context)


def test_only_refusals_by_acls_are_logged() -> None:
    asked, kinds = call(), []

    def warn(host: str, kind: str, event: str, **fields: object) -> None:
        del host, event, fields
        kinds.append(kind)

    asked.node.warn_about_client = warn
    warn_about_denial(asked, "Heartbeat", KafkaError(ErrorCode.ILLEGAL_GENERATION))
    warn_about_denial(asked, "Fetch", KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, facts={"rule": "r"}))
    facts = {"principal": "User:a", "operation": "READ", "resource_type": "GROUP", "resource": "g"}
    error = KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, facts={"rule": "acl", **facts})
    warn_about_denial(asked, "Heartbeat", error)
    assert kinds == ["User:a READ GROUP g"]


def test_a_refusal_of_a_topic_has_the_group_of_the_request() -> None:
    asked = call()
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    error = KafkaError(ErrorCode.INVALID_PARTITION_EPOCH, "Fetch of t-0 refused", {"rule": "r"})
    report_refusal(asked, "Fetch", "t", error, request, kind=Entity.TOPIC)
    (entry,) = asked.node.history.about("t", of=Entity.TOPIC)
    assert (entry.kind, entry.text, entry.facts["group_id"]) == (
        "refused", "Fetch of t-0 refused", "g",
    )  # fmt: skip


def test_a_refusal_has_the_request_the_client_and_the_error() -> None:
    asked = call()
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    report_refusal(asked, "Heartbeat", "g", KafkaError(ErrorCode.ILLEGAL_GENERATION), request)
    (entry,) = asked.node.history.about("g")
    assert entry.kind == "refused"
    assert entry.at_ms == 5_000
    assert entry.text.startswith("Heartbeat refused: ")
    assert entry.text.endswith("(ILLEGAL_GENERATION)")
    assert entry.facts == {
        "api": "Heartbeat",
        "error": "ILLEGAL_GENERATION",
        "client_id": "shop",
        "client_host": "/127.0.0.1",
        "member_id": "m",
        "generation_id": 3,
    }


def test_a_fenced_producer_is_recorded_under_its_transactional_id() -> None:
    asked = call()
    request = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=2, committed=True)
    report_refusal_of_request(asked, "EndTxn", KafkaError(ErrorCode.PRODUCER_FENCED), request)
    history = asked.node.history
    (entry,) = history.about("t", of=Entity.TRANSACTIONAL_ID)
    assert (entry.kind, entry.group, entry.transactional_id) == ("fenced", None, "t")
    assert entry.facts["producer_id"] == 7
    assert entry.facts["producer_epoch"] == 2
    assert "transactional_id" not in entry.facts
    assert history.names(Entity.GROUP) == []


def test_a_refusal_is_recorded_under_the_group_and_the_transactional_id() -> None:
    asked = call()
    request = AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=7, producer_epoch=2, group_id="g"
    )
    report_refusal_of_request(
        asked, "AddOffsetsToTxn", KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH), request
    )
    of_group, of_transaction = asked.node.history.latest()
    assert (of_group.group, of_group.kind) == ("g", "refused")
    assert of_group.facts["transactional_id"] == "t"
    assert (of_transaction.transactional_id, of_transaction.kind) == ("t", "fenced")
    assert of_transaction.facts["group_id"] == "g"


def test_a_refusal_without_an_id_is_recorded_under_the_client() -> None:
    asked = call()
    error = KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    request = RenewDelegationTokenRequest(hmac=b"secret", renew_period_ms=1)
    report_refusal_of_request(asked, "RenewDelegationToken", error, request)
    (entry,) = asked.node.history.latest()
    assert (entry.client, entry.group, entry.kind) == (client_address(asked), None, "refused")
    assert "DELEGATION_TOKEN_NOT_FOUND" in entry.text
    assert "secret" not in repr(entry)


def test_a_refusal_without_an_id_and_an_address_is_not_recorded() -> None:
    asked = call("/")
    error = KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
    report_refusal_of_request(asked, "RenewDelegationToken", error, object())
    assert not asked.node.history.latest()


def test_an_explanation_is_recorded_unchanged() -> None:
    asked = call()
    error = KafkaError(
        ErrorCode.STALE_MEMBER_EPOCH,
        "commit of orders-3 at epoch 4 refused",
        {"rule": "assignment-epoch", "member_epoch": 5},
    )
    report_refusal(asked, "OffsetCommit", "g", error)
    (entry,) = asked.node.history.about("g")
    assert entry.text == "commit of orders-3 at epoch 4 refused"
    assert entry.facts["rule"] == "assignment-epoch"
    assert entry.facts["member_epoch"] == 5


def test_a_text_without_refused_gets_the_api_and_the_error() -> None:
    asked = call()
    error = KafkaError(ErrorCode.NON_EMPTY_GROUP, "has 1 member", {"rule": "empty-group"})
    report_refusal(asked, "DeleteShareGroupOffsets", "g", error)
    (entry,) = asked.node.history.about("g")
    assert entry.text == "DeleteShareGroupOffsets refused: has 1 member (NON_EMPTY_GROUP)"


def test_facts_without_a_rule_are_recorded_with_the_message() -> None:
    asked = call()
    error = KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "it is at epoch 2", {"member_epoch": 2})
    report_refusal(asked, "ConsumerGroupHeartbeat", "g", error)
    (entry,) = asked.node.history.about("g")
    assert entry.text == "ConsumerGroupHeartbeat refused: it is at epoch 2 (FENCED_MEMBER_EPOCH)"
    assert entry.facts["member_epoch"] == 2


def test_a_message_without_facts_is_recorded_with_its_error() -> None:
    asked = call()
    report_refusal(asked, "JoinGroup", "g", KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "is full"))
    (entry,) = asked.node.history.about("g")
    assert entry.text == "JoinGroup refused: is full (GROUP_MAX_SIZE_REACHED)"
