"""Steps: code around the handlers of requests, such as faults, and how handlers are wrapped."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call

Handler = Callable[["Call", Any], Any]
"""(call, request) → a response, a Waiting for one, or None if the client gets no answer.

Raises KafkaError to refuse the request.
"""


class StepOrder(IntEnum):
    """The order of steps: a step with a lower value is called before, and calls, the others."""

    FAULTS = 0
    AUTHORIZE = 1
    THROTTLE = 2
    JOURNAL = 3


class Step(Protocol):
    """Code around handlers; see `Gateway.install`."""

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        """Return a handler that is called instead of `handler`, and may call it.

        Returns `handler` itself if the step has nothing to do for this version of the API. Called
        once when the step is installed, and again when other steps are installed or removed. It
        must not raise.
        """


class DisconnectError(ProtocolViolation):
    """Raised by a step to close the connection without an answer to the request."""


def wrap_handler(api: Api, version: int, steps: Iterable[Step]) -> Handler:
    """Return the handler of an API inside the given steps; the first step is the outermost."""
    handler: Handler = api.handler
    for step in reversed(tuple(steps)):
        handler = step.wrap(api, version, handler)
    return handler
