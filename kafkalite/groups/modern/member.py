"""Client, and the special member epochs in requests for joining and leaving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkalite.ports.named_tuples import NamedTuple

JOIN_EPOCH: Final = 0
"""The member joins, for the first time or again."""
LEAVE_EPOCH: Final = -1
"""The member leaves."""
STATIC_LEAVE_EPOCH: Final = -2
"""The static member leaves temporarily."""

UNCHANGED_MS: Final = -1
"""The rebalance timeout in a request of a member whose timeout has not changed."""


MayDescribe = Callable[[str], bool]
"""Returns whether a client may describe the topic with this name."""


class Client(NamedTuple):
    """The client that sent a request."""

    client_id: str
    host: str
    """The address as Java prints it: "/127.0.0.1"."""
    may_describe: MayDescribe | None = None
    """None if it may describe all topics."""
