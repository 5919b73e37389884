"""The report of a replay: what was sent, what differed, and what was left out; bounded in size."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import IntEnum
from typing import TYPE_CHECKING, NotRequired, TypedDict

from kafkalite.capture.messages import error_name
from kafkalite.protocol.message import Message
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.replay.compare import is_error
from kafkalite.replay.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.capture.model import Problem
    from kafkalite.replay.compare import Difference

MOST_FINDINGS = 10_000
"""Kinds of findings that are kept apart; those beyond are counted together."""
MOST_PROBLEMS = 1_000

_ROWS_APART = frozenset(("ApiVersions", "DescribeConfigs"))
"""APIs whose rows say different things: what differs in one says nothing of another."""
_LONGEST_VALUE = 200
_UUID_BYTES = 16
_S_NS = 1_000_000_000


class FailOn(IntEnum):
    """From which severity on a replay has failed."""

    NONE = 99
    UNANSWERED = Severity.UNANSWERED
    ERROR = Severity.ERROR
    DIFFERENCE = Severity.DIFFERENCE
    TIMING = Severity.TIMING


@dataclass(frozen=True, slots=True)
class Where:
    """Where in a capture something was found."""

    at_ns: int
    connection: str
    client_id: str | None
    api: str
    api_version: int


@dataclass(slots=True)
class Finding:
    """One kind of difference: how often it was met, and the first time it was."""

    severity: Severity
    api: str
    path: str
    reason: str
    first: Where
    recorded: str
    target: str
    row: str
    """What tells the row apart in which it stands, in the first example."""
    times: int = 1


class FindingShape(TypedDict):
    """A finding as JSON has it."""

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


class ReportShape(TypedDict):
    """A report as JSON has it."""

    connections: int
    requests: int
    responses: int
    equal: int
    not_sent: int
    seconds: float
    recorded_seconds: float
    apis: dict[str, int]
    findings: list[FindingShape]
    skipped: list[dict[str, str | int]]
    notes: list[str]
    problems: list[dict[str, str | int | None]]
    broken_off: str | None


@dataclass(slots=True)
class ReplayReport:
    """What became of a replay."""

    connections: int = 0
    requests: int = 0
    """Requests that were sent."""
    responses: int = 0
    """Responses that were compared."""
    equal: int = 0
    """Those in which nothing differs but what is masked."""
    seconds: float = 0.0
    recorded_seconds: float = 0.0
    apis: Counter[str] = field(default_factory=Counter)
    """Requests that were sent, by API."""
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(API, why) → requests that were not sent."""
    unread: Counter[str] = field(default_factory=Counter)
    """An API's version that there is no codec for → answers in it that could not be compared."""
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """What is wrong with the capture."""
    broken_off: str | None = None
    """Why it ended before the capture did."""
    _findings: dict[tuple[object, ...], Finding] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """All kinds of findings, the gravest and the earliest first."""
        return sorted(
            self._findings.values(), key=lambda found: (-found.severity, found.first.at_ns)
        )

    def at_least(self, severity: Severity) -> list[Finding]:
        """Return the findings that are at least so grave."""
        return [found for found in self.findings if found.severity >= severity]

    def failed(self, fail_on: FailOn) -> bool:
        """Whether it came to no end, or anything was found that counts as failure."""
        if self.broken_off is not None:
            return True
        return any(found.severity >= fail_on for found in self._findings.values())

    def add(
        self,
        severity: Severity,
        where: Where,
        difference: Difference,
        reason: str = "",
    ) -> None:
        """Count a finding."""
        path = difference.path
        recorded = shown(path, difference.recorded)
        if difference.meant is not None:
            recorded += f", which is {difference.meant} at the target"
        told = (recorded, shown(path, difference.target))
        apart = told if is_error(path) or severity is Severity.UNANSWERED else ()
        row = difference.row if where.api in _ROWS_APART else ""
        key: tuple[object, ...] = (severity, where.api, path, reason, apart, row)
        known = self._findings.get(key)
        if known is None and len(self._findings) >= MOST_FINDINGS:
            key = (severity,)
            known = self._findings.get(key)
        if known is None:
            self._findings[key] = Finding(
                severity, where.api, path, reason, where, *told, difference.row
            )
        else:
            known.times += 1

    def problem(self, problem: Problem) -> None:
        """Take what is wrong with the capture."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem)

    def counts(self) -> Mapping[Severity, int]:
        """Return how many findings of each severity there were."""
        counted: Counter[Severity] = Counter()
        for found in self._findings.values():
            counted[found.severity] += found.times
        return counted

    def to_json(self) -> ReportShape:
        """Return the report as a dict of what JSON can say, for `json.dumps`."""
        return {
            "connections": self.connections,
            "requests": self.requests,
            "responses": self.responses,
            "equal": self.equal,
            "not_sent": sum(self.skipped.values()),
            "seconds": round(self.seconds, 3),
            "recorded_seconds": round(self.recorded_seconds, 3),
            "apis": dict(sorted(self.apis.items())),
            "findings": [_finding_shape(found) for found in self.findings],
            "skipped": [
                {"api": api, "why": why, "times": times}
                for (api, why), times in sorted(self.skipped.items())
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
            "broken_off": self.broken_off,
        }


def _finding_shape(found: Finding) -> FindingShape:
    shape: FindingShape = {
        "severity": found.severity.name.lower(),
        "api": found.api,
        "version": found.first.api_version,
        "path": found.path,
        "times": found.times,
        "row": found.row,
        "recorded": found.recorded,
        "target": found.target,
        "at": iso_of(found.first.at_ns),
        "connection": found.first.connection,
        "client_id": found.first.client_id,
    }
    if found.reason:
        shape["reason"] = found.reason
    return shape


def iso_of(at_ns: int) -> str:
    """Return a time as people and machines read it, in UTC."""
    seconds, rest = divmod(at_ns, _S_NS)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{seconds}.{rest:09d}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def shown(path: str, value: object) -> str:
    """Return a value in few words; an error by its name."""
    if is_error(path) and isinstance(value, int):
        return error_name(value)
    text = bytes(value).hex() if isinstance(value, bytes | memoryview) else _plain(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}… ({len(text)})"


def often(times: int) -> str:
    """Say how often something was met."""
    return "once" if times == 1 else f"{times:,} times"


def _plain(value: object) -> str:
    """Return a value, of whatever it is made, without the names of our classes."""
    if isinstance(value, Message):
        names = (name for name in value.__slots__ if name != "unknown_tags")
        return f"({' '.join(f'{name}={_plain(getattr(value, name))}' for name in names)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, bytes):
        return uuid_to_text(value) if len(value) == _UUID_BYTES else value.hex()
    return value if isinstance(value, str) else repr(value)
