"""The player: drives a target through the steps of a capture, and has each of its answers judged.

One step after the other: what is sent waits for nothing, what was seen is waited for. So requests
are outstanding together as they were, and none goes out before what its client had seen by then.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.capture.messages import api_name
from kafkalite.control.kafka_client import UnreachableError
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.compare import Difference
from kafkalite.replay.findings import Circumstances, Severity
from kafkalite.replay.judging import WHOLE, Judge
from kafkalite.replay.lanes import Lanes
from kafkalite.replay.mapping import Mapping
from kafkalite.replay.outgoing import Outgoing
from kafkalite.replay.overtaking import Overtaking
from kafkalite.replay.pace import pause
from kafkalite.replay.patience import GivenUpError, Patience
from kafkalite.replay.plan import Await, Close, LeftOut, Open, Send
from kafkalite.replay.races import Races
from kafkalite.replay.refusals import CANNOT_BE_READ, NOT_SERVED, TOO_FAR_AHEAD
from kafkalite.replay.report import ReplayReport
from kafkalite.replay.routing import Routing
from kafkalite.replay.topic_ids import TopicIds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.capture.model import Exchange
    from kafkalite.replay.lanes import Lane, Pending
    from kafkalite.replay.options import ReplayOptions
    from kafkalite.replay.pace import Pace
    from kafkalite.replay.plan import Step
    from kafkalite.replay.races import UnderWay
    from kafkalite.replay.routing import Part, Sending
    from kafkalite.replay.target import Target

CONNECT_S = 10.0
"""How long the target may take to let a connection in."""

_CHANGES_METADATA = frozenset((19, 20, 33, 37, 44))
"""CreateTopics, DeleteTopics, AlterConfigs, CreatePartitions, IncrementalAlterConfigs."""
_SETTLING_NS = 500_000_000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 0.5
"""How soon, and how late at most, a target that asks to try again is asked again."""
_TURN = 64
"""Steps between which other tasks of the loop get their turn."""
_S_NS = 1_000_000_000


@dataclass(slots=True)
class _Flight:
    """What is on its way to one node, or back from it."""

    part: Part
    lane: Lane
    pending: Pending
    answer: bytes = b""


@dataclass(slots=True)
class _Sent:
    """A request that was sent, and its answers that are awaited: one from each node asked."""

    exchange: Exchange
    sending: Sending
    flights: list[_Flight] = field(default_factory=list)
    race: UnderWay | None = None
    """None where no answer is awaited."""


class Player:
    """Plays one capture on one target."""

    def __init__(self, target: Target, pace: Pace, options: ReplayOptions) -> None:
        """`pace` is the one that the options ask for."""
        patience_s = options.patience_s
        self.report = ReplayReport()
        self._meaning = meaning = Mapping()
        self._target = target
        self._pace = pace
        self._progress = options.progress
        self._patience = Patience(patience_s, target.reach, is_driven=pace.is_driven)
        self._outgoing = Outgoing(meaning, pace.hurry)
        self._judge = Judge(self.report, meaning, options.explained)
        self._routing = Routing(target, meaning)
        self._topic_ids = TopicIds(target, meaning)
        self._lanes = Lanes(target.address, options.access, min(CONNECT_S, 2 * patience_s))
        self._races = Races()
        self._overtaking = Overtaking()
        self._sent: dict[int, dict[int, _Sent]] = {}
        """By connection, and by position on it."""
        self._in_vain: set[int] = set()
        """APIs that were asked again, as often as there are tries."""
        self._changed_ns = -_SETTLING_NS
        """When topics or configurations were last changed, as recorded."""

    async def play(self, steps: Iterable[Step]) -> ReplayReport:
        """Take the steps, and judge what came of them.

        Where the target is gone before the end, the report says so.
        """
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
                    self.report.seconds = loop.time() - began_s
                    self.report.recorded_seconds = (last_ns - first_ns) / _S_NS
                    self._progress(self.report, last_ns)
            self._lanes.flush()
            await self._judge.records(self._target)
        except (GivenUpError, UnreachableError) as error:
            self.report.broken_off = str(error)
        finally:
            await self._lanes.close_all()
            self.report.connections = self._lanes.opened
        self._judge.note_shifts()
        self.report.seconds = loop.time() - began_s
        self.report.recorded_seconds = ((last_ns or 0) - (first_ns or 0)) / _S_NS
        return self.report

    async def _take(self, step: Step) -> None:
        if isinstance(step, Send):
            if self._pace.hurry:
                self._lanes.flush()
            await self._pace.due(step.at_ns)
            await self._send(step.exchange)
        elif isinstance(step, Await):
            self._lanes.flush()
            await self._await(step.exchange, step.at_ns)
        elif isinstance(step, Open):
            await self._lanes.to(step.connection.number, self._routing.home(step.connection))
        elif isinstance(step, Close):
            self._lanes.flush()
            await self._pace.due(step.at_ns)
            self._lanes.close(step.connection.number)
        elif isinstance(step, LeftOut):
            self.report.skipped[api_name(step.exchange.api_key), TOO_FAR_AHEAD] += 1
            self._routing.look_at(step.exchange)

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
        sent = _Sent(exchange, await self._routing.sending(exchange, frame))
        self.report.requests += 1
        self.report.apis[api] += 1
        if exchange.response is not None:
            sent.race = self._races.begin(exchange)
            self._sent.setdefault(exchange.connection.number, {})[exchange.position] = sent
        await self._go_out(sent, sent.sending.parts)

    async def _go_out(self, sent: _Sent, parts: Iterable[Part]) -> None:
        """Send what goes to each node."""
        exchange = sent.exchange
        api_key, number = exchange.api_key, exchange.connection.number
        for part in parts:
            if self._overtaking.is_possible(api_key, part.node, number):
                self._lanes.flush()
                await self._target.catch_up(part.node)
                self._overtaking.seen(part.node)
            lane = await self._lanes.to(number, part.node)
            pending = lane.send(part.frame, exchange.correlation_id)
            self._overtaking.sent(api_key, part.node, number, pending)
            self._pace.sent(pending)
            sent.flights.append(_Flight(part, lane, pending))
            await lane.drained()

    def _why_not(self, exchange: Exchange) -> str | None:
        if self._target.serves(exchange.api_key, exchange.api_version):
            return self._outgoing.why_not(exchange)
        told = f"version {exchange.api_version} is not served"
        self._judge.tell(exchange, Difference(WHOLE, "an answer", told), Severity.UNANSWERED)
        return NOT_SERVED

    async def _await(self, exchange: Exchange, at_ns: int) -> None:
        number = exchange.connection.number
        outstanding = self._sent.get(number)
        sent = None if outstanding is None else outstanding.pop(exchange.position, None)
        if outstanding is not None and not outstanding:
            del self._sent[number]
        self._routing.look_at(exchange)
        if sent is None:
            return  # it was not sent
        is_raced = sent.race is not None and self._races.end(sent.race)
        answer = await self._answer(sent, at_ns)
        if answer is None:
            return
        differences: list[Difference] | None = self._judge.differences(exchange, answer)
        if differences and exchange.api_key not in self._in_vain:
            differences = await self._again(sent, at_ns, differences)
        if differences is None:
            return
        circumstances = Circumstances(
            api_name(exchange.api_key),
            is_raced=is_raced,
            is_settling=exchange.sent_ns - self._changed_ns < _SETTLING_NS,
            is_placed_otherwise=self._target.is_of_several or self._meaning.nodes is not None,
        )
        self._judge.weigh(exchange, differences, circumstances)
        if exchange.api_key in _CHANGES_METADATA:
            self._changed_ns = at_ns

    async def _again(
        self, sent: _Sent, at_ns: int, differences: list[Difference]
    ) -> list[Difference] | None:
        """Ask again as long as the target asks for that, which the recorded broker did not.

        Returns in what the last answer differs, None where there is none.
        """
        pause_s = _FIRST_PAUSE_S
        tried = 0
        exchange = sent.exchange
        retry = self._routing.retry(exchange, sent.sending)
        while True:
            tries = [
                self._judge.tries(exchange, each.answer, differences, retry)
                for each in sent.flights
            ]
            again = [each for each, most in zip(sent.flights, tries, strict=True) if most > tried]
            if not again:
                break
            tried += 1
            await pause(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            self._routing.forget(sent.sending)
            for each in again:
                more = await self._routing.again(exchange, sent.sending, each.part, each.answer)
                if more.kept is None:
                    sent.flights.remove(each)
                else:
                    each.answer = more.kept
                await self._go_out(sent, more.parts)
            self._lanes.flush()
            found = await self._answer(sent, at_ns)
            if found is None:
                return None
            differences = self._judge.differences(exchange, found)
        if any(tries):
            self._in_vain.add(exchange.api_key)
        return differences

    async def _answer(self, sent: _Sent, at_ns: int) -> bytes | None:
        """Return what the target answers; None, which is told, where it does not."""
        exchange = sent.exchange
        for flight in sent.flights:
            lane, pending = flight.lane, flight.pending
            if flight.answer:
                continue
            patience_s = self._patience.seconds(exchange)
            if not await self._pace.arrived(pending, at_ns, patience_s):
                self._miss(exchange, "none in time")
                await self._patience.silent()
                return None
            if pending.response is None:
                self._miss(exchange, lane.why_lost)
                if not lane.is_counted:
                    lane.is_counted = True
                    await self._patience.ended(f"all it gives is {lane.why_lost}")
                return None
            flight.answer = pending.response
        self._patience.answered()
        return self._routing.answer(exchange, sent.sending, [each.answer for each in sent.flights])

    def _miss(self, exchange: Exchange, told: str) -> None:
        self._judge.tell(exchange, Difference(WHOLE, "an answer", told), Severity.UNANSWERED)
