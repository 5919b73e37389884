"""Overtaking: what a target must have taken before it is sent the next request.

Who joins a group first, and who comes before a rebalance is over, decides what all members are
answered. A request that waits for its answer may still be on its way when the next one goes out on
another connection, and a broker reads its connections in an order of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkalite.replay.lanes import Pending

_CHANGE_GROUPS = frozenset((11, 13, 14, 68, 76, 88))
"""JoinGroup, LeaveGroup, SyncGroup, and the heartbeats of members of groups of other types."""
_MEET_CHANGES = _CHANGE_GROUPS | {8, 9, 12, 15, 28, 42, 47, 69, 77, 89}
"""And those that are answered otherwise afterwards."""


class Overtaking:
    """Keeps which requests a node of the target may not have taken yet."""

    def __init__(self) -> None:
        self._unseen: dict[int, dict[int, Pending]] = {}
        """By node and recorded connection: the last request on it that changes a group."""

    def is_possible(self, api_key: int, node: int, connection: int) -> bool:
        """Whether what goes out next may be taken before what it has to come after."""
        unseen = self._unseen.get(node)
        if not unseen or api_key not in _MEET_CHANGES:
            return False
        waiting = {number: each for number, each in unseen.items() if not each.is_over}
        self._unseen[node] = waiting
        return any(number != connection for number in waiting)

    def sent(self, api_key: int, node: int, connection: int, pending: Pending) -> None:
        """Take that a request goes out."""
        if api_key in _CHANGE_GROUPS:
            self._unseen.setdefault(node, {})[connection] = pending

    def seen(self, node: int) -> None:
        """Take that a node has taken all that was sent to it."""
        self._unseen.pop(node, None)
