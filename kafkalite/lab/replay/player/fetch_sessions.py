"""Fetch sessions and share sessions on a target of several nodes.

A recorded fetch session was on one node. If one node of the target leads all partitions of the
session, that node gets the session. Otherwise each request is sent without a session and names all
partitions. A member of a share group needs one session per node, each with its own epoch.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalite.capture.reading.messages import parse_response
from kafkalite.lab.replay.player.splitting import FETCH, REQUEST_LAYOUTS, RoutingKey
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange

MAX_SESSIONS = 100_000

_NO_SESSION, _NO_EPOCH, _FINAL_EPOCH = 0, -1, -1


@dataclass(slots=True)
class Session:
    """The partitions of one fetch session."""

    rows: dict[RoutingKey, tuple[Any, Any]] = field(default_factory=dict)
    """Partition → (topic row, partition row) of the last request that named the partition."""
    node: int | None = None
    """The target's node that has the session; None if not selected yet."""
    is_split: bool = False
    """Whether requests of the session were also sent to other nodes."""


class FetchSessions:
    """The sessions of all recorded connections."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], Session] = {}

    def apply(self, exchange: Exchange, recorded: Any, request: Any) -> Session:  # noqa: ANN401 - FetchRequests
        """Apply a request to its session, and return the session.

        `recorded` is the recorded request, `request` the one with the target's ids.
        """
        number = exchange.connection.number
        session = self._open.get((number, recorded.session_id))
        if session is not None and recorded.session_epoch == _FINAL_EPOCH:
            del self._open[number, recorded.session_id]
            if session.is_split:
                session.rows.clear()  # the target has no session to close
        elif session is None or recorded.session_epoch <= 0:
            session = Session()
            opened = _opened_session_id(exchange)
            if opened and recorded.session_epoch == 0 and len(self._open) < MAX_SESSIONS:
                self._open[number, opened] = session
        layout = REQUEST_LAYOUTS[FETCH]
        for routing_key in layout.routing_keys(_with_forgotten_topics(request)):
            session.rows.pop(routing_key, None)
        for topic in request.topics:
            for partition_row in topic.partitions:
                single_partition_topic = copy(topic)
                single_partition_topic.partitions = [partition_row]
                (routing_key,) = layout.routing_keys(
                    _with_topics(request, [single_partition_topic])
                )
                session.rows[routing_key] = single_partition_topic, partition_row
        return session


def _opened_session_id(exchange: Exchange) -> int:
    """Return the id of the session that a recorded response opened; 0 if it opened none."""
    try:
        response = parse_response(exchange)
    except ProtocolViolation:
        return _NO_SESSION
    session_id: int = _NO_SESSION if response is None else response.session_id
    return session_id


def _with_topics(request: Any, topics: list[Any]) -> Any:  # noqa: ANN401 - a FetchRequest
    copied = copy(request)
    copied.topics = topics
    return copied


def _with_forgotten_topics(request: Any) -> Any:  # noqa: ANN401 - a FetchRequest
    return _with_topics(request, request.forgotten_topics_data)


def without_session(request: Any, session: Session) -> Any:  # noqa: ANN401 - a FetchRequest
    """Return a full request for all partitions of a session, without the session."""
    copied = _with_topics(request, [topic for topic, _ in session.rows.values()])
    copied.session_id, copied.session_epoch = _NO_SESSION, _NO_EPOCH
    copied.forgotten_topics_data = []
    return copied


class ShareSessions:
    """The share session epochs of members on each node of the target."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[int, str, str], dict[int, int]] = {}

    def nodes(self, exchange: Exchange, request: Any) -> list[int]:  # noqa: ANN401 - of a share group
        """Return the nodes on which the member that sends the request has a session."""
        return list(self._epochs.get(_member_key(exchange, request), ()))

    def set_epoch(self, exchange: Exchange, request: Any, node: int) -> None:  # noqa: ANN401
        """Set the session epoch in the part of a request for one node."""
        member_key = _member_key(exchange, request)
        if request.share_session_epoch == _FINAL_EPOCH:
            self._close(member_key, node)
            return
        if len(self._epochs) >= MAX_SESSIONS and member_key not in self._epochs:
            self._epochs.pop(next(iter(self._epochs)))  # a later request opens a new session
        epochs = self._epochs.setdefault(member_key, {})
        if request.share_session_epoch == 0:
            epochs.pop(node, None)
        request.share_session_epoch = epochs.get(node, 0)
        epochs[node] = request.share_session_epoch + 1

    def _close(self, member_key: tuple[int, str, str], node: int) -> None:
        epochs = self._epochs.get(member_key, {})
        epochs.pop(node, None)
        if not epochs:
            self._epochs.pop(member_key, None)


def _member_key(exchange: Exchange, request: Any) -> tuple[int, str, str]:  # noqa: ANN401
    return exchange.connection.number, request.group_id or "", request.member_id or ""
