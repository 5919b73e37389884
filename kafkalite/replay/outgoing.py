"""Outgoing requests: which recorded ones are sent, and with what in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.messages import is_known, parse_request, parse_response
from kafkalite.capture.model import Direction
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.open_transactions import INIT_PRODUCER_ID, OpenTransactions
from kafkalite.replay.refusals import (
    PASSING,
    SECRET_APIS,
    TURNED_AWAY,
    WITHOUT_SECRETS,
    was_turned_away,
)
from kafkalite.replay.rewriting import Rewriting, frame_of
from kafkalite.replay.shapes import shape_of

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message
    from kafkalite.replay.mapping import Mapping

_LONG_POLLS = frozenset((1, 78))
"""Fetch and ShareFetch."""
_CREATE_TOPICS = 19
_MS_NS = 1_000_000
_ALMOST = 0.8
"""A wait that took so much of its time ran out; clocks and networks take the rest."""


class Outgoing:
    """Makes of recorded requests those that a target gets.

    `hurry` is how many times as fast as recorded waits of clients may end; 0: at once, 1: as they
    were.
    """

    def __init__(self, meaning: Mapping, hurry: float) -> None:
        self._meaning = meaning
        self._rewriting = Rewriting(meaning)
        self._hurry = hurry
        self._transactions = OpenTransactions()

    def why_not(self, exchange: Exchange) -> str | None:
        """Return why a request is not to be sent, None where it is."""
        api_key = exchange.api_key
        if api_key in SECRET_APIS:
            return WITHOUT_SECRETS
        if api_key in PASSING and self._was_turned_away(exchange):
            is_effective = api_key == INIT_PRODUCER_ID and self._transactions.is_open(exchange)
            if not is_effective:
                return TURNED_AWAY
        self._transactions.sent(exchange)
        return None

    def _was_turned_away(self, exchange: Exchange) -> bool:
        if exchange.response is None:
            return False
        api_key = exchange.api_key
        try:
            shape = shape_of(api_key, exchange.api_version, Direction.RESPONSE)
            return was_turned_away(api_key, shape, parse_response(exchange))
        except (ProtocolViolation, KeyError):
            return False

    def frame(self, exchange: Exchange) -> bytes:
        """Return a request as the target is to get it, without its length.

        Raises ProtocolViolation where it cannot be read, and would have to be.
        """
        if not is_known(exchange.api_key, exchange.api_version):
            return exchange.request  # whoever serves it may understand what we do not
        shape = shape_of(exchange.api_key, exchange.api_version, Direction.REQUEST)
        may_shorten = self._may_shorten(exchange)
        must_fit = exchange.api_key == _CREATE_TOPICS and self._meaning.nodes is not None
        if not (may_shorten or must_fit or self._rewriting.concerns(shape)):
            return exchange.request
        request = parse_request(exchange)
        is_changed = self._rewriting.rewrite(shape, request)
        if may_shorten:
            is_changed |= self._shorten(exchange, request)
        if must_fit:
            is_changed |= self._fit(request)
        if not is_changed:
            return exchange.request
        return frame_of(
            exchange.request,
            exchange.request_start,
            request,
            exchange.api_key,
            exchange.api_version,
        )

    def _fit(self, request: Any) -> bool:  # noqa: ANN401 - a CreateTopicsRequest
        """Ask for as many replicas as the target has nodes, where the recorded cluster had more."""
        assert self._meaning.nodes is not None
        recorded, there = self._meaning.nodes
        is_changed = False
        for topic in request.topics:
            if there < topic.replication_factor <= recorded:
                topic.replication_factor = there
                is_changed = True
            for row in topic.assignments:
                # Recorded nodes that the same one stands for are one replica.
                fewer = list(dict.fromkeys(row.broker_ids))
                is_changed |= fewer != row.broker_ids
                row.broker_ids = fewer
        return is_changed

    def _may_shorten(self, exchange: Exchange) -> bool:
        return (
            self._hurry != 1.0
            and exchange.api_key in _LONG_POLLS
            and exchange.answered_ns is not None
            and exchange.answered_ns - exchange.sent_ns > _MS_NS
        )

    def _shorten(self, exchange: Exchange, request: Message) -> bool:
        """Shorten a long poll that ran out: nobody need sit through it again."""
        longest_ms: int = request.max_wait_ms  # type: ignore[attr-defined]  # both APIs have it
        assert exchange.answered_ns is not None
        waited_ms = (exchange.answered_ns - exchange.sent_ns) / _MS_NS
        if waited_ms < _ALMOST * longest_ms:
            return False
        shorter_ms = round(longest_ms / self._hurry) if self._hurry else 0
        request.max_wait_ms = max(1, shorter_ms)  # type: ignore[attr-defined]
        return True
