"""`Answer`: the response of a stand-in to one request, with its delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.capture.reading.messages import parse_request, parse_response
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message

PRODUCE = ApiKey.PRODUCE
NO_ACKS = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A response and its delay."""

    response: Message | None
    """None if no response is due, or if none was recorded."""
    delay_ns: int = 0
    is_due: bool = True
    """Whether the client waits for a response, recorded or not."""


class NoRecordedAnswerError(Exception):
    """The capture has no response to a request; the text has the reason."""


def recorded_answer(exchange: Exchange) -> Answer:
    """Return the answer of an exchange; raises NoRecordedAnswerError if it is malformed."""
    try:
        if exchange.response is not None and exchange.answered_ns is not None:
            return Answer(parse_response(exchange), exchange.answered_ns - exchange.sent_ns)
        if exchange.api_key == PRODUCE and parse_request(exchange).acks == NO_ACKS:
            return Answer(None, is_due=False)
    except ProtocolViolation as violation:
        raise NoRecordedAnswerError(violation.reason) from violation
    return Answer(None)
