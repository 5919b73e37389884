"""What captured traffic says about the questions that Kafka's own proposals asked.

Each audit is a pure function of requests and of the states rebuilt from them; each table it
makes says what its columns mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.spark.audits.contract import Audit, AuditOptions
from kafkalite.spark.audits.fencing import FENCING, judged
from kafkalite.spark.audits.health import HEALTH
from kafkalite.spark.audits.judging import JUDGED
from kafkalite.spark.audits.members import GHOSTS, MEMBERS, haunting
from kafkalite.spark.audits.metadata import METADATA
from kafkalite.spark.audits.offsets import OFFSETS
from kafkalite.spark.audits.producers import PRODUCERS
from kafkalite.spark.state.epochs import EPOCHS, epochs
from kafkalite.spark.state.extent import EXTENT, extent
from kafkalite.spark.state.holdings import HOLDINGS, holdings
from kafkalite.spark.state.signs import SIGNS, signs
from kafkalite.spark.state.topics import TASKS, TOPICS, tasks, topics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests
    from kafkalite.spark.state.tables import Table

__all__ = ["AUDITS", "STATES", "STATE_TABLES", "TABLES", "AuditOptions"]


def _held(requests: Requests) -> DataFrame:
    return holdings(requests.state("epochs"), requests.state("topics"), requests.state("tasks"))


STATES: Final[Mapping[str, Callable[[Requests, AuditOptions], DataFrame]]] = {
    TOPICS.name: lambda requests, _: topics(requests),
    TASKS.name: lambda requests, _: tasks(requests),
    EPOCHS.name: lambda requests, _: epochs(requests),
    HOLDINGS.name: lambda requests, _: _held(requests),
    JUDGED.name: lambda requests, _: judged(requests),
    SIGNS.name: lambda requests, _: signs(requests),
    EXTENT.name: lambda requests, _: extent(requests),
    GHOSTS.name: haunting,
}
"""The states that audits share, each made once."""

STATE_TABLES: Final[Mapping[str, Table]] = {
    each.name: each for each in (TOPICS, TASKS, EPOCHS, HOLDINGS, JUDGED, SIGNS, EXTENT, GHOSTS)
}
"""What the columns of the states say."""

AUDITS: Final[Mapping[str, Audit]] = {
    each.name: each for each in (FENCING, MEMBERS, OFFSETS, METADATA, PRODUCERS, HEALTH)
}
"""Every audit by its name."""

TABLES: Final[Mapping[str, Table]] = {
    table.name: table for audit in AUDITS.values() for table in audit.columns
}
"""What the columns of the audits' tables say."""
