"""Refusals of a group's requests, as they are kept for whoever asks why."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from kafkalite.apis.context import RequestContext
from kafkalite.apis.refusals import note_refusal, note_refusals
from kafkalite.coordinator.contract import SubjectKind
from kafkalite.coordinator.journal import Journal
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol.messages.end_txn import EndTxnRequest
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from kafkalite.apis.context import Services


def context() -> RequestContext:
    services = SimpleNamespace(journal=Journal(), clock=ManualClock(5_000))
    made = RequestContext(
        services=cast("Services", services),
        node_id=1,
        listener="PLAINTEXT",
        client_host="/127.0.0.1",
    )
    made.client_id = "shop"
    return made


def test_a_refusal_tells_who_asked_what_and_which_error_it_was() -> None:
    asked = context()
    request = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    note_refusal(asked, "Heartbeat", "g", KafkaError(ErrorCode.ILLEGAL_GENERATION), request)
    (entry,) = asked.services.journal.about("g")
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


def test_a_fenced_producer_is_told_as_such_under_its_transactional_id() -> None:
    asked = context()
    request = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=2, committed=True)
    note_refusals(asked, "EndTxn", KafkaError(ErrorCode.PRODUCER_FENCED), request)
    journal = asked.services.journal
    (entry,) = journal.about("t", of=SubjectKind.TRANSACTIONAL_ID)
    assert (entry.kind, entry.group, entry.transactional_id) == ("fenced", None, "t")
    assert entry.facts["producer_id"] == 7
    assert entry.facts["producer_epoch"] == 2
    assert "transactional_id" not in entry.facts
    assert journal.names(SubjectKind.GROUP) == []


def test_what_names_a_group_and_a_transactional_id_is_told_of_both() -> None:
    asked = context()
    request = AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=7, producer_epoch=2, group_id="g"
    )
    note_refusals(asked, "AddOffsetsToTxn", KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH), request)
    of_group, of_transaction = asked.services.journal.latest()
    assert (of_group.group, of_group.kind) == ("g", "refused")
    assert of_group.facts["transactional_id"] == "t"
    assert (of_transaction.transactional_id, of_transaction.kind) == ("t", "fenced")
    assert of_transaction.facts["group_id"] == "g"


def test_an_explanation_is_kept_as_it_is() -> None:
    asked = context()
    error = KafkaError(
        ErrorCode.STALE_MEMBER_EPOCH,
        "commit of orders-3 at epoch 4 refused",
        {"rule": "assignment-epoch", "member_epoch": 5},
    )
    note_refusal(asked, "OffsetCommit", "g", error)
    (entry,) = asked.services.journal.about("g")
    assert entry.text == "commit of orders-3 at epoch 4 refused"
    assert entry.facts["rule"] == "assignment-epoch"
    assert entry.facts["member_epoch"] == 5


def test_what_does_not_say_that_it_refuses_is_told_with_the_request_and_its_error() -> None:
    asked = context()
    error = KafkaError(ErrorCode.NON_EMPTY_GROUP, "has 1 member", {"rule": "empty-group"})
    note_refusal(asked, "DeleteShareGroupOffsets", "g", error)
    (entry,) = asked.services.journal.about("g")
    assert entry.text == "DeleteShareGroupOffsets refused: has 1 member (NON_EMPTY_GROUP)"


def test_facts_that_name_no_rule_come_beside_the_message() -> None:
    asked = context()
    error = KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "it is at epoch 2", {"member_epoch": 2})
    note_refusal(asked, "ConsumerGroupHeartbeat", "g", error)
    (entry,) = asked.services.journal.about("g")
    assert entry.text == "ConsumerGroupHeartbeat refused: it is at epoch 2 (FENCED_MEMBER_EPOCH)"
    assert entry.facts["member_epoch"] == 2


def test_a_message_without_facts_is_told_with_its_error() -> None:
    asked = context()
    note_refusal(asked, "JoinGroup", "g", KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, "is full"))
    (entry,) = asked.services.journal.about("g")
    assert entry.text == "JoinGroup refused: is full (GROUP_MAX_SIZE_REACHED)"
