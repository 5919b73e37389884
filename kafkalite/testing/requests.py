"""BrokerRequests: the requests that clients sent, for assertions in a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from kafkalite.config.typed_json import read
from kafkalite.control.waiting import milliseconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.control.command_table import Perform
    from kafkalite.control.commands.requests import RecordedRequest

_TITLE = "requests"
DEFAULT_TIMEOUT_S = 5.0


class Conditions(TypedDict, total=False):
    """The conditions that select requests; all that are given must apply."""

    client_id: str | None
    group: str | None
    topic: str | None
    transactional_id: str | None
    error: str | None
    node: int | None
    since: int


class BrokerRequests:
    """The requests of clients and their answers; usable from any thread but the broker's.

    The first use begins to log requests, unless the broker has `request_log`. The log has the
    latest 10,000 requests, or `request_log`.

    Requests are selected by `api`, which is Kafka's name of an API, and by `client_id`, `group`,
    `topic`, `transactional_id`, `error` and `node`; `since` omits requests up to this number. All
    methods raise ValueError for an unknown name.
    """

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def start(self) -> None:
        """Begin to log requests; does nothing if they are logged already."""
        self.list(limit=1)

    def list(
        self, api: str | None = None, *, limit: int = 1000, **conditions: Unpack[Conditions]
    ) -> Sequence[RecordedRequest]:
        """Return requests in the order in which they ended, at most `limit`, the latest.

        Requests whose answers are pending are at the end.
        """
        from kafkalite.control.commands.requests import ListRequests  # noqa: PLC0415 - rarely used

        given = _given(api, conditions) | {"limit": limit}
        return self._perform(read(ListRequests, given, _TITLE)).requests

    def wait(
        self,
        api: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        **conditions: Unpack[Conditions],
    ) -> RecordedRequest:
        """Return the first request that is selected, also one that the log has already.

        The answer may be pending. Raises AssertionError after `timeout` seconds, with the nearest
        requests.
        """
        __tracebackhide__ = True
        within_ms = milliseconds_of("timeout", timeout)
        return self._expect(api, conditions, None, within_ms, {"at_least": 1})[0]

    def expect(
        self,
        api: str | None = None,
        *,
        fields: Mapping[str, object] | None = None,
        times: int | None = None,
        at_least: int | None = None,
        never: bool = False,
        within: float | None = None,
        **conditions: Unpack[Conditions],
    ) -> Sequence[RecordedRequest]:
        """Assert that requests were sent, and return them, at most 10, the latest.

        `fields` has values of fields of the request with Kafka's names, such as {"acks": -1}. A
        field in a list is named by its path or its end, such as "topics.name"; one of its values
        must be equal. The batches of records have "recordsBatches.compression" and more.

        At least one request must match; or exactly `times`, or `at_least`, or none with `never`.
        Waits up to `within` seconds until enough requests match, by default 5; by default `never`
        does not wait. Raises AssertionError with the nearest requests, field by field, and the
        history of that time.
        """
        __tracebackhide__ = True
        counts: dict[str, object] = {"times": times, "at_least": at_least}
        given = {name: value for name, value in counts.items() if value is not None}
        if never:
            given["never"] = True
        within_ms = None if within is None else milliseconds_of("within", within)
        return self._expect(api, conditions, fields, within_ms, given)

    def _expect(
        self,
        api: str | None,
        conditions: Conditions,
        fields: Mapping[str, object] | None,
        within_ms: int | None,
        counts: Mapping[str, object],
    ) -> Sequence[RecordedRequest]:
        from kafkalite.control.commands.requests import ExpectRequests  # noqa: PLC0415 - as above

        __tracebackhide__ = True  # pytest shows the line of the test
        given = {**_given(api, conditions), **counts}
        if fields is not None:
            given["fields"] = dict(fields) if isinstance(fields, Mapping) else fields
        if within_ms is not None:
            given["within_ms"] = within_ms
        result = self._perform(read(ExpectRequests, given, "an expectation"))
        if not result.met:
            raise AssertionError(result.text)
        return result.requests

    def clear(self) -> None:
        """Remove all requests that have ended from the log."""
        from kafkalite.control.commands.requests import ClearRequests  # noqa: PLC0415 - as above

        self._perform(ClearRequests())

    def stop(self) -> None:
        """Remove all requests, and stop logging until the next use."""
        from kafkalite.control.commands.requests import StopRequestLog  # noqa: PLC0415 - as above

        self._perform(StopRequestLog())


def _given(api: str | None, conditions: Conditions) -> dict[str, Any]:
    given = {**conditions, "api": api}
    return {name: value for name, value in given.items() if value is not None}
