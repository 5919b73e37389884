"""The timeouts of requests for the controller."""

from __future__ import annotations

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError


def check_timeout(timeout_ms: int) -> None:
    """Raise KafkaError REQUEST_TIMED_OUT if the time of a request ends before it is decided.

    The controller of Kafka has a queue of events. It does not begin an event whose time has passed,
    and with a timeout of 0 or below that is always so. Nothing is changed then. Call this where
    Kafka adds the event: a request that needs none is answered without it.
    """
    if timeout_ms <= 0:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT)
