"""The record of a transactional id says all there is to say of it, in two versions."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue
from kafkalite.transactions.records import (
    transaction_of,
    transaction_record,
    transaction_tombstone,
    written_version,
)
from kafkalite.transactions.state import Transaction, TransactionState

WHOLE = Transaction(
    "x",
    7,
    3,
    60_000,
    TransactionState.PREPARE_COMMIT,
    frozenset([("u", 1), ("t", 4), ("t", 2)]),
    1_000,
    2_000,
    7,
    8,
    2,
)


def read_back(transaction: Transaction, version: int) -> Transaction:
    serde = CoordinatorSerde(lambda _: version, "transaction")
    record = serde.decode(*serde.encode(transaction_record(transaction)))
    assert record is not None
    assert isinstance(record.key, TransactionLogKey)
    assert isinstance(record.value, TransactionLogValue)
    return transaction_of(record.key.transactional_id, record.value)


def test_the_newer_version_holds_everything() -> None:
    assert read_back(WHOLE, 1) == WHOLE


def test_the_older_version_does_without_what_came_later() -> None:
    older = WHOLE._replace(
        previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0
    )
    assert read_back(WHOLE, 0) == older


def test_partitions_are_written_in_order_and_left_out_where_there_cannot_be_any() -> None:
    value = transaction_record(WHOLE).value
    assert isinstance(value, TransactionLogValue)
    assert value.transaction_partitions is not None
    assert [(each.topic, each.partition_ids) for each in value.transaction_partitions] == [
        ("t", [2, 4]),
        ("u", [1]),
    ]
    empty = WHOLE._replace(state=TransactionState.EMPTY, partitions=frozenset())
    value = transaction_record(empty).value
    assert isinstance(value, TransactionLogValue)
    assert value.transaction_partitions is None
    assert read_back(empty, 1) == empty


def test_a_tombstone_names_the_id_alone() -> None:
    record = transaction_tombstone("x")
    assert isinstance(record.key, TransactionLogKey)
    assert (record.key.transactional_id, record.value) == ("x", None)


def test_values_are_as_new_as_the_cluster() -> None:
    assert [written_version(level) for level in (0, 1, 2)] == [0, 1, 1]


def test_a_state_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="99"):
        transaction_of("x", TransactionLogValue(transaction_status=99))
