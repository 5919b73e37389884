"""Repeated requests: a request with the same bytes as the previous one is not decoded again.

Heartbeats are such requests. A connection caches its last request of an API with `is_repeated`, and
the answer. The next request is compared with it as bytes, except for the correlation id. If they
are equal, the handler gets the decoded request from the cache. If the handler returns the same
object as before, the bytes of the cached answer are sent.

`Gateway.serve` does the comparison itself: a call would cost several percent of a heartbeat. The
`repeated_prefix` of a route with an installed step is empty, so that no request matches, unless
the step is immediate: it is called with the cached request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.wire.headers import CORRELATION_END, CORRELATION_START

if TYPE_CHECKING:
    from kafkalite.gateway.call import Call
    from kafkalite.gateway.route import Route

MAX_REPEATED_BYTES = 1024
"""The maximum size of a cached request; longer requests are always decoded."""

_NO_ANSWER = object()


class RepeatedRequest:
    """The last request of a connection and its answer, decoded and as bytes.

    The bytes do not include the correlation id, nor the API key and version; see `Route`.
    """

    __slots__ = (
        "answer",
        "answer_prefix",
        "answer_suffix",
        "call",
        "request",
        "route",
        "size_bytes",
        "suffix",
    )

    def __init__(self, route: Route, call: Call, request: object, frame: bytes) -> None:
        self.route = route
        self.call = call
        self.request = request
        self.size_bytes = len(frame)
        self.suffix = frame[CORRELATION_END:]
        self.answer: object = _NO_ANSWER
        self.answer_prefix = b""
        self.answer_suffix = b""

    def with_answer(self, answer: object, frame: bytes) -> RepeatedRequest:
        """Set the last answer and its bytes, and return this request."""
        self.answer = answer
        self.answer_prefix = frame[:CORRELATION_START]
        self.answer_suffix = frame[CORRELATION_END:]
        return self
