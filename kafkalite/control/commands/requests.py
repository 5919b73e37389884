"""Commands about the log of requests: list, expect, clear and stop."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.config.typed_json import About, JsonError, check_types, json_text
from kafkalite.control.command_table import CommandError, Family, Row, Status, Words, one_line
from kafkalite.control.commands import explain
from kafkalite.control.request_filter import RequestFilter, check_fields, field_differences
from kafkalite.control.turns import REQUESTS_PER_TURN, in_turns
from kafkalite.control.waiting import MAX_WAIT_MS, Changes, deadline_after, keep_alive_deadline
from kafkalite.coordinator.event_history import MAX_NAME_LENGTH
from kafkalite.ports.texts import count_text, truncate
from kafkalite.ports.times import iso_of
from kafkalite.protocol import codec
from kafkalite.protocol.acl_operations import Entity

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    from kafkalite.server.broker import Broker
    from kafkalite.server.request_log import LoggedRequest, RequestLog

MAX_LISTED: Final = 100_000
DEFAULT_WITHIN_MS: Final = 5_000

_NOT_LOGGED: Final = (
    "requests were not logged before this expectation: start the broker with --request-log, or "
    "request_log of Broker"
)
_NEAREST: Final = 3
_MAX_LISTED_MATCHES: Final = 10
_MAX_HISTORY_LINES: Final = 5
MET, UNMET = 200, 409


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request and its answer, as the log has them."""

    number: Annotated[
        int | None,
        About(
            "Requests are numbered from 1 in the order in which they end; null while the answer is "
            "pending."
        ),
    ]
    api: Annotated[str, About("Kafka's name of the API.")]
    version: Annotated[int, About("Version of the request.")]
    correlation_id: Annotated[int, About("Correlation id.")]
    received_ms: Annotated[
        int,
        About("Time of arrival by the broker's clock, in milliseconds since the Unix epoch."),
    ]
    received_iso: Annotated[str, About("The same time in ISO 8601, UTC.")]
    latency_ms: Annotated[
        int | None, About("Time to the answer by the broker's clock; null while it is pending.")
    ]
    node: Annotated[int, About("Node that received the request.")]
    listener: Annotated[str, About("Listener that received the request.")]
    client: Annotated[str, About("Address of the client, with the port if it is connected.")]
    client_id: Annotated[str | None, About("Client id of the request.")]
    software: Annotated[
        str | None, About("Name and version of the client's library; null if it sent none.")
    ]
    principal: Annotated[str, About("Principal of the client.")]
    groups: Annotated[tuple[str, ...], About("Groups that the request names.")]
    topics: Annotated[tuple[str, ...], About("Topics that the request names.")]
    transactional_ids: Annotated[
        tuple[str, ...], About("Transactional ids that the request names.")
    ]
    request_bytes: Annotated[int, About("Size of the request.")]
    answer_bytes: Annotated[int, About("Size of the answer; 0 without an answer.")]
    errors: Annotated[tuple[str, ...], About("Names of the distinct errors in the answer.")]
    reasons: Annotated[
        tuple[str, ...], About("Why the request, or parts of it, were refused, as in `explain`.")
    ]
    fault: Annotated[str | None, About("Id of the fault that was applied.")]
    closed: Annotated[
        str | None,
        About("Why the connection was closed in place of an answer; null if it was not."),
    ]
    request: Annotated[
        dict[str, object],
        About(
            "Fields of the request with Kafka's names, without secrets. A field with records is "
            "replaced by its size and a description of its batches."
        ),
    ]
    response: Annotated[
        object,
        About(
            "Fields of the response, as those of the request; null without a response.",
            schema={"type": ["object", "null"]},
        ),
    ]

    def __str__(self) -> str:
        """Return the request as one line."""
        return line_of(self)


@dataclass(frozen=True, slots=True)
class RequestList:
    """Logged requests in the order in which they ended; those with pending answers come last."""

    last_number: Annotated[int, About("Number of the last request that has ended, for `since`.")]
    logged: Annotated[int, About("Number of requests in the log.")]
    requests: Annotated[
        tuple[RecordedRequest, ...], About("The selected requests, at most `limit`, the latest.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequests(RequestFilter):
    """Return requests of clients, with their answers; begin to log them if they are not logged.

    The log has the latest 10,000 requests, or as many as `--request-log` says. Without
    `--request-log`, it begins with the first command about requests.
    """

    wait_ms: Annotated[
        int,
        About(
            "wait this long for the first request that is selected, in real time",
            minimum=0,
            maximum=MAX_WAIT_MS,
            metavar="MILLISECONDS",
        ),
    ] = 0
    limit: Annotated[
        int,
        About(
            "only this many requests, the latest [100]",
            minimum=1,
            maximum=MAX_LISTED,
            metavar="NUMBER",
        ),
    ] = 100

    async def perform(self, broker: Broker) -> RequestList:
        """Return the selected requests."""
        log = broker.request_log
        found = [recorded(each) async for each in _each(await self._selected(log))]
        return RequestList(log.last_number, len(log), tuple(found))

    async def _selected(self, log: RequestLog) -> Sequence[LoggedRequest]:
        """Return the requests of the log; wait for the first of them if there is none."""
        deadline = deadline_after(self.wait_ms)
        since = self.since
        with Changes(log.watchers) as changes:
            while True:
                last_number = log.last_number
                requests = _requests(log, since)
                found = [each async for each in _each(requests) if self.matches(each)]
                if found or not await changes.next(deadline):
                    return found[-self.limit :]
                since = max(since, last_number)

    async def json_pieces(self, broker: Broker) -> AsyncIterator[str]:
        """Yield the JSON text of the answer, one request at a time."""
        log = broker.request_log
        found = await self._selected(log)
        yield f'{{"last_number":{log.last_number},"logged":{len(log)},"requests":['
        for number, each in enumerate(found):
            yield ("," if number else "") + json_text(recorded(each))
        yield "]}"

    async def json_lines(self, broker: Broker) -> AsyncIterator[str]:
        """Yield each selected request as a line of JSON."""
        for each in await self._selected(broker.request_log):
            yield f"{json_text(recorded(each))}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRequests(RequestFilter):
    """Send each request when it ends, as a server-sent event with the fields of `GET /v1/requests`.

    The stream begins with the requests after number `since`, by default with the next one, and with
    `limit` with the latest requests of the log. It ends when the client disconnects.
    """

    limit: Annotated[
        int | None,
        About(
            "begin with this many requests that have ended, the latest [those after since]",
            minimum=1,
            maximum=MAX_LISTED,
            metavar="NUMBER",
        ),
    ] = None

    async def perform(self, broker: Broker) -> RecordedRequest:
        """Raise CommandError: the stream has no end."""
        del broker
        raise CommandError("a stream of requests has no end: read /v1/requests/stream")

    async def events(self, broker: Broker) -> AsyncIterator[str]:
        """Yield the events; a client that reads slowly misses those that leave the log."""
        log = broker.request_log
        number = self.since or log.last_number
        yield ": requests\n\n"
        if self.limit is not None:
            number = log.last_number
            found = [each async for each in _each(log.after(self.since)) if self.matches(each)]
            async for each in _each(found[-self.limit :]):
                yield _event(each)
        with Changes(log.watchers) as changes:
            while True:
                async for each in _each(log.after(number)):
                    assert each.number is not None
                    number = each.number
                    if self.matches(each):
                        yield _event(each)
                if not await changes.next(keep_alive_deadline()):
                    yield ": no request\n\n"  # fails if the client has disconnected


def _event(logged: LoggedRequest) -> str:
    data = json_text(recorded(logged))
    return f"id: {logged.number}\nevent: request\ndata: {data}\n\n"


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A request that does not meet an expectation, and the reasons."""

    differences: Annotated[
        tuple[str, ...], About("What is different, one condition in each sentence.")
    ]
    request: Annotated[RecordedRequest, About("The request.")]


@dataclass(frozen=True, slots=True)
class Expectation:
    """Whether requests met an expectation. The HTTP status is 409 if they did not."""

    met: Annotated[bool, About("Whether the expectation was met.")]
    matches: Annotated[int, About("Number of requests that match.")]
    text: Annotated[
        str,
        About("The result in words, with the nearest requests and the history of that time."),
    ]
    requests: Annotated[
        tuple[RecordedRequest, ...], About("Requests that match, at most 10, the latest.")
    ]
    nearest: Annotated[
        tuple[NearMiss, ...],
        About("Requests that nearly match, at most 3, if too few requests match."),
    ]


def _count_field(text: str) -> About:
    return About(text, minimum=0, maximum=1_000_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectRequests(RequestFilter):
    """Check how many requests match; without `times`, `at_least` and `never`, one at least must.

    Wait up to `within_ms`, in real time, until enough requests match. If `within_ms` is given with
    `times` or `never`, wait for all of this time, because one more request must not match either.
    """

    fields: Annotated[
        dict[str, object] | None,
        About(
            'values of fields of the request with Kafka\'s names, such as {"acks": -1}; a field in '
            "a list is named by its path or its end, such as topics.name, and one of its values "
            "must be equal"
        ),
    ] = None
    times: Annotated[int | None, _count_field("exactly this many requests must match")] = None
    at_least: Annotated[int | None, _count_field("this many requests must match")] = None
    never: Annotated[bool, About("no request must match")] = False
    within_ms: Annotated[
        int | None,
        About("time limit in milliseconds [5000; 0 with never]", minimum=0, maximum=MAX_WAIT_MS),
    ] = None

    def __post_init__(self) -> None:
        check_types(self)
        counts = (self.times is not None, self.at_least is not None, self.never)
        if sum(counts) > 1:
            raise JsonError("an expectation takes one of times, at_least and never")
        check_fields(self.api, self.fields or {})

    @property
    def _minimum(self) -> int:
        if self.never:
            return 0
        expected = self.times if self.at_least is None else self.at_least
        return 1 if expected is None else expected

    @property
    def _maximum(self) -> int | None:
        return 0 if self.never else self.times

    def all_differences(self, logged: LoggedRequest) -> Iterator[str]:
        """Yield what is different in a request, with its fields."""
        yield from self.differences(logged)
        if self.is_candidate(logged):
            yield from field_differences(self.fields or {}, logged)

    def _is_met_by(self, logged: LoggedRequest) -> bool:
        return next(self.all_differences(logged), None) is None

    async def perform(self, broker: Broker) -> Expectation:
        """Return the result.

        Raises CommandError for an upper limit of earlier requests if requests were not logged.
        """
        had_log = broker.logs_requests
        if not had_log and self._maximum is not None and not self.within_ms:
            raise CommandError(f"{_NOT_LOGGED}, so their number is not known")
        log = broker.request_log
        started_ms = broker.clock.now_ms()
        found = await self._wait(log)
        count = len(found)
        is_met = count >= self._minimum and (self._maximum is None or count <= self._maximum)
        nearest: list[NearMiss] = []
        if count < self._minimum:
            nearest = await self._nearest(log)
        latest = tuple(recorded(each) for each in found[-_MAX_LISTED_MATCHES:])
        total = len(log)
        lines = [
            *self._lines(broker, count, total, latest, nearest, is_met=is_met, since_ms=started_ms)
        ]
        if not is_met and not had_log:
            lines.append(f"  {_NOT_LOGGED}")
        return Expectation(is_met, count, "\n".join(lines), latest, tuple(nearest))

    async def _wait(self, log: RequestLog) -> Sequence[LoggedRequest]:
        """Return the requests that match, when they are enough or the time is over."""
        within_ms = self.within_ms
        if within_ms is None:
            within_ms = 0 if self._maximum == 0 else DEFAULT_WITHIN_MS
        waits_for_more = self.within_ms is not None and self._maximum is not None
        deadline = deadline_after(within_ms)
        ended: list[LoggedRequest] = []
        since = self.since
        with Changes(log.watchers) as changes:
            while True:
                last_number = log.last_number
                requests, pending = log.after(since), log.pending()
                ended += [each async for each in _each(requests) if self._is_met_by(each)]
                found = ended + [each async for each in _each(pending) if self._is_met_by(each)]
                count = len(found)
                is_over = self._maximum is not None and count > self._maximum
                if is_over or (count >= self._minimum and not waits_for_more):
                    return found
                since = max(since, last_number)
                if not await changes.next(deadline):
                    return found

    async def _nearest(self, log: RequestLog) -> list[NearMiss]:
        """Return the requests with the fewest differences, the latest of them first."""
        nearest: list[tuple[int, LoggedRequest]] = []
        async for each in _each(_requests(log, self.since)):
            differences = sum(1 for _ in self.all_differences(each))
            if differences:
                # A request of another API is further away than any of this API.
                rank = differences if self.is_candidate(each) else 1000 + differences
                # Sorting all of them at the end would take long.
                nearest = sorted([(rank, each), *nearest], key=itemgetter(0))[:_NEAREST]
        return [NearMiss(tuple(self.all_differences(each)), recorded(each)) for _, each in nearest]

    def _lines(
        self,
        broker: Broker,
        count: int,
        total: int,
        latest: Sequence[RecordedRequest],
        nearest: Sequence[NearMiss],
        *,
        is_met: bool,
        since_ms: int,
    ) -> Iterator[str]:
        description = self.description()
        if self.fields:
            fields = ", ".join(f"{name}={value!r}" for name, value in self.fields.items())
            description += f"{', ' if ' with ' in description else ' with '}{fields}"
        expected = "no" if self._maximum == 0 else f"{self._minimum}"
        if self._maximum is None:
            expected = f"at least {expected}"
        elif self._maximum:
            expected = f"exactly {expected}"
        yield (
            f"expected {expected} {description}; {count} of "
            f"{count_text(total, 'logged request')} "
            f"{'matches' if count == 1 else 'match'}"
        )
        if is_met:
            return
        for each in latest:
            yield f"  matches: {each}"
        for miss in nearest:
            yield f"  near: {miss.request}"
            yield from (f"    {difference}" for difference in miss.differences)
        earliest_ms = min([since_ms, *(each.request.received_ms for each in nearest)])
        entries = [
            entry
            for entry in broker.history.latest(_MAX_HISTORY_LINES)
            if entry.at_ms >= earliest_ms
        ]
        yield from explain.lines_of_failure(entries)


@dataclass(frozen=True, slots=True)
class ClearedRequests:
    """The result of the removal of all requests from the log."""

    removed: Annotated[int, About("Number of requests that the log had.")]


@dataclass(frozen=True, slots=True)
class ClearRequests:
    """Remove all requests from the log, and go on logging."""

    async def perform(self, broker: Broker) -> ClearedRequests:
        """Remove the requests that have ended."""
        return ClearedRequests(broker.request_log.clear())


@dataclass(frozen=True, slots=True)
class StopRequestLog:
    """Remove all requests from the log, and stop logging until the next command about requests."""

    async def perform(self, broker: Broker) -> ClearedRequests:
        """Stop logging."""
        return ClearedRequests(broker.stop_request_log())


def recorded(logged: LoggedRequest) -> RecordedRequest:
    """Return a request in the form of answers."""
    exchange = logged.exchange
    context = exchange.context
    answered_ms = exchange.answered_ms
    host = context.client_host.removeprefix("/")
    port = None if context.connection is None else context.connection.port
    return RecordedRequest(
        number=logged.number,
        api=codec.api_name(exchange.api_key),
        version=exchange.version,
        correlation_id=exchange.correlation_id,
        received_ms=exchange.received_ms,
        received_iso=iso_of(exchange.received_ms),
        latency_ms=None if answered_ms is None else answered_ms - exchange.received_ms,
        node=exchange.node.id,
        listener=context.listener,
        client=host if port is None else f"{host}:{port}",
        client_id=exchange.client_id,
        software=None if context.client_software is None else " ".join(context.client_software),
        principal=context.principal,
        groups=logged.names(Entity.GROUP),
        topics=logged.names(Entity.TOPIC),
        transactional_ids=logged.names(Entity.TRANSACTIONAL_ID),
        request_bytes=exchange.request_bytes,
        answer_bytes=exchange.answer_bytes,
        errors=tuple(map(error_name, logged.error_codes())),
        reasons=tuple(_reason(each.error) for each in exchange.refusals),
        fault=exchange.fault,
        closed=exchange.closing_reason,
        request=logged.request,
        response=logged.response,
    )


def _reason(error: Any) -> str:  # noqa: ANN401 - a KafkaError
    return f"{error.code.name}: {error.explanation or error.message or error.code.message}"


def line_of(request: RecordedRequest) -> str:
    """Return a request as one line."""
    names = [*request.groups, *request.transactional_ids, *request.topics]
    shown = " ".join(truncate(each, MAX_NAME_LENGTH) for each in names[:_NEAREST])
    shown += " …" if len(names) > _NEAREST else ""
    latency = "pending" if request.latency_ms is None else f"{request.latency_ms} ms"
    status = "" if request.latency_ms is None else "ok"
    errors = " ".join(request.errors) or ("" if request.closed is None else "closed")
    parts = (
        request.received_iso,
        "-" if request.number is None else f"#{request.number}",
        truncate(request.client_id or request.client, MAX_NAME_LENGTH),
        f"{request.api} v{request.version}",
        shown,
        errors or status,
        latency,
        "" if request.fault is None else f"fault {request.fault}",
    )
    return " ".join(part for part in parts if part)


def _requests(log: RequestLog, since: int) -> Iterable[LoggedRequest]:
    return (*log.after(since), *log.pending())


def _each(requests: Iterable[LoggedRequest]) -> AsyncIterator[LoggedRequest]:
    return in_turns(requests, REQUESTS_PER_TURN)


def _lines(listed: RequestList, given: Mapping[str, object]) -> list[str]:
    del given
    return [line_of(each) for each in listed.requests] or ["no requests"]


_PATH: Final = "/v1/requests"
_WORD: Final = "requests"

COMMANDS = Family(
    (
        Row(
            ListRequests,
            RequestList,
            "GET",
            _PATH,
            (Words(_WORD),),
            _lines,
            pieces=lambda command, broker: command.json_pieces(broker),
            json_lines=lambda command, broker: command.json_lines(broker),
        ),
        Row(
            StreamRequests,
            RecordedRequest,
            "GET",
            f"{_PATH}/stream",
            (Words(_WORD, "print each request when it ends, until Ctrl-C", flag="follow"),),
            one_line(line_of),
            pieces=lambda command, broker: command.events(broker),
            media_type="text/event-stream",
        ),
        Row(
            ExpectRequests,
            Expectation,
            "POST",
            f"{_PATH}/expect",
            example={
                "api": "Produce",
                "topic": "orders",
                "fields": {"acks": -1},
                "times": 3,
                "within_ms": 100,
            },
            status=Status((MET, UNMET), lambda _, answer: MET if answer.met else UNMET),
        ),
        Row(ClearRequests, ClearedRequests, "DELETE", _PATH),
        Row(StopRequestLog, ClearedRequests, "POST", f"{_PATH}/stop", example={}),
    ),
    {_WORD: "Print the requests that clients sent to a running broker, and their answers."},
)
