"""Failures: where Kafka can really return each error."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.active_shard import APPEND_ERRORS
from kafkalite.gateway.true_errors import HANDLED_DESPITE, TRUE_ERRORS
from kafkalite.lab.sweep.failures import FAILURES, MOMENTARY, CaseContext
from kafkalite.lab.sweep.requests import SeenRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.possible_errors import possible_errors
from tests.unit.lab.sweep.seen import CONTEXT, ORDERS, of_member, produce


def failures_of(request: SeenRequest, context: CaseContext = CONTEXT) -> set[str]:
    return {each.name for each in FAILURES.values() if each.applies(request, context)}


def test_every_error_is_made_true_or_holds_for_a_moment() -> None:
    codes = {ErrorCode[name] for each in FAILURES.values() if (name := each.action.get("error"))}
    assert codes <= {*TRUE_ERRORS, *MOMENTARY}
    assert {*HANDLED_DESPITE} <= MOMENTARY


def test_a_leader_moves_only_to_another_replica_in_sync() -> None:
    assert "NOT_LEADER_OR_FOLLOWER" in failures_of(produce())
    alone = CaseContext(nodes=3, in_sync={ORDERS: 1})
    assert not failures_of(produce(), alone) & {"NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS"}


def test_replicas_count_only_for_a_producer_that_waits_for_them() -> None:
    assert "NOT_ENOUGH_REPLICAS" not in failures_of(produce(acks=1))


def test_a_coordinator_moves_only_to_another_node() -> None:
    commit = of_member(ApiKey.OFFSET_COMMIT)
    assert "NOT_COORDINATOR" in failures_of(commit)
    assert "NOT_COORDINATOR" not in failures_of(commit, CaseContext(nodes=1))
    assert "COORDINATOR_LOAD_IN_PROGRESS" in failures_of(commit, CaseContext(nodes=1))


def test_a_commit_without_a_member_gets_no_error_about_members() -> None:
    commit = SeenRequest(api_key=ApiKey.OFFSET_COMMIT, client_id="", groups=("shop",))
    found = failures_of(commit)
    assert not found & {"UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "session-expired"}
    assert "UNKNOWN_MEMBER_ID" in failures_of(of_member(ApiKey.OFFSET_COMMIT))


def test_a_commit_is_accepted_while_members_join() -> None:
    assert "REBALANCE_IN_PROGRESS" in failures_of(of_member(ApiKey.HEARTBEAT))
    assert "REBALANCE_IN_PROGRESS" not in failures_of(of_member(ApiKey.OFFSET_COMMIT))


def test_the_protocol_of_a_group_decides_which_epochs_are_refused() -> None:
    commit = of_member(ApiKey.OFFSET_COMMIT)
    modern = CaseContext(nodes=3, modern_groups=frozenset({"shop"}))
    assert "ILLEGAL_GENERATION" in failures_of(commit)
    assert "STALE_MEMBER_EPOCH" in failures_of(commit, modern)
    assert "ILLEGAL_GENERATION" not in failures_of(commit, modern)


def test_a_member_that_joins_is_not_unknown() -> None:
    joining = of_member(ApiKey.CONSUMER_GROUP_HEARTBEAT, epoch=0)
    assert "UNKNOWN_MEMBER_ID" not in failures_of(joining)


@pytest.mark.parametrize("name", ["PRODUCER_FENCED", "transaction-expired"])
def test_only_producers_with_a_transactional_id_are_fenced(name: str) -> None:
    request = SeenRequest(api_key=ApiKey.END_TXN, client_id="", transactional_ids=("pay",))
    assert name in failures_of(request)
    assert name not in failures_of(produce())
    assert FAILURES[name].is_fatal


def test_only_the_request_after_an_end_meets_unwritten_markers() -> None:
    def fails(key: ApiKey, *, follows_end: bool) -> bool:
        request = SeenRequest(
            api_key=key, client_id="", transactional_ids=("pay",), follows_end=follows_end
        )
        return "CONCURRENT_TRANSACTIONS" in failures_of(request)

    begins = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID)
    assert all(fails(key, follows_end=True) for key in begins)
    assert not any(fails(key, follows_end=False) for key in begins)
    assert not fails(ApiKey.END_TXN, follows_end=True)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (ApiKey.PRODUCE, ErrorCode.KAFKA_STORAGE_ERROR),
        (ApiKey.OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR),
        (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_full_disk_gives_an_error_that_kafka_returns(key: ApiKey, code: ErrorCode) -> None:
    request = SeenRequest(api_key=key, client_id="", partitions=(ORDERS,), groups=("shop",))
    assert "disk-full" in failures_of(request)
    assert code in possible_errors(key)
    if code is ErrorCode.NOT_COORDINATOR:
        assert APPEND_ERRORS[ErrorCode.KAFKA_STORAGE_ERROR] is code


def test_a_request_that_changes_nothing_is_not_late_or_repeated() -> None:
    metadata = SeenRequest(api_key=ApiKey.METADATA, client_id="")
    assert failures_of(metadata) == {"request-lost", "killed-before", "stalled"}


def test_a_late_join_is_no_failure() -> None:
    assert "late" not in failures_of(of_member(ApiKey.JOIN_GROUP))
