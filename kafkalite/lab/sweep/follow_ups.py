"""Follow-ups: what happens in a cluster after the fault of a case has fired."""

from __future__ import annotations

from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Final

from kafkalite.lab.sweep.failures import FollowUp
from kafkalite.lab.sweep.final_state import call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.gateway.exchanges import Exchange
    from kafkalite.lab.sweep.cases import Case
    from kafkalite.lab.sweep.requests import RequestRecorder, SeenRequest
    from kafkalite.server.broker import Broker as ServerBroker
    from kafkalite.testing.broker import Broker
    from kafkalite.testing.faults import InjectedFault

_RETRY_LIMIT_S: Final = 5.0
"""How long a late request waits for the next one of its kind."""
_MARGIN_MS: Final = 1_000


class Follower:
    """Waits in a thread until a fault has fired, and does what follows."""

    def __init__(
        self,
        cluster: Broker,
        recorder: RequestRecorder,
        case: Case,
        fault: InjectedFault,
        timeouts_ms: Mapping[FollowUp, int],
    ) -> None:
        self._cluster = cluster
        self._case = case
        self._fault = fault
        self._timeouts_ms = timeouts_ms
        self._thread: Thread | None = None
        self._has_fired = Event()
        self._is_followed = Event()
        self._is_refused = Event()
        self._node_id = 0
        """The node that received the request."""
        kind = case.kind.follow_up
        if kind is not FollowUp.NONE:
            recorder.watch(self._notice)
            self._thread = Thread(target=self._follow, args=(kind,), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Stop waiting: the command has ended."""
        self._is_followed.set()
        self._has_fired.set()
        with suppress(ValueError, RuntimeError):  # it was removed
            self._fault.remove()
        if self._thread is not None:
            self._thread.join()

    def _notice(self, request: SeenRequest, exchange: Exchange) -> None:
        """Notice the request that fails, and the next one of its kind, on the broker's thread."""
        if exchange.fault == self._fault.id:
            self._node_id = exchange.node.id
            self._has_fired.set()
            if not exchange.is_pending:
                self._is_refused.set()
        elif (
            self._has_fired.is_set()
            and request.api_key == self._case.api_key
            and not exchange.is_pending
        ):
            self._is_followed.set()

    def _follow(self, kind: FollowUp) -> None:
        self._has_fired.wait()
        if not self._is_followed.is_set():
            with suppress(ValueError, RuntimeError):  # the command has ended
                _FOLLOWERS[kind](self)

    def release_after_retry(self) -> None:
        """Handle the held request after the next one of its kind."""
        self._is_followed.wait(_RETRY_LIMIT_S)
        self._fault.release()

    def restart(self) -> None:
        """Kill the node that received the request, and start it again."""
        node = self._cluster.nodes[self._node_id]
        node.stop()
        node.start()

    def fill_disk(self) -> None:
        """Let the disk be full until the held request was refused."""

        def fill(broker: ServerBroker) -> int | None:
            memory = broker.memory
            limit, memory.limit_bytes = memory.limit_bytes, memory.used_bytes
            return limit

        limit = call(self._cluster, fill)
        self._fault.release()
        self._is_refused.wait(_RETRY_LIMIT_S)
        call(self._cluster, lambda broker: setattr(broker.memory, "limit_bytes", limit))

    def move_clock(self) -> None:
        """Move the clock, and then handle the held request."""
        milliseconds = self._timeouts_ms[self._case.kind.follow_up] + _MARGIN_MS
        self._cluster.clock.advance(milliseconds=milliseconds)
        self._fault.release()


_FOLLOWERS: Final[Mapping[FollowUp, Callable[[Follower], None]]] = {
    FollowUp.RELEASE_AFTER_RETRY: Follower.release_after_retry,
    FollowUp.RESTART: Follower.restart,
    FollowUp.FILL_DISK: Follower.fill_disk,
    FollowUp.SESSION: Follower.move_clock,
    FollowUp.TRANSACTION: Follower.move_clock,
}
