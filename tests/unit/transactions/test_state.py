"""States of a transactional id: their numbers on disk, and their names in the protocol."""

from __future__ import annotations

from kafkalite.transactions.state import TransactionState


def test_states_are_numbered_and_named_as_in_kafka() -> None:
    assert {state.value: state.label for state in TransactionState} == {
        0: "Empty",
        1: "Ongoing",
        2: "PrepareCommit",
        3: "PrepareAbort",
        4: "CompleteCommit",
        5: "CompleteAbort",
        6: "Dead",
        7: "PrepareEpochFence",
    }
    assert [str(state) for state in TransactionState] == [s.label for s in TransactionState]
