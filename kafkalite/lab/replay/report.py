"""The report of a replay: requests sent and skipped, and findings; bounded in size."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, NotRequired, TypedDict

from kafkalite.capture.reading.messages import error_name
from kafkalite.lab.replay.comparison.compare import is_error_code
from kafkalite.lab.replay.comparison.findings import Severity
from kafkalite.ports.units import NANOSECONDS_PER_SECOND
from kafkalite.protocol.message import Message
from kafkalite.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.capture.model import Problem
    from kafkalite.lab.replay.comparison.compare import Difference

MAX_FINDINGS = 10_000
"""Maximum number of kinds of findings; further kinds get one common count per severity."""
MAX_PROBLEMS = 1_000

_APIS_WITH_UNRELATED_ROWS = frozenset(("ApiVersions", "DescribeConfigs"))
"""APIs whose rows are unrelated, so that each differing row is a separate kind of finding."""
_MAX_VALUE_LENGTH = 200
_UUID_BYTES = 16


class FailOn(IntEnum):
    """The lowest severity of a finding that makes a replay fail."""

    NONE = 99
    UNANSWERED = Severity.UNANSWERED
    ERROR = Severity.ERROR
    DIFFERENCE = Severity.DIFFERENCE
    CONFIGURATION = Severity.CONFIGURATION
    TIMING = Severity.TIMING


@dataclass(frozen=True, slots=True)
class ExchangeSummary:
    """Time, connection, client and API of the exchange that a finding belongs to."""

    at_ns: int
    connection: str
    client_id: str | None
    api: str
    api_version: int


@dataclass(slots=True)
class Finding:
    """One kind of difference: the number of occurrences, and the first one."""

    severity: Severity
    api: str
    path: str
    """The path of the differing field in the response."""
    reason: str
    """The reason of an explained difference, or of the severity; may be empty."""
    first: ExchangeSummary
    """The recorded exchange of the first occurrence."""
    recorded: str
    """The recorded value in the first occurrence."""
    target: str
    """The value at the target in the first occurrence."""
    row: str
    """The keys of the rows that contain the field, in the first occurrence."""
    times: int = 1


class FindingJson(TypedDict):
    """A finding in the JSON report."""

    severity: str
    api: str
    version: int
    path: str
    times: int
    row: str
    recorded: str
    target: str
    at: str
    connection: str
    client_id: str | None
    reason: NotRequired[str]


class ReportJson(TypedDict):
    """The JSON report."""

    connections: int
    requests: int
    responses: int
    equal: int
    not_sent: int
    seconds: float
    recorded_seconds: float
    apis: dict[str, int]
    findings: list[FindingJson]
    skipped: list[dict[str, str | int]]
    notes: list[str]
    problems: list[dict[str, str | int | None]]
    abort_reason: str | None


@dataclass(slots=True)
class ReplayReport:
    """The result of a replay."""

    connections: int = 0
    """Recorded connections that were replayed."""
    requests: int = 0
    """Requests that were sent."""
    responses: int = 0
    """Responses that were compared."""
    equal: int = 0
    """Responses without any difference in a compared field."""
    seconds: float = 0.0
    """Duration of the replay."""
    recorded_seconds: float = 0.0
    """Duration of the recorded traffic."""
    apis: Counter[str] = field(default_factory=Counter)
    """Requests that were sent, by API."""
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(API, reason) → number of requests that were not sent."""
    uncompared_responses: Counter[str] = field(default_factory=Counter)
    """API version without a codec → number of its responses, which could not be compared."""
    notes: list[str] = field(default_factory=list)
    """Remarks about the target, such as topics with fewer partitions than recorded."""
    problems: list[Problem] = field(default_factory=list)
    """Problems in the capture."""
    abort_reason: str | None = None
    """The reason if the replay ended before the end of the capture."""
    _findings: dict[tuple[object, ...], Finding] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """All kinds of findings, by decreasing severity, then by time."""
        return sorted(
            self._findings.values(), key=lambda finding: (-finding.severity, finding.first.at_ns)
        )

    def at_least(self, severity: Severity) -> list[Finding]:
        """Return the findings of at least this severity."""
        return [finding for finding in self.findings if finding.severity >= severity]

    def failed(self, fail_on: FailOn) -> bool:
        """Whether the replay ended early, or has a finding of at least this severity."""
        if self.abort_reason is not None:
            return True
        return any(finding.severity >= fail_on for finding in self._findings.values())

    def add_finding(
        self,
        severity: Severity,
        exchange: ExchangeSummary,
        difference: Difference,
        reason: str = "",
    ) -> None:
        """Count a finding."""
        path = difference.path
        recorded = value_text(path, difference.recorded)
        if difference.expected is not None:
            recorded += f" (expected {difference.expected} at the target)"
        values = (recorded, value_text(path, difference.target))
        key_values = values if is_error_code(path) or severity is Severity.UNANSWERED else ()
        row = difference.row if exchange.api in _APIS_WITH_UNRELATED_ROWS else ""
        key: tuple[object, ...] = (severity, exchange.api, path, reason, key_values, row)
        finding = self._findings.get(key)
        if finding is None and len(self._findings) >= MAX_FINDINGS:
            key = (severity,)
            finding = self._findings.get(key)
        if finding is None:
            self._findings[key] = Finding(
                severity, exchange.api, path, reason, exchange, *values, difference.row
            )
        else:
            finding.times += 1

    def add_problem(self, problem: Problem) -> None:
        """Add a problem of the capture."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)

    def counts(self) -> Mapping[Severity, int]:
        """Return the number of findings of each severity."""
        counted: Counter[Severity] = Counter()
        for finding in self._findings.values():
            counted[finding.severity] += finding.times
        return counted

    def to_json(self) -> ReportJson:
        """Return the report as a dict for `json.dumps`."""
        return {
            "connections": self.connections,
            "requests": self.requests,
            "responses": self.responses,
            "equal": self.equal,
            "not_sent": sum(self.skipped.values()),
            "seconds": round(self.seconds, 3),
            "recorded_seconds": round(self.recorded_seconds, 3),
            "apis": dict(sorted(self.apis.items())),
            "findings": [_finding_to_json(finding) for finding in self.findings],
            "skipped": [
                {"api": api, "reason": reason, "times": times}
                for (api, reason), times in sorted(self.skipped.items())
            ],
            "notes": list(self.notes),
            "problems": [
                {
                    "kind": problem.kind.value,
                    "file": problem.file,
                    "offset": problem.offset,
                    "connection": problem.connection,
                    "detail": problem.detail,
                    "count": problem.count,
                }
                for problem in self.problems
            ],
            "abort_reason": self.abort_reason,
        }


def _finding_to_json(finding: Finding) -> FindingJson:
    finding_json: FindingJson = {
        "severity": finding.severity.name.lower(),
        "api": finding.api,
        "version": finding.first.api_version,
        "path": finding.path,
        "times": finding.times,
        "row": finding.row,
        "recorded": finding.recorded,
        "target": finding.target,
        "at": iso_time(finding.first.at_ns),
        "connection": finding.first.connection,
        "client_id": finding.first.client_id,
    }
    if finding.reason:
        finding_json["reason"] = finding.reason
    return finding_json


def iso_time(at_ns: int) -> str:
    """Return a time in ISO 8601, UTC; as seconds since the epoch if the year is out of range."""
    seconds, nanoseconds = divmod(at_ns, NANOSECONDS_PER_SECOND)
    try:
        time = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{seconds}.{nanoseconds:09d}"
    return f"{time:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def value_text(path: str, value: object) -> str:
    """Return a value as text, shortened if long; an error code by its name."""
    if is_error_code(path) and isinstance(value, int):
        return error_name(value)
    text = bytes(value).hex() if isinstance(value, bytes | memoryview) else _format_value(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}… ({len(text)})"


def _format_value(value: object) -> str:
    """Return a value as text, without the names of Python classes."""
    if isinstance(value, Message):
        names = (name for name in value.__slots__ if name != "unknown_tags")
        return f"({' '.join(f'{name}={_format_value(getattr(value, name))}' for name in names)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    if isinstance(value, bytes):
        return uuid_to_text(value) if len(value) == _UUID_BYTES else value.hex()
    return value if isinstance(value, str) else repr(value)
