"""`RequestOrdering`: requests that the target must have read before the next request is sent.

The order of requests about a group decides the responses of its members. Two requests on different
connections can be pending at the same time, and a broker reads its connections in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.catalogue import AnsweringNode, ChangedState, keys_where

if TYPE_CHECKING:
    from kafkalite.client.exchanges import PendingResponse

_GROUP_CHANGE_APIS = keys_where(lambda row: row.changes is ChangedState.MEMBERS)
"""JoinGroup, LeaveGroup, SyncGroup, and the heartbeats of groups whose members have epochs."""
_AFFECTED_APIS = keys_where(lambda row: row.node is AnsweringNode.GROUP_COORDINATOR)
"""APIs whose responses depend on earlier changes of a group."""


class RequestOrdering:
    """The requests that a node of the target may not have read yet."""

    def __init__(self) -> None:
        self._unread: dict[int, dict[int, PendingResponse]] = {}
        """Node → recorded connection → the last request on it that changes a group."""

    def may_overtake(self, api_key: int, node: int, connection: int) -> bool:
        """Whether the next request may be read before an earlier one of another connection."""
        unread = self._unread.get(node)
        if not unread or api_key not in _AFFECTED_APIS:
            return False
        pending = {number: request for number, request in unread.items() if not request.is_resolved}
        self._unread[node] = pending
        return any(number != connection for number in pending)

    def add_sent(self, api_key: int, node: int, connection: int, pending: PendingResponse) -> None:
        """Add a request that was sent."""
        if api_key in _GROUP_CHANGE_APIS:
            self._unread.setdefault(node, {})[connection] = pending

    def mark_read(self, node: int) -> None:
        """Remove the requests that were sent to a node, because the node has read them."""
        self._unread.pop(node, None)
