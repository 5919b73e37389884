"""Sessions of fetches: what they are about, where their partitions have several leaders.

A recorded session was with one node. Where one node of the target leads all of its partitions, so
it is there; else each request is sent for all that its session has come to, without a session. A
member of a share group needs a session on each node, and each counts for itself.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalite.capture.messages import parse_response
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.subjects import FETCH, SPREAD, Subject

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange

MOST_SESSIONS = 100_000

_NO_SESSION, _NO_EPOCH, _FINAL = 0, -1, -1


@dataclass(slots=True)
class Session:
    """What one session of a reader has asked for so far."""

    rows: dict[Subject, tuple[Any, Any]] = field(default_factory=dict)
    """Each partition with its topic's row and its own, as they were asked for last."""
    node: int | None = None
    """Which node of the target it was opened on."""
    is_apart: bool = False
    """Whether others have had to be asked as well."""


class FetchSessions:
    """The sessions of all recorded connections."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], Session] = {}

    def take(self, exchange: Exchange, recorded: Any, request: Any) -> Session:  # noqa: ANN401 - FetchRequests
        """Return the session of a request, after it: as recorded, and in the target's words."""
        number = exchange.connection.number
        session = self._open.get((number, recorded.session_id))
        if session is not None and recorded.session_epoch == _FINAL:
            del self._open[number, recorded.session_id]
            if session.is_apart:
                session.rows.clear()  # there is none to be closed
        elif session is None or recorded.session_epoch <= 0:
            session = Session()
            opened = _opened(exchange)
            if opened and recorded.session_epoch == 0 and len(self._open) < MOST_SESSIONS:
                self._open[number, opened] = session
        spread = SPREAD[FETCH]
        for subject in spread.subjects(_forgetting(request)):
            session.rows.pop(subject, None)
        for topic in request.topics:
            for part in topic.partitions:
                one = copy(topic)
                one.partitions = [part]
                (subject,) = spread.subjects(_asking(request, [one]))
                session.rows[subject] = one, part
        return session


def _opened(exchange: Exchange) -> int:
    """Return the session that a recorded answer opened, 0 for none."""
    try:
        told = parse_response(exchange)
    except ProtocolViolation:
        return _NO_SESSION
    session_id: int = _NO_SESSION if told is None else told.session_id
    return session_id


def _asking(request: Any, topics: list[Any]) -> Any:  # noqa: ANN401 - a FetchRequest
    asked = copy(request)
    asked.topics = topics
    return asked


def _forgetting(request: Any) -> Any:  # noqa: ANN401 - a FetchRequest
    return _asking(request, request.forgotten_topics_data)


def without_session(request: Any, session: Session) -> Any:  # noqa: ANN401 - a FetchRequest
    """Return a request for all that a session is about, which needs none."""
    asked = _asking(request, [topic for topic, _ in session.rows.values()])
    asked.session_id, asked.session_epoch = _NO_SESSION, _NO_EPOCH
    asked.forgotten_topics_data = []
    return asked


class ShareSessions:
    """How far the sessions of members of share groups are on each node of the target."""

    def __init__(self) -> None:
        self._epochs: dict[tuple[int, str, str], dict[int, int]] = {}

    def nodes(self, exchange: Exchange, request: Any) -> list[int]:  # noqa: ANN401 - of a share group
        """Return where a member has a session already."""
        return list(self._epochs.get(_reader(exchange, request), ()))

    def number(self, exchange: Exchange, request: Any, node: int) -> None:  # noqa: ANN401
        """Give a part of a request for one node the epoch of the session there."""
        reader = _reader(exchange, request)
        if request.share_session_epoch == _FINAL:
            self._close(reader, node)
            return
        if len(self._epochs) >= MOST_SESSIONS and reader not in self._epochs:
            self._epochs.pop(next(iter(self._epochs)))  # it begins anew if it comes again
        epochs = self._epochs.setdefault(reader, {})
        if request.share_session_epoch == 0:
            epochs.pop(node, None)
        request.share_session_epoch = epochs.get(node, 0)
        epochs[node] = request.share_session_epoch + 1

    def _close(self, reader: tuple[int, str, str], node: int) -> None:
        epochs = self._epochs.get(reader, {})
        epochs.pop(node, None)
        if not epochs:
            self._epochs.pop(reader, None)


def _reader(exchange: Exchange, request: Any) -> tuple[int, str, str]:  # noqa: ANN401
    return exchange.connection.number, request.group_id or "", request.member_id or ""
