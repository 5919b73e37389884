"""Types of audits: options, and an audit with its name, summary and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests
    from kafkalite.lab.spark.stages.projection import Projection
    from kafkalite.lab.spark.state.tables import Table

_MINUTE_MS: Final = 60_000
MAX_DURATION_MS: Final = 365_000 * 24 * 60 * _MINUTE_MS
"""The longest duration of an option: the end of a longer one may have no date."""

ALL_APIS: Final = frozenset(map(int, ApiKey))
"""The APIs of a state that reads all requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """Settings of audits that a capture does not contain."""

    retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    """Retention of offsets: offsets.retention.minutes of the broker."""
    session_timeout_ms: int = 45_000
    """Session timeout of consumer group members."""
    transaction_timeout_ms: int = _MINUTE_MS
    """Transaction timeout if the capture lacks the InitProducerId."""
    effect_window_ms: int = _MINUTE_MS
    """Events within this time after a response with stale metadata count as its consequences."""
    bucket_ms: int = 10_000
    """Width of time buckets for lag, rebalances and traffic."""
    rebalance_storm_threshold: int = 5
    """A group has a rebalance storm if it has at least this many rebalances in a minute, and more
    than a restart of its clients causes."""
    since_us: int | None = None
    """Start of the audited time; requests before it are evidence. None for all of the capture."""


def _no_reductions(_: AuditOptions) -> Sequence[Projection]:
    return ()


@dataclass(frozen=True, slots=True)
class State:
    """A state table that audits share: its description, and how it is computed."""

    table: Table
    compute: Callable[[Requests, AuditOptions], DataFrame] = field(repr=False)
    reductions: Callable[[AuditOptions], Sequence[Projection]] = field(
        default=_no_reductions, repr=False
    )
    """Returns the projections of requests that it reads and that depend only on the options.

    Tasks that write requests reduce them by these, so that they are not read again."""
    apis: AbstractSet[int] = frozenset()
    """The APIs whose requests it reads itself, without those that other states read for it."""


@dataclass(frozen=True, slots=True)
class Audit:
    """One audit: its name, its summary, and the tables that it computes."""

    name: str
    summary: str
    tables: tuple[Table, ...]
    """Descriptions of its tables."""
    compute: Callable[[Requests, AuditOptions], Mapping[str, DataFrame]] = field(repr=False)
    """Returns its tables by name."""
    reduced_states: tuple[str, ...] = ()
    """Names of the state tables with reductions that it reads, itself or for other states."""
    reductions: tuple[Projection, ...] = ()
    """Further projections of requests that it reads."""
