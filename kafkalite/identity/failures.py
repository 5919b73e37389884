"""Failures of the identity provider that tests request: invalid tokens, errors and delays."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.identity.clients import printable_text
from kafkalite.identity.errors import IdentityError, UnknownIdentityError
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

T = TypeVar("T", bound=Enum)

MAX_FAILURES: Final = 100
MAX_TIMES: Final = 1_000_000_000
MAX_DELAY_MS: Final = 24 * 3_600_000


class FailureKind(Enum):
    """What happens to the responses of an endpoint."""

    EXPIRED = "expired"
    """Tokens have expired an hour ago."""
    WRONG_AUDIENCE = "wrong_audience"
    WRONG_ISSUER = "wrong_issuer"
    WRONG_KEY = "wrong_key"
    """Tokens are signed by a key that is not published, and name the current key."""
    HTTP_500 = "http_500"
    MALFORMED = "malformed"
    """The response is not JSON."""
    SLOW = "slow"
    """The response is delayed."""


class Endpoint(Enum):
    """An endpoint that can fail."""

    TOKEN = "token"  # noqa: S105 - the name of an endpoint
    JWKS = "jwks"


OUTAGES: Final = frozenset((FailureKind.HTTP_500, FailureKind.MALFORMED, FailureKind.SLOW))
"""Failures of a whole response; the others change a token."""
TOKEN_FAILURES: Final = frozenset(FailureKind) - OUTAGES


class Failure(NamedTuple):
    """A failure, and the requests that it applies to.

    `client_id` None applies to all clients, and `times` None to every request. `delay_ms` is the
    delay of SLOW, by the broker's clock.
    """

    kind: FailureKind
    endpoint: Endpoint = Endpoint.TOKEN
    client_id: str | None = None
    times: int | None = None
    delay_ms: int = 0


class FailureState(NamedTuple):
    """A failure with its id and the number of affected requests."""

    id: str
    failure: Failure
    firings: int


def failure_of(fields: object) -> Failure:
    """Return the failure that a JSON object describes; raises IdentityError if it is invalid."""
    if not isinstance(fields, dict):
        raise IdentityError('a failure is a JSON object, such as {"failure": "expired"}')
    names = ("failure", "endpoint", "client", "times", "delay_ms")
    unknown = [name for name in fields if name not in names]
    if unknown:
        raise IdentityError(f"{str(unknown[0])[:40]!r} is not one of {', '.join(names)}")
    client_id = printable_text(fields, "client")
    delay_ms = _number(fields.get("delay_ms"), "delay_ms", MAX_DELAY_MS)
    failure = Failure(
        _member(FailureKind, "failure", fields.get("failure")),
        _member(Endpoint, "endpoint", fields.get("endpoint", Endpoint.TOKEN.value)),
        client_id,
        _number(fields.get("times"), "times", MAX_TIMES),
        delay_ms or 0,
    )
    if (failure.kind is FailureKind.SLOW) is not (delay_ms is not None):
        raise IdentityError(
            "slow needs a delay (--delay, delay_ms), and the other failures have none"
        )
    if failure.endpoint is Endpoint.JWKS and (
        failure.kind in TOKEN_FAILURES or client_id is not None
    ):
        raise IdentityError("jwks can only have http_500, malformed or slow, for all clients")
    return failure


def _member(kinds: type[T], name: str, value: object) -> T:
    try:
        return kinds(value)
    except ValueError:
        known = ", ".join(str(each.value) for each in kinds)
        raise IdentityError(f"{name} {str(value)[:40]!r} is not one of {known}") from None


def _number(value: object, name: str, maximum: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
        raise IdentityError(f"{name} must be a whole number from 1 to {maximum}")
    return value


class Failures:
    """The failures in the order in which they were added."""

    def __init__(self) -> None:
        self._states: dict[str, FailureState] = {}
        self._last_number = 0

    def __iter__(self) -> Iterator[FailureState]:
        return iter(tuple(self._states.values()))

    def add(self, failure: Failure) -> FailureState:
        """Apply a failure to the requests from now on; raises IdentityError if there are many."""
        if len(self._states) >= MAX_FAILURES:
            raise IdentityError(f"there are {MAX_FAILURES} failures already: remove one")
        self._last_number += 1
        state = FailureState(f"i{self._last_number}", failure, 0)
        self._states[state.id] = state
        return state

    def remove(self, failure_id: str) -> FailureState:
        """Remove a failure, and return its final state; raises IdentityError if it is unknown."""
        if failure_id not in self._states:
            raise UnknownIdentityError(f"there is no failure {failure_id[:60]!r}")
        return self._states.pop(failure_id)

    def clear(self) -> list[FailureState]:
        """Remove all failures, and return their final states."""
        removed = list(self)
        self._states.clear()
        return removed

    def fire(
        self, endpoint: Endpoint, client_id: str | None, kinds: Collection[FailureKind]
    ) -> list[Failure]:
        """Count a request, and return the failures of these kinds that apply to it."""
        fired = []
        for state in self:
            failure = state.failure
            if (
                failure.endpoint is endpoint
                and failure.kind in kinds
                and failure.client_id in {None, client_id}
                and (failure.times is None or state.firings < failure.times)
            ):
                self._states[state.id] = state._replace(firings=state.firings + 1)
                fired.append(failure)
        return fired
