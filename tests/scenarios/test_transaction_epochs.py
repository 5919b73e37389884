"""The last epochs of a producer's id: how it is used up, and how its producer goes on with another.

An epoch has sixteen bits. The greatest is never given out: it is for the markers by which the last
transaction ends. With transaction version 2 an end brings the next id with it, before that the next
InitProducerId does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.state import GREATEST_EPOCH, LAST_PRODUCER_EPOCH, Producer
from tests.unit.transactions.transaction_world import A, B, TransactionWorld, refusal_of

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, FRESH = 4_000, 5_000
LAST = Producer(OLD, LAST_PRODUCER_EPOCH)
SUCCESSOR = Producer(FRESH, 0)


def worn(epoch: int = LAST_PRODUCER_EPOCH, *, level: int = 2) -> TransactionWorld:
    """Return a world in which an id has come to this epoch; the next fresh id is FRESH."""
    world = TransactionWorld(level=level)
    world.seed(producer_epoch=epoch, next_producer_id=FRESH)
    return world


def has_not_changed(world: TransactionWorld, ask: Callable[[], object]) -> ErrorCode:
    """Return what is refused, having seen that it left no trace."""
    before, entries = world.now(), len(world.log.entries)
    code = refusal_of(ask)
    assert (world.now(), len(world.log.entries)) == (before, entries)
    return code


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_at_the_last_epoch_brings_a_fresh_id(*, is_commit: bool) -> None:
    world = worn(LAST_PRODUCER_EPOCH - 1)
    world.add(Producer(OLD, LAST_PRODUCER_EPOCH - 1), A)
    assert world.end(Producer(OLD, LAST_PRODUCER_EPOCH - 1)) == LAST
    world.writes_markers = False
    world.add(LAST, A)
    assert world.end(LAST, is_commit=is_commit) == SUCCESSOR
    prepared = world.now()
    assert prepared.producer == (OLD, GREATEST_EPOCH)
    assert prepared.next_producer_id == FRESH
    (markers,) = world.markers
    assert (markers.producer_id, markers.producer_epoch) == (OLD, GREATEST_EPOCH)
    # While markers are pending both of them wait.
    for producer in (LAST, SUCCESSOR):
        assert refusal_of(lambda: world.add(producer, A)) is ErrorCode.CONCURRENT_TRANSACTIONS  # noqa: B023 - called at once
        assert refusal_of(lambda: world.end(producer)) is ErrorCode.CONCURRENT_TRANSACTIONS  # noqa: B023 - same
    world.write_markers()
    over = world.now()
    assert over.producer == SUCCESSOR
    assert (over.previous_producer_id, over.next_producer_id) == (OLD, -1)
    # Whoever did not hear the answer may ask again, for the same end.
    assert world.end(LAST, is_commit=is_commit) == SUCCESSOR
    assert (
        has_not_changed(world, lambda: world.end(LAST, is_commit=not is_commit))
        is ErrorCode.INVALID_TXN_STATE
    )
    older = Producer(OLD, LAST_PRODUCER_EPOCH - 1)
    assert refusal_of(lambda: world.end(older)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    world.add(SUCCESSOR, B)
    assert refusal_of(lambda: world.end(LAST)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end(SUCCESSOR) == (FRESH, 1)


def test_a_fresh_id_is_kept_by_the_log_while_markers_are_pending() -> None:
    world = worn()
    world.writes_markers = False
    world.add(LAST, A)
    world.end(LAST)
    later = world.restarted(writes_markers=True)
    assert later.now().producer == SUCCESSOR
    assert later.end(LAST) == SUCCESSOR


def test_a_newcomer_fences_at_the_last_epoch() -> None:
    world = worn()
    world.add(LAST, A)
    assert refusal_of(world.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.now().producer == SUCCESSOR
    assert world.init() == (FRESH, 1)
    assert refusal_of(lambda: world.init(LAST)) is ErrorCode.PRODUCER_FENCED
    assert refusal_of(lambda: world.add(LAST, A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_newcomer_fences_at_the_last_epoch_before_version_2() -> None:
    world = worn(level=1)
    world.add(LAST, A, version=0)
    assert refusal_of(world.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.now().producer == (OLD, GREATEST_EPOCH)
    assert world.init() == SUCCESSOR
    assert world.now().previous_producer_id == OLD


def test_before_version_2_an_end_leaves_the_last_epoch_as_it_is() -> None:
    world = worn(level=1)
    for is_commit in (True, False):
        world.add(LAST, A, version=0)
        world.end(LAST, is_commit=is_commit, version=0)
        assert world.now().producer == LAST


@pytest.mark.parametrize("epoch", [LAST_PRODUCER_EPOCH, GREATEST_EPOCH])
def test_init_producer_id_gives_a_fresh_id(epoch: int) -> None:
    world = worn(epoch)
    assert world.init() == SUCCESSOR
    # Without having been named, the one before is nobody any more.
    assert refusal_of(lambda: world.init(Producer(OLD, epoch))) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("epoch", [LAST_PRODUCER_EPOCH, GREATEST_EPOCH])
def test_a_producer_that_goes_on_may_ask_twice_for_its_fresh_id(epoch: int) -> None:
    world = worn(epoch)
    assert world.init(Producer(OLD, epoch)) == SUCCESSOR
    assert world.init(Producer(OLD, epoch)) == SUCCESSOR
    earlier = Producer(OLD, LAST_PRODUCER_EPOCH - 1)
    assert refusal_of(lambda: world.init(earlier)) is ErrorCode.PRODUCER_FENCED
    world.init()
    assert refusal_of(lambda: world.init(Producer(OLD, epoch))) is ErrorCode.PRODUCER_FENCED


def test_another_epoch_of_an_id_that_is_used_up_is_more_than_kafka_expects() -> None:
    world = worn()
    earlier = Producer(OLD, LAST_PRODUCER_EPOCH - 1)
    assert has_not_changed(world, lambda: world.init(earlier)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert next(world.producer_ids) == FRESH, "an id was drawn in vain"


def test_of_the_greatest_epoch_a_transaction_can_only_be_aborted() -> None:
    world = worn(GREATEST_EPOCH)
    beyond = Producer(OLD, GREATEST_EPOCH)
    world.add(beyond, A)
    assert has_not_changed(world, lambda: world.end(beyond)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.end(beyond, is_commit=False) == SUCCESSOR
    assert [each.producer_epoch for each in world.written] == [GREATEST_EPOCH]


def test_a_newcomer_cannot_go_beyond_the_greatest_epoch() -> None:
    world = worn(GREATEST_EPOCH, level=1)
    world.add(Producer(OLD, GREATEST_EPOCH), A, version=0)
    assert refusal_of(world.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [each.producer_epoch for each in world.written] == [GREATEST_EPOCH]
    assert world.init() == SUCCESSOR


def test_where_there_is_no_fresh_id_nothing_changes() -> None:
    world = worn()
    world.no_producer_ids = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert has_not_changed(world, world.init) is loading
    assert has_not_changed(world, lambda: world.init(transactional_id="y")) is loading
    world.add(LAST, A)
    assert has_not_changed(world, lambda: world.end(LAST)) is loading
    assert has_not_changed(world, world.init) is loading
    assert [each.transactional_id for each in world.machine.transactions()] == ["x"]


def test_a_coordinator_that_was_loaded_anew_takes_a_repetition_for_a_zombie() -> None:
    world = TransactionWorld()
    first = world.init()
    second = world.init(first)
    assert world.init(first) == second
    later = world.restarted()
    assert refusal_of(lambda: later.init(first)) is ErrorCode.PRODUCER_FENCED
    assert later.init(second).producer_epoch == second.producer_epoch + 1
