"""ClassicState: where a classic group stands in its rebalance."""

from __future__ import annotations

from enum import Enum


class ClassicState(Enum):
    """The states, by the names that clients see.

    Kafka has a fifth, Dead, for groups whose coordinator is moving away; here they are simply
    gone by then, and whoever waits is sent to look for another coordinator.
    """

    EMPTY = "Empty"
    """No members; offsets may be left."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """Collecting JoinGroup requests."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """Waiting for the leader's assignment."""
    STABLE = "Stable"


COMES_FROM = {
    ClassicState.EMPTY: frozenset((ClassicState.PREPARING_REBALANCE,)),
    ClassicState.PREPARING_REBALANCE: frozenset(
        (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY)
    ),
    ClassicState.COMPLETING_REBALANCE: frozenset((ClassicState.PREPARING_REBALANCE,)),
    ClassicState.STABLE: frozenset((ClassicState.COMPLETING_REBALANCE,)),
}
"""state → the states it may follow."""
