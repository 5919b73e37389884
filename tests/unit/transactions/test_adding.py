"""Partitions join a transaction, or are looked up in it."""

from __future__ import annotations

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.state import TransactionState
from tests.unit.transactions.transaction_world import A, B, TransactionWorld, refusal_of


def test_the_first_partition_begins_the_transaction() -> None:
    world = TransactionWorld()
    producer = world.init()
    world.clock.advance(100)
    started_ms = world.clock.now_ms()
    world.add(producer, A)
    world.clock.advance(100)
    world.add(producer, B)
    now = world.now()
    assert (now.state, now.partitions) == (TransactionState.ONGOING, frozenset([A, B]))
    assert (now.start_timestamp_ms, now.last_update_timestamp_ms) == (started_ms, started_ms + 100)


def test_what_is_in_it_already_is_not_written_again() -> None:
    world = TransactionWorld()
    producer = world.init()
    world.add(producer, A, B)
    length = len(world.log.entries)
    world.add(producer, B)
    assert len(world.log.entries) == length


def test_a_partition_that_has_not_joined_must_not_be_written_to() -> None:
    world = TransactionWorld()
    producer = world.init()
    assert world.verify(producer, A) == [ErrorCode.TRANSACTION_ABORTABLE]
    world.add(producer, A)
    assert world.verify(producer, B, A) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
    world.end(producer)
    assert refusal_of(lambda: world.verify(producer, A)) is ErrorCode.PRODUCER_FENCED
