"""A producer takes over a transactional id: as a new one, after an error, or in vain."""

from __future__ import annotations

from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.transactions.transaction_world import TransactionWorld, refusal_of


def test_each_new_producer_has_the_next_epoch() -> None:
    world = TransactionWorld()
    first = world.init()
    second = world.init()
    assert second == first._replace(producer_epoch=1)


def test_a_producer_goes_on_after_an_error_and_may_ask_twice() -> None:
    world = TransactionWorld()
    first = world.init()
    second = world.init(first)
    assert second.producer_epoch == 1
    assert world.init(first) == second
    # Nobody else may come between.
    world.init()
    assert refusal_of(lambda: world.init(first)) is ErrorCode.PRODUCER_FENCED
    assert refusal_of(lambda: world.init(second)) is ErrorCode.PRODUCER_FENCED
