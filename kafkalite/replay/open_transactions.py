"""Open transactions: which transactional ids have begun something at the target and not ended it.

An InitProducerId that is turned away because of a transaction has an effect where that one is the
id's own: it is then aborted. It has none where an end that was asked for is still being written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.messages import parse_request
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange

PRODUCE, INIT_PRODUCER_ID, END_TXN = 0, 22, 26
_BEGIN = frozenset((PRODUCE, 24, 25, 28))
"""Produce, AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit."""
_CONCERNED = _BEGIN | {INIT_PRODUCER_ID, END_TXN}
MOST_IDS = 100_000


class OpenTransactions:
    """What the requests that were sent have begun."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def sent(self, exchange: Exchange) -> None:
        """Take a request that goes out."""
        for transactional_id in _ids(exchange):
            if exchange.api_key not in _BEGIN:
                self._open.discard(transactional_id)
            elif len(self._open) < MOST_IDS:
                self._open.add(transactional_id)

    def is_open(self, exchange: Exchange) -> bool:
        """Whether a request is of an id with an open transaction."""
        return any(each in self._open for each in _ids(exchange))


def _ids(exchange: Exchange) -> list[str]:
    if exchange.api_key not in _CONCERNED:
        return []
    try:
        request: Any = parse_request(exchange)
    except ProtocolViolation:
        return []
    if hasattr(request, "transactional_id"):
        return [request.transactional_id] if request.transactional_id else []
    older = request.v3_and_below_transactional_id
    return [each.transactional_id for each in request.transactions] + ([older] if older else [])
