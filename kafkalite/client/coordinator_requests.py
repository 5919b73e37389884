"""CoordinatorRequests: requests to the coordinator of a group or of a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.connection import UnreachableError
from kafkalite.client.errors import BrokerError, TimedOutError
from kafkalite.client.exchanges import error_text
from kafkalite.client.retries import DEFAULT_BACKOFF, Retries
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.client.client import KafkaClient
    from kafkalite.protocol.message import Message
    from kafkalite.protocol.versions import Versions
    from kafkalite.server.addresses import Address

    # Response → its error, NONE if there is none.
    FindError = Callable[[Any], ErrorCode]

GROUP: Final = 0
TRANSACTION: Final = 1
"""Types of keys that have a coordinator, as numbers of FindCoordinator."""

_COMMAND_TIMEOUT_MS: Final = 30_000
_NAMES: Final = {GROUP: "group", TRANSACTION: "transactional id"}
_COORDINATOR_ERRORS: Final = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
)
"""Errors after which the coordinator is looked up again."""


def error_of(response: Any) -> ErrorCode:  # noqa: ANN401 - any response class
    """Return the error of a response that has one error for all."""
    return ErrorCode(response.error_code)


class CoordinatorRequests:
    """Sends requests to the coordinator of one key, and finds it again if it changes."""

    def __init__(
        self,
        client: KafkaClient,
        key: str,
        key_type: int,
        choose_address: Callable[[int], Address] | None = None,
    ) -> None:
        """Create it; `choose_address` has the broker for a lookup, by the number of the lookup.

        Without it, any broker is asked.
        """
        self._client = client
        self._key = key
        self._key_type = key_type
        self._choose_address = choose_address
        self._coordinator: Address | None = None
        self._lookups = 0
        self._title = f"{_NAMES[key_type]} {key!r}"

    async def ask(
        self,
        request: Message,
        versions: Versions,
        retries: Retries,
        find_error: FindError = error_of,
    ) -> Any:  # noqa: ANN401 - any response class
        """Return the response of the coordinator, after retries for retriable errors.

        Raises BrokerError for other errors, and TimedOutError.
        """
        while True:
            try:
                address = self._coordinator or await self._find(retries)
                response = await self._client.ask(
                    address, request, versions, timeout_s=retries.request_timeout_s
                )
            except UnreachableError as error:
                self._coordinator = None
                reason = str(error)
            except _CoordinatorError as error:
                code = error.code
                if not code.retriable:
                    raise BrokerError(code, self._title) from None
                reason = error_text(code)
            else:
                code = find_error(response)
                if not code:
                    return response
                if not code.retriable:
                    raise BrokerError(code, self._title)
                if code in _COORDINATOR_ERRORS:
                    self._coordinator = None
                reason = error_text(code)
            if not await retries.wait():
                raise TimedOutError(f"{self._title}: {reason}")

    async def _find(self, retries: Retries) -> Address:
        choose = self._choose_address
        found = await self._client.find_coordinator(
            self._key,
            self._key_type,
            at=None if choose is None else choose(self._lookups),
            timeout_s=retries.request_timeout_s,
        )
        self._lookups += 1
        if found.error:
            raise _CoordinatorError(found.error)
        self._coordinator = found.address
        return found.address


async def ask_coordinator(
    client: KafkaClient,
    key: str,
    key_type: int,
    request: Message,
    versions: Versions,
    *,
    find_error: FindError,
) -> Any:  # noqa: ANN401 - any response class
    """Return the response to one request, after retries for half a minute.

    Raises the errors of `CoordinatorRequests.ask`.
    """
    requests = CoordinatorRequests(client, key, key_type)
    return await requests.ask(request, versions, administration_retries(), find_error)


def administration_retries() -> Retries:
    """Return the attempts of a command: half a minute, as in clients in Java."""
    return Retries(AdjustableClock(), DEFAULT_BACKOFF, _COMMAND_TIMEOUT_MS)


class _CoordinatorError(Exception):
    """FindCoordinator was answered with an error."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code
