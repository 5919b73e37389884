"""The first batch of a transaction, while the coordinator verifies the transaction."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage import transaction_verification
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_control_batch,
)
from kafkalite.storage.transaction_verification import Verifications
from tests.unit.storage.logs import batch


def view(sequence: int, *, epoch: int = 0, pid: int = 1) -> BatchView:
    return batch(b"v", producer=BatchProducer(pid, epoch, sequence), attributes=TRANSACTIONAL)


def marker(*, epoch: int = 0) -> BatchView:
    kind = ControlMarker(ControlKind.COMMIT, 0)
    return BatchView(build_control_batch(kind, producer_id=1, producer_epoch=epoch, now_ms=0))


def begun_verifications(*batches: BatchView, adds: bool = False) -> Verifications:
    verifications = Verifications()
    for number, one in enumerate(batches):
        verifications.begin(one, adds_partitions=adds, now_ms=number)
    return verifications


def is_accepted(verifications: Verifications, one: BatchView, *, has_batches: bool = True) -> bool:
    code = None
    try:
        verifications.check(one, has_batches=has_batches)
    except KafkaError as error:
        code = error.code
    assert code in (None, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    return code is None


def test_producer_without_verification_may_send_any_sequence() -> None:
    assert is_accepted(Verifications(), view(7))
    assert is_accepted(begun_verifications(view(3)), view(7, pid=2))


def test_lowest_verified_sequence_must_come_first() -> None:
    verifications = begun_verifications(view(7), view(3), view(9))
    assert not is_accepted(verifications, view(4))
    assert is_accepted(verifications, view(3))
    assert is_accepted(verifications, view(2))


def test_a_new_epoch_starts_over_and_an_old_one_changes_nothing() -> None:
    verifications = begun_verifications(view(3), view(5, epoch=1), view(0, epoch=0))
    assert is_accepted(verifications, view(5, epoch=1))
    assert not is_accepted(verifications, view(6, epoch=1))


@pytest.mark.parametrize(("has_batches", "expected"), [(True, True), (False, False)])
def test_a_producer_that_adds_partitions_begins_at_zero(
    has_batches: bool,  # noqa: FBT001
    expected: bool,  # noqa: FBT001
) -> None:
    verifications = begun_verifications(view(3), adds=True)
    assert is_accepted(verifications, view(3), has_batches=has_batches) is expected
    assert is_accepted(begun_verifications(view(0), adds=True), view(0), has_batches=has_batches)
    assert is_accepted(begun_verifications(view(3)), view(3), has_batches=has_batches)


def test_appended_batch_ends_the_verification() -> None:
    verifications = begun_verifications(view(3))
    verifications.complete(view(0, pid=2))
    assert len(verifications.pending) == 1
    verifications.complete(view(3))
    assert len(verifications.pending) == 0


@pytest.mark.parametrize(
    ("adds", "epoch", "expected_count"), [(False, 0, 0), (True, 0, 1), (True, 1, 0), (False, 1, 0)]
)
def test_marker_of_the_previous_transaction_does_not_end_the_verification(
    adds: bool,  # noqa: FBT001
    epoch: int,
    expected_count: int,
) -> None:
    verifications = begun_verifications(view(0), adds=adds)
    verifications.complete(marker(epoch=epoch))
    assert len(verifications.pending) == expected_count


def test_unused_verifications_expire() -> None:
    verifications = begun_verifications(view(0), view(0, pid=2))
    verifications.expire(100, 100)
    assert len(verifications.pending) == 1
    assert is_accepted(verifications, view(5))
    assert not is_accepted(verifications, view(5, pid=2))


def test_number_of_verifications_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_verification, "MAX_VERIFICATIONS", 2)
    verifications = begun_verifications(view(0), view(0, pid=2), view(0, pid=3))
    assert len(verifications.pending) == 2
    assert is_accepted(verifications, view(5))
