"""Findings of the checker: what happened to records, because of which client, and the proof."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from kafkalite.lab.checker.proof_commands import commands_of

if TYPE_CHECKING:
    from kafkalite.lab.checker.history import (
        Client,
        LogProof,
        Partition,
        Proof,
        Range,
        Undecided,
    )


DELAYED_REQUEST: Final = "delayed request"
"""The cause of findings about requests that arrived after their client had given them up."""
OTHER_COMMIT: Final = "commit outside the history"
"""The cause of findings about committed offsets that no commit of the history has."""


class Severity(Enum):
    """How bad a finding is. The order is that of a report."""

    VIOLATION = "violation"
    """Records are lost, doubled, torn or reordered although their clients can expect otherwise."""
    WARNING = "warning"
    """What a program has to expect from its settings, but what often is a fault."""
    NOTE = "note"
    """What happens in normal operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One anomaly."""

    rule: str
    severity: Severity
    text: str
    """One sentence that names the records, the cause and the client."""
    cause: str
    partition: Partition | None = None
    offsets: Range | None = None
    group: str | None = None
    transactional_id: str | None = None
    client: Client | None = None
    """The client that caused it."""
    records: int = 0
    """Number of records that are concerned."""
    proofs: tuple[Proof | LogProof, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the finding as an object of JSON."""
        partition, offsets, client = self.partition, self.offsets, self.client
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "text": self.text,
            "cause": self.cause,
            "topic": None if partition is None else partition.topic,
            "partition": None if partition is None else partition.number,
            "first_offset": None if offsets is None else offsets.first,
            "last_offset": None if offsets is None else offsets.last,
            "group": self.group,
            "transactional_id": self.transactional_id,
            "client_id": None if client is None else client.id,
            "host": None if client is None else client.host,
            "records": self.records,
            "proofs": [each.as_json() for each in self.proofs],
            "commands": [*commands_of(self.proofs)],
        }


@dataclass(frozen=True, slots=True)
class CheckResult:
    """All findings about a history, and what the history cannot decide."""

    findings: tuple[Finding, ...]
    undecided: tuple[Undecided, ...]
    requests: int
    acknowledged: int
    """Number of records whose Produce request was acknowledged."""
    delivered: int
    """Number of records in answers to consumers; a record counts each time."""
    logged: int | None = None
    """Number of records in the logs of data directories; None without a directory."""

    @property
    def violations(self) -> tuple[Finding, ...]:
        """The findings of the severest kind."""
        return tuple(each for each in self.findings if each.severity is Severity.VIOLATION)

    def of_rule(self, rule: str) -> tuple[Finding, ...]:
        """Return the findings of one rule."""
        return tuple(each for each in self.findings if each.rule == rule)

    def as_json(self) -> dict[str, Any]:
        """Return the result as an object of JSON."""
        return {
            "requests": self.requests,
            "acknowledged": self.acknowledged,
            "delivered": self.delivered,
            "logged": self.logged,
            "findings": [each.as_json() for each in self.findings],
            "undecidable": [
                {"reason": each.reason, "count": each.count} for each in self.undecided
            ],
        }
