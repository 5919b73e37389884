"""Stage: somebody else who answers clients in the broker's place, or readies it before they come.

The broker goes on being there: it listens, counts connections, keeps time and ends cleanly, and
whoever stands in may pass requests on to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kafkalite.apis.context import RequestContext
from kafkalite.wire.session import Owed, Pieces

if TYPE_CHECKING:
    from kafkalite.apis.context import Services

Dispatch = Callable[[RequestContext, bytearray, int, int, Pieces], int | Owed]
"""See `apis.dispatch.Dispatcher.dispatch`."""


class Stage(Protocol):
    """Set before the first client comes."""

    def enter(self, services: Services, dispatch: Dispatch) -> Dispatch:
        """Return what serves requests: `dispatch` itself, or what stands in for it."""

    def leave(self) -> None:
        """End: the last client has gone."""
