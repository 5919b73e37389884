"""Steps: code around the handlers of requests, such as faults, and how handlers are wrapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kafkalite.ports.int_enums import IntEnum
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.gateway.api import Api
    from kafkalite.gateway.call import Call

Handler = Callable[["Call", Any], Any]
"""(call, request) → a response, a Waiting for one, or None if the client gets no answer.

Raises KafkaError to refuse the request.
"""


Condition = Callable[["Call", Any], bool]
"""(call, request) → whether something applies to a request."""


class StepOrder(IntEnum):
    """The order of steps: a step with a lower value is called before, and calls, the others."""

    HOOKS = 0
    FAULTS = 1
    FORWARD = 2
    """Requests for the controller wait while a node does not reach it."""
    THROTTLE = 3
    """Before AUTHORIZE, because requests without permission count against the quotas, too."""
    AUTHORIZE = 4
    POLICY = 5
    """The limits of an emulated service."""


class Step(Protocol):
    """Code around handlers; see `Gateway.install`."""

    def wrap(self, api: Api, version: int, handler: Handler) -> Handler:
        """Return a handler that is called instead of `handler`, and may call it.

        Returns `handler` itself if the step has nothing to do for this version of the API. Called
        once when the step is installed, and again when other steps are installed or removed. It
        must not raise.
        """


class ImmediateStep:
    """Base class of a step whose handlers neither pause nor wait, nor change or store requests.

    Requests inside such steps can be repeated and batched like those without a step.
    """

    __slots__ = ()


class ConditionalStep:
    """Base class of a step that has nothing to do for most requests, and knows which.

    These requests are served as if the step was not installed, so they can be repeated and batched.
    """

    __slots__ = ()

    def condition(self, api: Api) -> Condition:
        """Return whether a request needs the handler of `wrap`, by its call and fields.

        It must also return True for a request that is equal to one that needs it later.
        """
        raise NotImplementedError


class DisconnectError(ProtocolViolation):
    """Raised by a step to close the connection without an answer to the request."""


class AlteredAnswer(Exception):  # noqa: N818 - not an error
    """An answer whose bytes are altered after they have been encoded.

    It is an exception, although it is returned, because the gateway expects an exception in place
    of an answer. A check for another class would cost every request time.
    """

    def __init__(
        self,
        answer: Any,  # noqa: ANN401 - of any API
        alter: Callable[[bytes], bytes],
        closing_reason: str | None = None,
    ) -> None:
        """`alter` changes the frame of `answer`; with a reason, the connection is closed then."""
        super().__init__()
        self.answer = answer
        self.alter = alter
        self.closing_reason = closing_reason


def wrap_handler(api: Api, version: int, steps: Iterable[Step]) -> tuple[Handler, bool]:
    """Return the handler of an API inside the given steps; the first step is the outermost.

    The second value is whether all steps that have anything to do are immediate.
    """
    handler: Handler = api.handler
    is_immediate = True
    for step in reversed(tuple(steps)):
        wrapped = step.wrap(api, version, handler)
        is_immediate &= wrapped is handler or isinstance(step, ImmediateStep)
        handler = wrapped
    return handler, is_immediate
