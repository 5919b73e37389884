"""States of transactional ids from a capture of the Java client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.file_console import transaction_states
from kafkalite.lab.file_console.transaction_states import TransactionStates

if TYPE_CHECKING:
    import pytest

    from kafkalite.lab.file_console.capture_index import CaptureIndex


def test_the_states_of_a_transactional_id_are_found(transactions: CaptureIndex) -> None:
    states = {each.name: each for each in transactions.transactions}
    assert states
    found = {moment.state for each in states.values() for moment in each.moments}
    assert found == {"Empty", "Ongoing", "CompleteCommit", "CompleteAbort"}
    for each in states.values():
        assert [moment.at_ms for moment in each.moments] == sorted(
            moment.at_ms for moment in each.moments
        )
        assert "initialized" in {entry.kind for entry in each.entries}
        assert each.answer(0).transactional_id == each.name
    assert transactions.transactions.find("none") is None


def test_a_fenced_producer_is_an_event(transactions: CaptureIndex) -> None:
    entries = [entry for each in transactions.transactions for entry in each.entries]
    fenced = [each for each in entries if each.kind == "fenced"]
    assert fenced
    assert all("refused: " in each.text for each in fenced)
    assert {each.facts["error"] for each in fenced} <= {
        "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED",
    }  # fmt: skip


def test_the_number_of_ids_is_limited(
    transactions: CaptureIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_states, "MAX_IDS", 1)
    states = TransactionStates()
    for number in range(1, len(transactions) + 1):
        states.add(transactions.observation(number), transactions.topic_names)
    assert len(states) == 1
    assert len(transactions.transactions) > 1
