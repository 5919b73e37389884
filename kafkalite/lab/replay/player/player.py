"""`Player`: sends the requests of a capture to a target, and passes the responses to the checker.

Steps are executed in order. A Send step does not wait for the response. An Await step does, at the
position of the recorded response. Therefore the same requests are pending together as in the
recording, and a request is sent after all responses that its client had received before it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakSet

from kafkalite.capture.reading.messages import api_name
from kafkalite.client.connection import UnreachableError
from kafkalite.lab.replay.comparison.compare import Difference
from kafkalite.lab.replay.comparison.findings import Circumstances, Severity
from kafkalite.lab.replay.comparison.refusals import (
    BEYOND_LOOK_AHEAD,
    INCOMPLETE_REQUEST,
    NOT_SERVED,
)
from kafkalite.lab.replay.player.connections import TargetConnections
from kafkalite.lab.replay.player.ordering import RequestOrdering
from kafkalite.lab.replay.player.pacing import pause
from kafkalite.lab.replay.player.races import Races
from kafkalite.lab.replay.player.requests import OutgoingRequests
from kafkalite.lab.replay.player.response_checks import WHOLE_RESPONSE, ResponseChecker
from kafkalite.lab.replay.player.routing import Routing
from kafkalite.lab.replay.player.steps import Await, Close, Open, Send, Skip
from kafkalite.lab.replay.player.timeouts import ResponseTimeouts, TargetUnavailableError
from kafkalite.lab.replay.player.topic_ids import TopicIds
from kafkalite.lab.replay.report import ReplayReport
from kafkalite.lab.replay.rewriting.id_mapping import IdMapping
from kafkalite.ports.units import NANOSECONDS_PER_SECOND
from kafkalite.protocol.catalogue import ChangedState, keys_where
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.capture.model import Exchange
    from kafkalite.client.connection import Connection
    from kafkalite.client.exchanges import PendingResponse
    from kafkalite.lab.replay.options import ReplayOptions
    from kafkalite.lab.replay.player.pacing import Pace
    from kafkalite.lab.replay.player.races import RequestInFlight
    from kafkalite.lab.replay.player.routing import PlannedRequest, RequestPart
    from kafkalite.lab.replay.player.steps import Step
    from kafkalite.lab.replay.player.target import Target

CONNECT_TIMEOUT_S = 10.0
"""Maximum time in which the target must accept a connection."""

_METADATA_CHANGE_APIS = keys_where(
    lambda row: row.changes in {ChangedState.TOPICS, ChangedState.CONFIGS}
)
"""CreateTopics, DeleteTopics, AlterConfigs, CreatePartitions, IncrementalAlterConfigs."""
_METADATA_CHANGE_NS = 500_000_000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.5
"""The first and the longest pause before a retry."""
_STEPS_PER_YIELD = 64
"""Number of steps after which other tasks of the event loop run."""


@dataclass(slots=True)
class _PartInFlight:
    """A part of a request that was sent to one node, and its response."""

    part: RequestPart
    connection: Connection
    pending: PendingResponse
    response_frame: bytes = b""


@dataclass(slots=True)
class _SentRequest:
    """A request that was sent, with one part per node."""

    exchange: Exchange
    planned: PlannedRequest
    in_flight: list[_PartInFlight] = field(default_factory=list)
    race: RequestInFlight | None = None
    """None if the capture has no response."""


class Player:
    """Replays one capture on one target."""

    def __init__(self, target: Target, pace: Pace, options: ReplayOptions) -> None:
        """`pace` must be the one that the options select."""
        timeout_s = options.timeout_s
        self.report = ReplayReport()
        self._mapping = mapping = IdMapping()
        self._target = target
        self._pace = pace
        self._progress = options.progress
        self._timeouts = ResponseTimeouts(
            timeout_s, target.check_reachable, is_driven=pace.is_driven
        )
        self._outgoing = OutgoingRequests(mapping, pace.wait_speedup)
        self._checker = ResponseChecker(self.report, mapping, options.explained)
        self._routing = Routing(target, mapping)
        self._topic_ids = TopicIds(target, mapping)
        self._connections = TargetConnections(
            target.address, options.access, min(CONNECT_TIMEOUT_S, 2 * timeout_s)
        )
        self._counted_lost_connections: WeakSet[Connection] = WeakSet()
        """The lost connections that `_timeouts` has counted."""
        self._races = Races()
        self._ordering = RequestOrdering()
        self._sent_requests: dict[int, dict[int, _SentRequest]] = {}
        """Number of the recorded connection → position on it → request."""
        self._exhausted_apis: set[int] = set()
        """APIs of which one request used all its retries; their requests are no longer retried."""
        self._metadata_changed_ns = -_METADATA_CHANGE_NS
        """Recorded time of the last change of topics or configurations."""

    async def play(self, steps: Iterable[Step]) -> ReplayReport:
        """Execute the steps, and return the report.

        If the target becomes unavailable, `ReplayReport.abort_reason` has the reason.
        """
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        first_ns = last_ns = None
        try:
            for number, step in enumerate(steps):
                if first_ns is None:
                    first_ns = step.at_ns
                    self._pace.start(first_ns)
                last_ns = step.at_ns
                await self._execute(step)
                if number % _STEPS_PER_YIELD == 0:
                    await asyncio.sleep(0)
                    self.report.seconds = loop.time() - began_s
                    self.report.recorded_seconds = (last_ns - first_ns) / NANOSECONDS_PER_SECOND
                    self._progress(self.report, last_ns)
            self._connections.flush()
            await self._checker.check_records(self._target)
        except (TargetUnavailableError, UnreachableError) as error:
            self.report.abort_reason = str(error)
        finally:
            await self._connections.close_all()
            self.report.connections = self._connections.opened_count
        self._checker.add_notes()
        self.report.seconds = loop.time() - began_s
        self.report.recorded_seconds = ((last_ns or 0) - (first_ns or 0)) / NANOSECONDS_PER_SECOND
        return self.report

    async def _execute(self, step: Step) -> None:
        if isinstance(step, Send):
            if self._pace.wait_speedup:
                self._connections.flush()
            await self._pace.wait_until_due(step.at_ns)
            await self._send(step.exchange)
        elif isinstance(step, Await):
            self._connections.flush()
            await self._await(step.exchange, step.at_ns)
        elif isinstance(step, Open):
            await self._connections.get(
                step.connection.number, self._routing.default_node(step.connection)
            )
        elif isinstance(step, Close):
            self._connections.flush()
            await self._pace.wait_until_due(step.at_ns)
            self._connections.close(step.connection.number)
        elif isinstance(step, Skip):
            self.report.skipped[api_name(step.exchange.api_key), BEYOND_LOOK_AHEAD] += 1
            self._routing.learn_from(step.exchange)

    async def _send(self, exchange: Exchange) -> None:
        api = api_name(exchange.api_key)
        self._topic_ids.learn_from(exchange)
        skip_reason = self._skip_reason(exchange)
        frame = b""
        if skip_reason is None:
            await self._topic_ids.resolve(exchange.request)
            try:
                frame = self._outgoing.frame(exchange)
            except ProtocolViolation:
                skip_reason = INCOMPLETE_REQUEST
        if skip_reason is not None:
            self.report.skipped[api, skip_reason] += 1
            return
        sent = _SentRequest(exchange, await self._routing.plan(exchange, frame))
        self.report.requests += 1
        self.report.apis[api] += 1
        if exchange.response is not None:
            sent.race = self._races.begin(exchange)
            self._sent_requests.setdefault(exchange.connection.number, {})[exchange.position] = sent
        await self._send_parts(sent, sent.planned.parts)

    async def _send_parts(self, sent: _SentRequest, parts: Iterable[RequestPart]) -> None:
        """Send each part to its node."""
        exchange = sent.exchange
        api_key, number = exchange.api_key, exchange.connection.number
        for part in parts:
            if self._ordering.may_overtake(api_key, part.node, number):
                self._connections.flush()
                await self._target.wait_until_read(part.node)
                self._ordering.mark_read(part.node)
            connection = await self._connections.get(number, part.node)
            pending = connection.send(part.frame, exchange.correlation_id)
            self._ordering.add_sent(api_key, part.node, number, pending)
            self._pace.add_sent(pending)
            sent.in_flight.append(_PartInFlight(part, connection, pending))
            await connection.drain()

    def _skip_reason(self, exchange: Exchange) -> str | None:
        if self._target.serves(exchange.api_key, exchange.api_version):
            return self._outgoing.skip_reason(exchange)
        reason = f"version {exchange.api_version} is not served"
        self._report_unanswered(exchange, reason)
        return NOT_SERVED

    async def _await(self, exchange: Exchange, at_ns: int) -> None:
        number = exchange.connection.number
        outstanding = self._sent_requests.get(number)
        sent = None if outstanding is None else outstanding.pop(exchange.position, None)
        if outstanding is not None and not outstanding:
            del self._sent_requests[number]
        self._routing.learn_from(exchange)
        if sent is None:
            return  # the request was not sent
        has_concurrent_writes = sent.race is not None and self._races.end(sent.race)
        response_frame = await self._wait_for_response(sent, at_ns)
        if response_frame is None:
            return
        differences: list[Difference] | None = self._checker.compare(exchange, response_frame)
        if differences and exchange.api_key not in self._exhausted_apis:
            differences = await self._retry(sent, at_ns, differences)
        if differences is None:
            return
        circumstances = Circumstances(
            api_name(exchange.api_key),
            has_concurrent_writes=has_concurrent_writes,
            follows_metadata_change=exchange.sent_ns - self._metadata_changed_ns
            < _METADATA_CHANGE_NS,
            has_different_placement=self._target.has_several_nodes
            or self._mapping.node_counts is not None,
        )
        self._checker.report_differences(exchange, differences, circumstances)
        if exchange.api_key in _METADATA_CHANGE_APIS:
            self._metadata_changed_ns = at_ns

    async def _retry(
        self, sent: _SentRequest, at_ns: int, differences: list[Difference]
    ) -> list[Difference] | None:
        """Retry while the target returns retriable errors that the recorded broker did not return.

        Returns the differences of the last response, None if there is no response.
        """
        pause_s = _FIRST_PAUSE_S
        retry_count = 0
        exchange = sent.exchange
        retry = self._routing.retry_policy(exchange, sent.planned)
        while True:
            limits = [
                self._checker.max_retries(
                    exchange, part_in_flight.response_frame, differences, retry
                )
                for part_in_flight in sent.in_flight
            ]
            parts_to_retry = [
                part_in_flight
                for part_in_flight, limit in zip(sent.in_flight, limits, strict=True)
                if limit > retry_count
            ]
            if not parts_to_retry:
                break
            retry_count += 1
            await pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            self._routing.forget(sent.planned)
            for part_in_flight in parts_to_retry:
                resend = await self._routing.resend(
                    exchange, sent.planned, part_in_flight.part, part_in_flight.response_frame
                )
                if resend.partial_response is None:
                    sent.in_flight.remove(part_in_flight)
                else:
                    part_in_flight.response_frame = resend.partial_response
                await self._send_parts(sent, resend.parts)
            self._connections.flush()
            response_frame = await self._wait_for_response(sent, at_ns)
            if response_frame is None:
                return None
            differences = self._checker.compare(exchange, response_frame)
        if any(limits):
            self._exhausted_apis.add(exchange.api_key)
        return differences

    async def _wait_for_response(self, sent: _SentRequest, at_ns: int) -> bytes | None:
        """Return the target's response; if there is none, report that and return None."""
        exchange = sent.exchange
        for part_in_flight in sent.in_flight:
            connection, pending = part_in_flight.connection, part_in_flight.pending
            if part_in_flight.response_frame:
                continue
            timeout_s = self._timeouts.timeout_s(exchange)
            if not await self._pace.wait_for_response(pending, at_ns, timeout_s):
                self._report_unanswered(exchange, "no response in time")
                await self._timeouts.count_timeout()
                return None
            if pending.frame is None:
                self._report_unanswered(exchange, connection.loss_reason)
                if connection not in self._counted_lost_connections:
                    self._counted_lost_connections.add(connection)
                    await self._timeouts.count_lost_connection(connection.loss_reason)
                return None
            part_in_flight.response_frame = pending.frame
        self._timeouts.count_response()
        return self._routing.merge_responses(
            exchange,
            sent.planned,
            [part_in_flight.response_frame for part_in_flight in sent.in_flight],
        )

    def _report_unanswered(self, exchange: Exchange, reason: str) -> None:
        difference = Difference(WHOLE_RESPONSE, "a response", reason)
        self._checker.report_difference(exchange, difference, Severity.UNANSWERED)
