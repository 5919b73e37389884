"""Judging answers: each beside the recorded one, and records fetched beside all there were."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from kafkalite.capture.messages import (
    api_name,
    is_known,
    parse_request,
    parse_response,
    response_start,
    response_version,
    stranger_title,
)
from kafkalite.capture.model import Direction
from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.replay.compare import ABSENT, Comparison, Difference, is_error
from kafkalite.replay.fetched import Fetched
from kafkalite.replay.findings import Severity, judge
from kafkalite.replay.known_topics import METADATA
from kafkalite.replay.mapping import Scope
from kafkalite.replay.report import Where
from kafkalite.replay.shapes import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.model import Exchange
    from kafkalite.replay.findings import Circumstances, Explained
    from kafkalite.replay.mapping import Mapping
    from kafkalite.replay.refusals import Retry
    from kafkalite.replay.report import ReplayReport
    from kafkalite.replay.target import Target

WHOLE = "(response)"
"""The path of what is told of a whole answer."""

_PARTITIONS = "topics.partitions"
_ERROR = Struct(">h")
_ERROR_AT = 4


class Judge:
    """Compares a target's answers with the recorded ones, and tells a report what differs."""

    def __init__(
        self, report: ReplayReport, meaning: Mapping, explained: Sequence[Explained]
    ) -> None:
        self._report = report
        self._meaning = meaning
        self._explained = explained
        self._fetched = Fetched(meaning)
        self._comparison = Comparison(meaning, self._fetched.take)
        self._narrower: set[str] = set()
        """Topics that have more partitions in the capture."""

    def differences(self, exchange: Exchange, answer: bytes) -> list[Difference]:
        """Return in what an answer of the target differs; what it makes up is learnt."""
        try:
            return self._differences(exchange, answer)
        except ProtocolViolation as violation:
            return [Difference(WHOLE, "a message", violation.reason)]

    def tries(
        self, exchange: Exchange, answer: bytes, differences: Sequence[Difference], retry: Retry
    ) -> int:
        """Return how often to ask again what the target, and it alone, refused for a moment."""
        errors = retry.errors
        if not any(
            is_error(each.path) and each.target in errors and each.recorded not in errors
            for each in differences
        ):
            return 0
        version = response_version(answer, exchange.api_key, exchange.api_version)
        shape = shape_of(exchange.api_key, version, Direction.RESPONSE)
        told = _parsed(answer, exchange.api_key, exchange.api_version)
        return retry.tries(shape, told)

    def weigh(
        self,
        exchange: Exchange,
        differences: Sequence[Difference],
        circumstances: Circumstances,
    ) -> None:
        """Tell the report what an answer differs in, and how grave that is."""
        self._report.responses += 1
        self._report.equal += not differences
        for difference in differences:
            verdict = judge(difference, circumstances, self._explained)
            self._report.add(verdict.severity, where(exchange), difference, verdict.reason)
            is_of_metadata = exchange.api_key == METADATA
            if is_of_metadata and difference.path == _PARTITIONS and difference.target == ABSENT:
                self._narrower.add(difference.row)

    def tell(
        self,
        exchange: Exchange,
        difference: Difference,
        severity: Severity = Severity.DIFFERENCE,
    ) -> None:
        """Tell what no table weighs."""
        self._report.add(severity, where(exchange), difference)

    def _differences(self, exchange: Exchange, answer: bytes) -> list[Difference]:
        assert exchange.response is not None
        api_key, version = exchange.api_key, exchange.api_version
        written_in = response_version(exchange.response, api_key, version)
        if not is_known(api_key, written_in):
            if answer != exchange.response:
                self._report.unread[stranger_title(api_key, written_in)] += 1
            return []
        shape = shape_of(api_key, written_in, Direction.RESPONSE)
        if answer == exchange.response and not shape.kinds:
            return []
        if response_version(answer, api_key, version) != written_in:
            told = _top_error(answer)
            return [Difference("error_code", _top_error(exchange.response), told)]
        recorded = parse_response(exchange)
        target = _parsed(answer, api_key, version)
        return self._comparison.compare(shape, recorded, target, self._scope(exchange))

    def _scope(self, exchange: Exchange) -> Scope:
        """Return whose counters an answer tells that does not say so itself."""
        shape = shape_of(exchange.api_key, exchange.api_version, Direction.REQUEST)
        if not (shape.groups or shape.producers):
            return Scope()
        try:
            return shape.scope(parse_request(exchange), Scope(), self._meaning)
        except ProtocolViolation:
            return Scope()

    async def records(self, target: Target) -> None:
        """Judge what was fetched as a whole; what the target has not shown it is asked for."""
        for partition, offsets in self._fetched.missing().items():
            for data in await target.records(partition, offsets[0], offsets[-1]):
                self._fetched.show(partition, data)
        for partition, offset, is_missing in self._fetched.differing():
            shown = "no record" if is_missing else "another record"
            self._report.add(
                Severity.DIFFERENCE,
                Where(0, f"{partition.topic}-{partition.number}", None, "Fetch", 0),
                Difference("responses.partitions.records", f"a record at offset {offset}", shown),
            )
        if self._fetched.unread:
            self._report.notes.append(
                f"{self._fetched.unread} batches of records could not be compared"
            )

    def note_shifts(self) -> None:
        """Note the counters that the target counts otherwise, and how it differs in size."""
        for title, times in sorted(self._report.unread.items()):
            self._report.notes.append(f"{times} answers were not compared: {title}")
        if self._meaning.nodes is not None:
            recorded, there = self._meaning.nodes
            self._report.notes.append(
                f"the recorded cluster has {recorded} nodes, the target {there}"
            )
        for shift in self._meaning.shifts():
            whose = " ".join(str(part) for part in shift.scope if part is not None)
            side = "above" if shift.by > 0 else "below"
            self._report.notes.append(
                f"{shift.kind.value}, {whose}: the target's is {abs(shift.by)} {side} the recorded"
            )
        for topic in sorted(self._narrower):
            self._report.notes.append(
                f"topic {topic} has fewer partitions at the target: "
                "create it there with as many as were recorded, and replay again"
            )


def where(exchange: Exchange) -> Where:
    """Return where an exchange stands in its capture."""
    return Where(
        exchange.sent_ns,
        str(exchange.connection),
        exchange.client_id,
        api_name(exchange.api_key),
        exchange.api_version,
    )


def _top_error(frame: bytes) -> int:
    """Return the error of an ApiVersions answer, which stands first in every version."""
    error: int = _ERROR.unpack_from(frame, _ERROR_AT)[0]
    return error


def _parsed(frame: bytes, api_key: int, version: int) -> Any:  # noqa: ANN401 - any response
    """Return an answer of the target; raises ProtocolViolation where it is none."""
    start = response_start(frame, api_key, version)
    try:
        parse = codec.response_parser(api_key, response_version(frame, api_key, version))
        message, _ = parse(frame, start, len(frame))
    except (KeyError, *codec.PARSE_ERRORS) as error:
        raise ProtocolViolation(f"the target's answer cannot be read: {error}") from None
    return message
