"""What an audit is: a name, what it asks, and the tables that answer it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests
    from kafkalite.spark.state.tables import Table

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What audits are told that a capture does not say."""

    retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    """How long offsets are kept: offsets.retention.minutes of the broker."""
    session_timeout_ms: int = 45_000
    """After how long a silent member of a consumer group is put out."""
    transaction_timeout_ms: int = _MINUTE_MS
    """How long a transaction may stay open where its InitProducerId was not seen."""
    aftermath_ms: int = _MINUTE_MS
    """For how long what follows a stale answer is taken for its consequence."""
    bucket_ms: int = 10_000
    """The grain of what is told over time: lag, rebalances, traffic."""
    storm_rebalances: int = 5
    """How many rebalances of a group within a minute are a storm."""


@dataclass(frozen=True, slots=True)
class Audit:
    """One audit: the question it answers, and how."""

    name: str
    summary: str
    columns: tuple[Table, ...]
    """The tables it makes."""
    tables: Callable[[Requests, AuditOptions], Mapping[str, DataFrame]] = field(repr=False)
