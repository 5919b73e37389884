"""Gathering: each shard's records in one batch, or a refusal and nothing left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.coordinator.gathering import Gathering
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Sequence

Record = CoordinatorRecord[object, object]
A, B, C = (CoordinatorRecord[object, object](key, "value") for key in "abc")


class Shard:
    """Takes records, unless it is told not to."""

    def __init__(self, refusal: KafkaError | None = None) -> None:
        self.batches: list[list[Record]] = []
        self.refusal = refusal

    def append(self, records: Sequence[Record]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.batches.append(list(records))


def test_each_shard_gets_one_batch_in_the_order_of_its_records() -> None:
    gathering, first, second = Gathering(), Shard(), Shard()
    for shard, record in ((first, A), (second, B), (first, C)):
        gathering.add(shard, [record])
    assert first.batches == []
    gathering.settle()
    gathering.settle()
    assert (first.batches, second.batches) == ([[A, C]], [[B]])


def test_nothing_is_left_of_what_was_refused() -> None:
    gathering, last = Gathering(), Shard()
    failing = Shard(KafkaError(ErrorCode.NOT_COORDINATOR))
    gathering.add(failing, [A])
    gathering.add(last, [B])
    with pytest.raises(KafkaError):
        gathering.settle()
    failing.refusal = None
    gathering.settle()
    assert failing.batches == last.batches == []
