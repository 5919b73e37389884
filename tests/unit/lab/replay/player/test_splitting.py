"""Layouts of requests and responses, from the catalogue."""

from __future__ import annotations

from kafkalite.lab.replay.comparison.refusals import RETRIABLE_ERRORS, SECRET_APIS
from kafkalite.lab.replay.player.splitting import (
    PARTLY_RETRIABLE_APIS,
    REQUEST_LAYOUTS,
    SESSION_APIS,
    LeaderKind,
    RequestLayout,
)
from kafkalite.protocol.api_keys import ApiKey


def test_layouts_of_partitions() -> None:
    assert REQUEST_LAYOUTS[ApiKey.PRODUCE] == RequestLayout(
        LeaderKind.PARTITION, "", "topic_data", "partition_data", "responses", "partition_responses"
    )
    assert REQUEST_LAYOUTS[ApiKey.LIST_OFFSETS] == RequestLayout(
        LeaderKind.PARTITION, "", "topics", "partitions", "topics"
    )
    assert REQUEST_LAYOUTS[ApiKey.DESCRIBE_PRODUCERS] == RequestLayout(
        LeaderKind.PARTITION, "", "topics", "partition_indexes", "topics"
    )
    assert REQUEST_LAYOUTS[ApiKey.WRITE_TXN_MARKERS] == RequestLayout(
        LeaderKind.PARTITION, "", "topics", "partition_indexes", outer_rows="markers"
    )


def test_layouts_of_groups() -> None:
    assert REQUEST_LAYOUTS[ApiKey.HEARTBEAT] == RequestLayout(LeaderKind.GROUP, "group_id")
    assert REQUEST_LAYOUTS[ApiKey.DELETE_GROUPS] == RequestLayout(
        LeaderKind.GROUP, "", "groups_names", "", "results"
    )
    assert REQUEST_LAYOUTS[ApiKey.OFFSET_FETCH] == RequestLayout(
        LeaderKind.GROUP, "group_id", "groups", "", "groups"
    )


def test_layouts_of_transactional_ids() -> None:
    assert REQUEST_LAYOUTS[ApiKey.END_TXN] == RequestLayout(
        LeaderKind.TRANSACTION, "transactional_id"
    )
    assert REQUEST_LAYOUTS[ApiKey.ADD_PARTITIONS_TO_TXN] == RequestLayout(
        LeaderKind.TRANSACTION,
        "v3_and_below_transactional_id",
        "transactions",
        "",
        "results_by_transaction",
    )
    assert REQUEST_LAYOUTS[ApiKey.DESCRIBE_TRANSACTIONS] == RequestLayout(
        LeaderKind.TRANSACTION, "", "transactional_ids", "", "transaction_states"
    )


def test_other_apis_have_no_layout() -> None:
    assert not {ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.LIST_GROUPS} & REQUEST_LAYOUTS.keys()


def test_requests_in_sessions_are_not_divisible() -> None:
    assert {ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE} == SESSION_APIS
    assert not PARTLY_RETRIABLE_APIS & SESSION_APIS
    assert not PARTLY_RETRIABLE_APIS & {ApiKey.HEARTBEAT, ApiKey.WRITE_TXN_MARKERS}
    assert {ApiKey.PRODUCE, ApiKey.OFFSET_FETCH} < PARTLY_RETRIABLE_APIS


def test_retriable_errors_are_known_for_retried_changes_only() -> None:
    assert ApiKey.OFFSET_COMMIT in RETRIABLE_ERRORS
    assert (
        not {ApiKey.OFFSET_FETCH, ApiKey.CREATE_TOPICS, ApiKey.SHARE_FETCH}
        & RETRIABLE_ERRORS.keys()
    )
    assert {
        ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE,
        ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN,
    } == SECRET_APIS  # fmt: skip
