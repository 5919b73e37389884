"""Table of the intended differences between Apache Kafka and kafkalite, with their reasons.

A replay of a capture of a real cluster reports these differences as explained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.replay.comparison.findings import Circumstances, ExplainedDifference
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalite.lab.replay.comparison.compare import Difference


APIS_WITH_OLD_VERSIONS = (ApiKey.LIST_OFFSETS, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)
"""APIs that kafkalite also serves in versions that Kafka 4 dropped."""

DEPLOYMENT_SETTINGS = frozenset(
    (
        "advertised.listeners",
        "controller.quorum.bootstrap.servers",
        "listener.security.protocol.map",
        "listeners",
        "log.cleaner.dedupe.buffer.size",
        "log.dirs",
        "root",
    )
)
"""Settings that describe where and how a broker was started; `root` is a log level."""


def _is_deployment_setting(difference: Difference, _: Circumstances) -> bool:
    return difference.row.rpartition(" ")[2] in DEPLOYMENT_SETTINGS


def _was_redacted(difference: Difference, _: Circumstances) -> bool:
    """Whether the recorder replaced a possible secret by asterisks."""
    recorded = difference.recorded
    return isinstance(recorded, str) and bool(recorded) and set(recorded) == {"*"}


def _when_row_is_one_of(rows: Iterable[str]) -> Callable[[Difference, Circumstances], bool]:
    """Return the condition that the difference is in one of these rows, or is the row itself."""
    expected = frozenset(rows)
    return lambda difference, _: difference.row in expected or difference.recorded in expected


EXPLAINED: tuple[ExplainedDifference, ...] = (
    ExplainedDifference(
        "ApiVersions",
        "api_keys.min_version",
        "kafkalite still serves the versions of clients older than Kafka 1.0",
        _when_row_is_one_of(str(int(key)) for key in APIS_WITH_OLD_VERSIONS),
    ),
    ExplainedDifference(
        "DescribeConfigs",
        "results.configs*",
        "the setting depends on where and how the broker was started",
        _is_deployment_setting,
    ),
    ExplainedDifference(
        "DescribeConfigs",
        "results.configs.*value",
        "captures do not contain secrets or values that may be secrets",
        _was_redacted,
    ),
)
"""The intended differences. A test replays a capture in which each row occurs."""
