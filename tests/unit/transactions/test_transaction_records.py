"""The record of a transactional id has its complete state, in two versions."""

from __future__ import annotations

import pytest

from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
)
from kafkalite.transactions.state import Transaction, TransactionState
from kafkalite.transactions.transaction_records import (
    TransactionSerde,
    transaction_record,
    transaction_tombstone,
    value_of,
    written_version,
)

SERDE = TransactionSerde(lambda: 1)
PREPARED = Transaction(
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
    serde = TransactionSerde(lambda: version)
    record = serde.decode(*serde.encode(transaction_record(transaction)))
    assert record is not None
    assert record.key == transaction.transactional_id
    assert isinstance(record.value, Transaction)
    return record.value


def test_version_1_has_everything_except_the_previous_epoch() -> None:
    assert read_back(PREPARED._replace(last_producer_epoch=2), 1) == PREPARED


def test_version_0_omits_newer_fields() -> None:
    older = PREPARED._replace(
        previous_producer_id=-1, next_producer_id=-1, client_transaction_version=0
    )
    assert read_back(PREPARED, 0) == older


def test_partitions_are_written_in_order_and_omitted_in_empty_states() -> None:
    value = value_of(PREPARED)
    assert value.transaction_partitions is not None
    assert [(each.topic, each.partition_ids) for each in value.transaction_partitions] == [
        ("t", [2, 4]),
        ("u", [1]),
    ]
    empty = PREPARED._replace(state=TransactionState.EMPTY, partitions=frozenset())
    assert value_of(empty).transaction_partitions is None
    assert read_back(empty, 1) == empty


def test_tombstone_has_only_the_id() -> None:
    key, value = SERDE.encode(transaction_tombstone("x"))
    assert (key, value) == (codec.encode_key(TransactionLogKey(transactional_id="x")), None)
    assert SERDE.decode(key, value) == transaction_tombstone("x")


def test_record_without_a_known_key_is_ignored() -> None:
    assert SERDE.decode(None, b"") is None
    assert SERDE.decode(b"\x7f\xff", b"") is None


def test_value_version_depends_on_the_transaction_version() -> None:
    assert [written_version(level) for level in (0, 1, 2)] == [0, 1, 1]


def test_unknown_state_is_refused() -> None:
    key, _ = SERDE.encode(transaction_tombstone("x"))
    value = codec.encode_value(TransactionLogValue(transaction_status=99), 1)
    with pytest.raises(ValueError, match="99"):
        SERDE.decode(key, value)
