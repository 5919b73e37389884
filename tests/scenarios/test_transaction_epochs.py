"""The last epochs of a producer id, and how its producer continues with a new id.

An epoch has sixteen bits. The largest one is never assigned to a producer: the markers that end the
last transaction have it. With transaction version 2, the response to EndTxn has the next id; in
earlier versions, the response to the next InitProducerId has it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.state import LAST_PRODUCER_EPOCH, MAX_PRODUCER_EPOCH, ProducerIdAndEpoch
from tests.unit.transactions.transaction_coordinator import (
    A,
    B,
    ManualTransactionCoordinator,
    error_code_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, FRESH = 4_000, 5_000
LAST = ProducerIdAndEpoch(OLD, LAST_PRODUCER_EPOCH)
SUCCESSOR = ProducerIdAndEpoch(FRESH, 0)


def worn(epoch: int = LAST_PRODUCER_EPOCH, *, level: int = 2) -> ManualTransactionCoordinator:
    """Return a coordinator in which an id has this epoch; the next new id is FRESH."""
    coordinator = ManualTransactionCoordinator(level=level)
    coordinator.seed(producer_epoch=epoch, next_producer_id=FRESH)
    return coordinator


def has_not_changed(
    coordinator: ManualTransactionCoordinator, ask: Callable[[], object]
) -> ErrorCode:
    """Return the error of a call that must change nothing."""
    before, entries = coordinator.describe(), len(coordinator.log.entries)
    code = error_code_of(ask)
    assert (coordinator.describe(), len(coordinator.log.entries)) == (before, entries)
    return code


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_at_the_last_epoch_returns_a_new_id(*, is_commit: bool) -> None:
    coordinator = worn(LAST_PRODUCER_EPOCH - 1)
    coordinator.add(ProducerIdAndEpoch(OLD, LAST_PRODUCER_EPOCH - 1), A)
    assert coordinator.end(ProducerIdAndEpoch(OLD, LAST_PRODUCER_EPOCH - 1)) == LAST
    coordinator.writes_markers = False
    coordinator.add(LAST, A)
    assert coordinator.end(LAST, is_commit=is_commit) == SUCCESSOR
    prepared = coordinator.describe()
    assert prepared.producer == (OLD, MAX_PRODUCER_EPOCH)
    assert prepared.next_producer_id == FRESH
    (markers,) = coordinator.markers
    assert (markers.producer_id, markers.producer_epoch) == (OLD, MAX_PRODUCER_EPOCH)
    # While markers are pending, both producers must retry.
    for producer in (LAST, SUCCESSOR):
        for ask in (partial(coordinator.add, producer, A), partial(coordinator.end, producer)):
            assert error_code_of(ask) is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.write_markers()
    over = coordinator.describe()
    assert over.producer == SUCCESSOR
    assert (over.previous_producer_id, over.next_producer_id) == (OLD, -1)
    # A client that lost the response may repeat the same end.
    assert coordinator.end(LAST, is_commit=is_commit) == SUCCESSOR
    assert (
        has_not_changed(coordinator, lambda: coordinator.end(LAST, is_commit=not is_commit))
        is ErrorCode.INVALID_TXN_STATE
    )
    older = ProducerIdAndEpoch(OLD, LAST_PRODUCER_EPOCH - 1)
    assert error_code_of(lambda: coordinator.end(older)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    coordinator.add(SUCCESSOR, B)
    assert error_code_of(lambda: coordinator.end(LAST)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinator.end(SUCCESSOR) == (FRESH, 1)


def test_a_new_id_is_stored_while_markers_are_pending() -> None:
    coordinator = worn()
    coordinator.writes_markers = False
    coordinator.add(LAST, A)
    coordinator.end(LAST)
    later = coordinator.restart(writes_markers=True)
    assert later.describe().producer == SUCCESSOR
    assert later.end(LAST) == SUCCESSOR


def test_a_new_producer_fences_at_the_last_epoch() -> None:
    coordinator = worn()
    coordinator.add(LAST, A)
    assert error_code_of(coordinator.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.describe().producer == SUCCESSOR
    assert coordinator.init() == (FRESH, 1)
    assert error_code_of(lambda: coordinator.init(LAST)) is ErrorCode.PRODUCER_FENCED
    assert error_code_of(lambda: coordinator.add(LAST, A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_new_producer_fences_at_the_last_epoch_before_version_2() -> None:
    coordinator = worn(level=1)
    coordinator.add(LAST, A, version=0)
    assert error_code_of(coordinator.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinator.describe().producer == (OLD, MAX_PRODUCER_EPOCH)
    assert coordinator.init() == SUCCESSOR
    assert coordinator.describe().previous_producer_id == OLD


def test_before_version_2_an_end_does_not_change_the_last_epoch() -> None:
    coordinator = worn(level=1)
    for is_commit in (True, False):
        coordinator.add(LAST, A, version=0)
        coordinator.end(LAST, is_commit=is_commit, version=0)
        assert coordinator.describe().producer == LAST


@pytest.mark.parametrize("epoch", [LAST_PRODUCER_EPOCH, MAX_PRODUCER_EPOCH])
def test_init_producer_id_returns_a_new_id(epoch: int) -> None:
    coordinator = worn(epoch)
    assert coordinator.init() == SUCCESSOR
    # Its predecessor is then unknown, even if the request did not name it.
    assert (
        error_code_of(lambda: coordinator.init(ProducerIdAndEpoch(OLD, epoch)))
        is ErrorCode.PRODUCER_FENCED
    )


@pytest.mark.parametrize("epoch", [LAST_PRODUCER_EPOCH, MAX_PRODUCER_EPOCH])
def test_a_continuing_producer_may_request_its_new_id_twice(epoch: int) -> None:
    coordinator = worn(epoch)
    assert coordinator.init(ProducerIdAndEpoch(OLD, epoch)) == SUCCESSOR
    assert coordinator.init(ProducerIdAndEpoch(OLD, epoch)) == SUCCESSOR
    earlier = ProducerIdAndEpoch(OLD, LAST_PRODUCER_EPOCH - 1)
    assert error_code_of(lambda: coordinator.init(earlier)) is ErrorCode.PRODUCER_FENCED
    coordinator.init()
    assert (
        error_code_of(lambda: coordinator.init(ProducerIdAndEpoch(OLD, epoch)))
        is ErrorCode.PRODUCER_FENCED
    )


def test_another_epoch_of_an_exhausted_id_is_an_internal_error_as_in_kafka() -> None:
    coordinator = worn()
    earlier = ProducerIdAndEpoch(OLD, LAST_PRODUCER_EPOCH - 1)
    assert (
        has_not_changed(coordinator, lambda: coordinator.init(earlier))
        is ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert next(coordinator.producer_ids) == FRESH, "an id was drawn and not used"


def test_a_transaction_at_the_greatest_epoch_can_only_be_aborted() -> None:
    coordinator = worn(MAX_PRODUCER_EPOCH)
    beyond = ProducerIdAndEpoch(OLD, MAX_PRODUCER_EPOCH)
    coordinator.add(beyond, A)
    assert (
        has_not_changed(coordinator, lambda: coordinator.end(beyond))
        is ErrorCode.UNKNOWN_SERVER_ERROR
    )
    assert coordinator.end(beyond, is_commit=False) == SUCCESSOR
    assert [each.producer_epoch for each in coordinator.written] == [MAX_PRODUCER_EPOCH]


def test_a_new_producer_cannot_exceed_the_greatest_epoch() -> None:
    coordinator = worn(MAX_PRODUCER_EPOCH, level=1)
    coordinator.add(ProducerIdAndEpoch(OLD, MAX_PRODUCER_EPOCH), A, version=0)
    assert error_code_of(coordinator.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [each.producer_epoch for each in coordinator.written] == [MAX_PRODUCER_EPOCH]
    assert coordinator.init() == SUCCESSOR


def test_without_a_new_id_nothing_changes() -> None:
    coordinator = worn()
    coordinator.no_producer_ids = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert has_not_changed(coordinator, coordinator.init) is loading
    assert has_not_changed(coordinator, lambda: coordinator.init(transactional_id="y")) is loading
    coordinator.add(LAST, A)
    assert has_not_changed(coordinator, lambda: coordinator.end(LAST)) is loading
    assert has_not_changed(coordinator, coordinator.init) is loading
    assert [each.transactional_id for each in coordinator.machine.transactions()] == ["x"]


def test_a_newly_loaded_coordinator_fences_a_repeated_request() -> None:
    coordinator = ManualTransactionCoordinator()
    first = coordinator.init()
    second = coordinator.init(first)
    assert coordinator.init(first) == second
    later = coordinator.restart()
    assert error_code_of(lambda: later.init(first)) is ErrorCode.PRODUCER_FENCED
    assert later.init(second).producer_epoch == second.producer_epoch + 1
