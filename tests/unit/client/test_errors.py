"""Exceptions of producer and consumer: their texts name partitions and reasons."""

from __future__ import annotations

from kafkalite.client.epochs import OffsetAndEpochs
from kafkalite.client.errors import (
    BrokerError,
    ClientError,
    InvalidPartitionEpochError,
    LogTruncationError,
    NoOffsetError,
    OffsetOutOfRangeError,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.client.scripted_client import AUDIT, ORDERS


def test_each_text_names_the_partitions_and_the_reason() -> None:
    errors: list[ClientError] = [
        BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "orders-0"),
        NoOffsetError(frozenset((ORDERS, AUDIT))),
        OffsetOutOfRangeError({ORDERS: 7, AUDIT: 8}),
        InvalidPartitionEpochError({ORDERS: 3}),
        LogTruncationError({ORDERS: OffsetAndEpochs(3, 0), AUDIT: None}),
    ]
    assert [str(error) for error in errors] == [
        "orders-0: This server does not host this topic-partition. (UNKNOWN_TOPIC_OR_PARTITION)",
        "no committed offset: audit-0, orders-0; call seek, or set auto_offset_reset",
        "offsets out of range: audit-0 8, orders-0 7",
        "the topic of an offset was deleted and created again: orders-0 partition epoch 3",
        "the log was truncated: audit-0 the offset is unknown, orders-0 from offset 3 on",
    ]
