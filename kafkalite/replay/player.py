"""The player: drives a target through the steps of a capture, and has each of its answers judged.

One step after the other: what is sent waits for nothing, what was seen is waited for. So requests
are outstanding together as they were, and none goes out before what its client had seen by then.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.capture.messages import api_name
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.compare import Difference
from kafkalite.replay.findings import Severity
from kafkalite.replay.judging import WHOLE, Judge
from kafkalite.replay.lanes import Lane
from kafkalite.replay.mapping import Mapping
from kafkalite.replay.outgoing import Outgoing
from kafkalite.replay.plan import Await, Close, Open, Send
from kafkalite.replay.refusals import CANNOT_BE_READ, NOT_SERVED
from kafkalite.replay.report import ReplayReport
from kafkalite.replay.target import Routes, Target
from kafkalite.replay.topic_ids import TopicIds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.capture.model import Connection, Exchange
    from kafkalite.replay.findings import Explained
    from kafkalite.replay.lanes import Pending
    from kafkalite.replay.pace import Pace
    from kafkalite.replay.plan import Step

CONNECT_S = 10.0
"""How long the target may take to let a connection in."""

_WRITERS = frozenset((0, 8, 11, 13, 14, 19, 20, 21, 24, 26, 28, 37, 47, 68, 76, 88))
"""APIs that change what others read: Produce, topics, records, transactions, groups, offsets."""
_CHANGES_METADATA = frozenset((19, 20, 33, 37, 44))
"""CreateTopics, DeleteTopics, AlterConfigs, CreatePartitions, IncrementalAlterConfigs."""
_SETTLING_NS = 500_000_000
_PATIENT_TIMES = 3
_IMPATIENT_S = 1.0
"""A target that was silent so often is waited for no longer than that."""
_TURN = 64
"""Steps between which other tasks of the loop get their turn."""
_S_NS = 1_000_000_000


@dataclass(slots=True)
class _Sent:
    """A request that was sent, and its answer that is awaited."""

    exchange: Exchange
    pending: Pending
    is_raced: bool = False
    """Whether requests of other connections that change the same things were under way."""


class Player:
    """Plays one capture on one target."""

    def __init__(
        self,
        target: Target,
        pace: Pace,
        *,
        patience_s: float,
        explained: Sequence[Explained] = (),
    ) -> None:
        self.report = ReplayReport()
        meaning = Mapping()
        self._target = target
        self._pace = pace
        self._patience_s = patience_s
        self._outgoing = Outgoing(meaning, pace.hurry)
        self._judge = Judge(self.report, meaning, explained)
        self._routes = Routes(target, meaning)
        self._topic_ids = TopicIds(target, meaning)
        self._lanes: dict[int, Lane] = {}
        self._sent: dict[tuple[int, int], _Sent] = {}
        self._unflushed: Lane | None = None
        self._silences = 0
        self._changed_ns = -_SETTLING_NS
        """When topics or configurations were last changed, as recorded."""

    async def play(self, steps: Iterable[Step]) -> ReplayReport:
        """Take the steps, and judge what came of them; OSError where the target is not there."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        first_ns = last_ns = None
        try:
            for number, step in enumerate(steps):
                if first_ns is None:
                    first_ns = step.at_ns
                    self._pace.begin(first_ns)
                last_ns = step.at_ns
                await self._take(step)
                if number % _TURN == 0:
                    await asyncio.sleep(0)
        finally:
            self._flush()
            for lane in self._lanes.values():
                lane.close()
        await self._judge.records(self._target)
        self._judge.note_shifts()
        self.report.seconds = loop.time() - began_s
        self.report.recorded_seconds = ((last_ns or 0) - (first_ns or 0)) / _S_NS
        return self.report

    async def _take(self, step: Step) -> None:
        if isinstance(step, Send):
            if self._pace.hurry:
                self._flush()
            await self._pace.due(step.at_ns)
            await self._send(step.exchange)
        elif isinstance(step, Await):
            self._flush()
            await self._await(step.exchange, step.at_ns)
        elif isinstance(step, Open):
            await self._open(step.connection)
        elif isinstance(step, Close):
            self._flush()
            await self._pace.due(step.at_ns)
            lane = self._lanes.pop(step.connection.number, None)
            if lane is not None:
                lane.close()

    def _flush(self) -> None:
        """Let go out what was sent last: before anything of another connection does."""
        if self._unflushed is not None:
            self._unflushed.flush()
            self._unflushed = None

    async def _open(self, connection: Connection) -> Lane:
        lane = await Lane.open(self._routes.address(connection), CONNECT_S)
        self._lanes[connection.number] = lane
        self.report.connections += 1
        return lane

    async def _send(self, exchange: Exchange) -> None:
        api = api_name(exchange.api_key)
        self._topic_ids.look_ahead(exchange)
        why_not = self._why_not(exchange)
        frame = b""
        if why_not is None:
            await self._topic_ids.resolve(exchange.request)
            try:
                frame = self._outgoing.frame(exchange)
            except ProtocolViolation:
                why_not = CANNOT_BE_READ
        if why_not is not None:
            self.report.skipped[api, why_not] += 1
            return
        lane = self._lanes.get(exchange.connection.number)
        if lane is None or lane.is_lost:
            lane = await self._open(exchange.connection)
        if lane is not self._unflushed:
            self._flush()
            self._unflushed = lane
        is_answered = exchange.response is not None
        pending = lane.send(frame, exchange.correlation_id, is_answered=is_answered)
        self.report.requests += 1
        self.report.apis[api] += 1
        if is_answered:
            sent = _Sent(exchange, pending)
            self._mark_races(sent)
            self._sent[exchange.connection.number, exchange.position] = sent
        await lane.drained()

    def _why_not(self, exchange: Exchange) -> str | None:
        if self._target.serves(exchange.api_key, exchange.api_version):
            return self._outgoing.why_not(exchange)
        told = f"version {exchange.api_version} is not served"
        self._judge.tell(exchange, Difference(WHOLE, "an answer", told), Severity.UNANSWERED)
        return NOT_SERVED

    def _mark_races(self, sent: _Sent) -> None:
        """Remember which requests of several connections were under way together."""
        number = sent.exchange.connection.number
        writes = sent.exchange.api_key in _WRITERS
        for other in self._sent.values():
            if other.exchange.connection.number == number:
                continue
            if other.exchange.api_key in _WRITERS:
                sent.is_raced = True
            if writes:
                other.is_raced = True

    async def _await(self, exchange: Exchange, at_ns: int) -> None:
        sent = self._sent.pop((exchange.connection.number, exchange.position), None)
        self._routes.look_at(exchange)
        if sent is None:
            return  # it was not sent
        pending = sent.pending
        patience_s = self._patience_s if self._silences < _PATIENT_TIMES else _IMPATIENT_S
        if not await self._pace.arrived(pending, at_ns, patience_s):
            self._silences += 1
            told = f"none within {patience_s:g} s"
        elif pending.response is None:
            told = "the end of the connection"
        else:
            is_settling = exchange.sent_ns - self._changed_ns < _SETTLING_NS
            self._judge.answer(
                exchange, pending.response, is_raced=sent.is_raced, is_settling=is_settling
            )
            if exchange.api_key in _CHANGES_METADATA:
                self._changed_ns = at_ns
            return
        self._judge.tell(exchange, Difference(WHOLE, "an answer", told), Severity.UNANSWERED)
