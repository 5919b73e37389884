"""Composition of responses to Metadata requests from the recorded topics and nodes.

Requests of different clients name different topics. The metadata of a topic does not depend on the
request, so each topic gets its last recorded metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.reading.messages import parse_response
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message

METADATA = ApiKey.METADATA
_NO_ERROR = 0


class RecordedTopics:
    """The last recorded metadata of each topic and of the nodes."""

    def __init__(self) -> None:
        self._last_exchanges: dict[str, Exchange] = {}
        """Topic name → the last exchange that returned it."""
        self._last_cluster_exchange: Exchange | None = None
        """The last exchange that returned the nodes."""

    def learn(self, exchange: Exchange) -> None:
        """Learn topics and nodes from one recorded exchange."""
        if exchange.api_key != METADATA or exchange.response is None:
            return
        try:
            response: Any = parse_response(exchange)
        except ProtocolViolation:
            return
        if response.brokers:
            self._last_cluster_exchange = exchange
        for row in response.topics:
            if row.error_code == _NO_ERROR and row.name:
                self._last_exchanges[row.name] = exchange

    def answer(self, request: Any, name_of: Callable[[bytes], str | None]) -> Message | None:  # noqa: ANN401 - a MetadataRequest
        """Return a response to a Metadata request; None if it names an unknown topic."""
        if self._last_cluster_exchange is None:
            return None
        if request.topics is None:
            names = list(self._last_exchanges)
        else:
            requested = [row.name or name_of(row.topic_id) for row in request.topics]
            names = [name for name in requested if name in self._last_exchanges]
            if len(names) < len(requested):
                return None
        # Parsed each time, because callers modify the response.
        response: Any = parse_response(self._last_cluster_exchange)
        response.topics = [self._topic_row(name) for name in names]
        answer: Message = response
        return answer

    def _topic_row(self, name: str) -> Any:  # noqa: ANN401 - a row of a MetadataResponse
        response: Any = parse_response(self._last_exchanges[name])
        return next(
            row for row in response.topics if row.name == name and row.error_code == _NO_ERROR
        )
