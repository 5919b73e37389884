"""`ResponseChecker`: compares a target's responses and records with the recorded ones."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Direction
from kafkalite.capture.reading.messages import (
    api_name,
    is_known,
    parse_request,
    parse_response,
    response_start,
    response_version,
    unknown_request_title,
)
from kafkalite.lab.replay.comparison.compare import (
    ABSENT,
    Comparison,
    Difference,
    is_error_code,
)
from kafkalite.lab.replay.comparison.fetched_records import FetchedRecords
from kafkalite.lab.replay.comparison.findings import Severity, classify
from kafkalite.lab.replay.comparison.shapes import shape_of
from kafkalite.lab.replay.report import ExchangeSummary
from kafkalite.lab.replay.rewriting.id_mapping import Scope
from kafkalite.lab.replay.standin.topics import METADATA
from kafkalite.ports.texts import count_text
from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.model import Exchange
    from kafkalite.lab.replay.comparison.findings import Circumstances, ExplainedDifference
    from kafkalite.lab.replay.comparison.refusals import RetryPolicy
    from kafkalite.lab.replay.player.target import Target
    from kafkalite.lab.replay.report import ReplayReport
    from kafkalite.lab.replay.rewriting.id_mapping import IdMapping

WHOLE_RESPONSE = "(response)"
"""The path of findings that concern the complete response."""

_PARTITIONS = "topics.partitions"
_ERROR = Struct(">h")
_ERROR_OFFSET = 4


class ResponseChecker:
    """Compares a target's responses with the recorded ones, and adds findings to a report."""

    def __init__(
        self, report: ReplayReport, mapping: IdMapping, explained: Sequence[ExplainedDifference]
    ) -> None:
        self._report = report
        self._mapping = mapping
        self._explained = explained
        self._fetched_records = FetchedRecords(mapping)
        self._comparison = Comparison(mapping, self._fetched_records.add)
        self._topics_with_fewer_partitions: set[str] = set()
        """Topics that have fewer partitions at the target than in the capture."""

    def compare(self, exchange: Exchange, response_frame: bytes) -> list[Difference]:
        """Return the differences of a target's response, and learn the ids generated in it."""
        try:
            return self._compare_response(exchange, response_frame)
        except ProtocolViolation as violation:
            return [Difference(WHOLE_RESPONSE, "a message", violation.reason)]

    def max_retries(
        self,
        exchange: Exchange,
        response_frame: bytes,
        differences: Sequence[Difference],
        policy: RetryPolicy,
    ) -> int:
        """Return the maximum number of retries; 0 unless only the target has a retriable error."""
        errors = policy.errors
        if not any(
            is_error_code(difference.path)
            and difference.target in errors
            and difference.recorded not in errors
            for difference in differences
        ):
            return 0
        version = response_version(response_frame, exchange.api_key, exchange.api_version)
        shape = shape_of(exchange.api_key, version, Direction.RESPONSE)
        received = _parse_response(response_frame, exchange.api_key, exchange.api_version)
        return policy.max_retries(shape, received)

    def report_differences(
        self,
        exchange: Exchange,
        differences: Sequence[Difference],
        circumstances: Circumstances,
    ) -> None:
        """Add the differences of a response to the report, with their severity."""
        self._report.responses += 1
        self._report.equal += not differences
        for difference in differences:
            classification = classify(difference, circumstances, self._explained)
            self._report.add_finding(
                classification.severity,
                summarize_exchange(exchange),
                difference,
                classification.reason,
            )
            is_metadata = exchange.api_key == METADATA
            if is_metadata and difference.path == _PARTITIONS and difference.target == ABSENT:
                self._topics_with_fewer_partitions.add(difference.row)

    def report_difference(
        self,
        exchange: Exchange,
        difference: Difference,
        severity: Severity = Severity.DIFFERENCE,
    ) -> None:
        """Add a difference of a given severity to the report."""
        self._report.add_finding(severity, summarize_exchange(exchange), difference)

    def _compare_response(self, exchange: Exchange, response_frame: bytes) -> list[Difference]:
        assert exchange.response is not None
        api_key, version = exchange.api_key, exchange.api_version
        recorded_version = response_version(exchange.response, api_key, version)
        if not is_known(api_key, recorded_version):
            if response_frame != exchange.response:
                self._report.uncompared_responses[
                    unknown_request_title(api_key, recorded_version)
                ] += 1
            return []
        shape = shape_of(api_key, recorded_version, Direction.RESPONSE)
        if response_frame == exchange.response and not shape.kinds:
            return []
        if response_version(response_frame, api_key, version) != recorded_version:
            received = _top_level_error(response_frame)
            return [Difference("error_code", _top_level_error(exchange.response), received)]
        recorded = parse_response(exchange)
        target = _parse_response(response_frame, api_key, version)
        return self._comparison.compare(shape, recorded, target, self._scope(exchange))

    def _scope(self, exchange: Exchange) -> Scope:
        """Return the scope of a response: the group, member or producer in its request."""
        shape = shape_of(exchange.api_key, exchange.api_version, Direction.REQUEST)
        if not (shape.group_fields or shape.producer_fields):
            return Scope()
        try:
            return shape.scope(parse_request(exchange), Scope(), self._mapping)
        except ProtocolViolation:
            return Scope()

    async def check_records(self, target: Target) -> None:
        """Fetch missing records from the target, then compare all fetched records."""
        for partition, offsets in self._fetched_records.missing_offsets().items():
            for data in await target.fetch_records(partition, offsets[0], offsets[-1]):
                self._fetched_records.add_from_target(partition, data)
        for partition, offset, is_missing in self._fetched_records.differing_offsets():
            target_record = "no record" if is_missing else "another record"
            self._report.add_finding(
                Severity.DIFFERENCE,
                ExchangeSummary(0, f"{partition.topic}-{partition.number}", None, "Fetch", 0),
                Difference(
                    "responses.partitions.records", f"a record at offset {offset}", target_record
                ),
            )
        uncompared_count = self._fetched_records.uncompared_batches
        if uncompared_count:
            self._report.notes.append(
                f"record batches that could not be compared: {uncompared_count}"
            )

    def add_notes(self) -> None:
        """Add notes about skipped comparisons, shifted counters, nodes and missing partitions."""
        for title, times in sorted(self._report.uncompared_responses.items()):
            self._report.notes.append(f"{count_text(times, 'response')} not compared: {title}")
        if self._mapping.node_counts is not None:
            recorded_count, target_count = self._mapping.node_counts
            self._report.notes.append(
                f"the recorded cluster has {count_text(recorded_count, 'node')}, "
                f"the target {target_count}"
            )
        for shift in self._mapping.shifts():
            scope = " ".join(str(part) for part in shift.scope if part is not None)
            side = "above" if shift.difference > 0 else "below"
            self._report.notes.append(
                f"{shift.kind.value}, {scope}: the target's value is {abs(shift.difference)} "
                f"{side} the recorded value"
            )
        for topic in sorted(self._topics_with_fewer_partitions):
            self._report.notes.append(
                f"topic {topic} has fewer partitions at the target: "
                "create it with the recorded number of partitions, and replay again"
            )


def summarize_exchange(exchange: Exchange) -> ExchangeSummary:
    """Return the time, connection, client and API of an exchange."""
    return ExchangeSummary(
        exchange.sent_ns,
        str(exchange.connection),
        exchange.client_id,
        api_name(exchange.api_key),
        exchange.api_version,
    )


def _top_level_error(frame: bytes) -> int:
    """Return the error code of an ApiVersions response, its first field in every version."""
    error: int = _ERROR.unpack_from(frame, _ERROR_OFFSET)[0]
    return error


def _parse_response(frame: bytes, api_key: int, version: int) -> Any:  # noqa: ANN401 - any response
    """Return a parsed response of the target; raises ProtocolViolation."""
    start = response_start(frame, api_key, version)
    try:
        parse = codec.response_parser(api_key, response_version(frame, api_key, version))
        message, _ = parse(frame, start, len(frame))
    except (KeyError, *codec.PARSE_ERRORS) as error:
        raise ProtocolViolation(f"cannot parse the target's response: {error}") from None
    return message
