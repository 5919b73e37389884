"""Known topics: an answer to any Metadata request, from all that a capture tells of its cluster.

Clients ask for metadata each in their own way: for all topics, for none, for the one they write to.
What a topic looks like does not depend on how it was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.messages import parse_response
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message

METADATA = 3
_NO_ERROR = 0


class KnownTopics:
    """The topics that Metadata answers showed, each as it was shown last."""

    def __init__(self) -> None:
        self._shown: dict[str, Exchange] = {}
        """Topic name → the answer that showed it last."""
        self._cluster: Exchange | None = None
        """The answer that showed the nodes last."""

    def take(self, exchange: Exchange) -> None:
        """Learn from one exchange."""
        if exchange.api_key != METADATA or exchange.response is None:
            return
        try:
            told: Any = parse_response(exchange)
        except ProtocolViolation:
            return
        if told.brokers:
            self._cluster = exchange
        for row in told.topics:
            if row.error_code == _NO_ERROR and row.name:
                self._shown[row.name] = exchange

    def answer(self, request: Any, name_of: Callable[[bytes], str | None]) -> Message | None:  # noqa: ANN401 - a MetadataRequest
        """Return an answer to any Metadata request; None where it names a topic nobody saw."""
        if self._cluster is None:
            return None
        if request.topics is None:
            wanted = list(self._shown)
        else:
            named = [row.name or name_of(row.topic_id) for row in request.topics]
            wanted = [name for name in named if name in self._shown]
            if len(wanted) < len(named):
                return None
        # Parsed each time, for whoever sends an answer makes it its own.
        response: Any = parse_response(self._cluster)
        response.topics = [self._row(name) for name in wanted]
        answer: Message = response
        return answer

    def _row(self, name: str) -> Any:  # noqa: ANN401 - a row of a MetadataResponse
        told: Any = parse_response(self._shown[name])
        return next(row for row in told.topics if row.name == name and row.error_code == _NO_ERROR)
