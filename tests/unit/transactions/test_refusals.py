"""Refusals name the broken rule in a text and in facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.unit.transactions.transaction_coordinator import A, ManualTransactionCoordinator

if TYPE_CHECKING:
    from collections.abc import Callable


def test_refusal_of_a_fenced_producer_has_both_epochs() -> None:
    coordinator = ManualTransactionCoordinator()
    zombie = coordinator.init()
    coordinator.init()
    with pytest.raises(KafkaError) as refusal:
        coordinator.add(zombie, A)
    assert refusal.value.code is ErrorCode.PRODUCER_FENCED
    assert refusal.value.message == (
        "transactional id x refused: producer 4000 is fenced at epoch 0, "
        "the current one is 4000 at epoch 1"
    )
    assert refusal.value.facts == {
        "rule": "producer-epoch",
        "producer_id": 4000,
        "producer_epoch": 0,
        "current_producer_id": 4000,
        "current_epoch": 1,
    }


def test_each_refusal_names_its_rule() -> None:
    coordinator = ManualTransactionCoordinator(writes_markers=False)
    producer = coordinator.init()
    requests: dict[str, Callable[[], object]] = {
        "no id": lambda: coordinator.add(producer, A, transactional_id=""),
        "unknown": lambda: coordinator.add(producer, A, transactional_id="y"),
        "other": lambda: coordinator.add(producer._replace(producer_id=1), A),
        "state": lambda: coordinator.end(producer),
        "timeout": lambda: coordinator.init(timeout_ms=0),
    }
    rules = {}
    for name, request in requests.items():
        with pytest.raises(KafkaError) as refusal:
            request()
        assert refusal.value.facts is not None
        assert refusal.value.message is not None
        assert "refused" in refusal.value.message
        rules[name] = refusal.value.facts["rule"]
    assert rules == {
        "no id": "no-id",
        "unknown": "unknown-id",
        "other": "producer-id",
        "state": "state",
        "timeout": "timeout",
    }
