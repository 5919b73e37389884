"""Answers of a capture, as whoever stands in for its cluster gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.capture.messages import parse_request, parse_response
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from kafkalite.capture.model import Exchange
    from kafkalite.protocol.message import Message

PRODUCE = 0
NO_ACKS = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request got, and after how long; no response where none is due, or none came."""

    response: Message | None
    after_ns: int = 0
    is_due: bool = True
    """Whether the client waits for one, whether or not it comes."""


class MissError(Exception):
    """The capture has no answer; the text says to what."""


def recorded_answer(exchange: Exchange) -> Answer:
    """Return the answer of an exchange; MissError where it cannot be read."""
    try:
        if exchange.response is not None and exchange.answered_ns is not None:
            return Answer(parse_response(exchange), exchange.answered_ns - exchange.sent_ns)
        if exchange.api_key == PRODUCE and parse_request(exchange).acks == NO_ACKS:
            return Answer(None, is_due=False)
    except ProtocolViolation as violation:
        raise MissError(violation.reason) from violation
    return Answer(None)
