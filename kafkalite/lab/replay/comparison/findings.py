"""Severity of differences between recorded and replayed responses, and the known reasons for them.

Tables list differences that timing alone can cause, and differences caused by partition placement
or by the startup configurations of brokers. Callers pass a table of known differences between two
brokers. Each row has its reason. A difference that no row covers has the severity ERROR or
DIFFERENCE.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkalite.config.layers import ConfigSource
from kafkalite.lab.replay.comparison.compare import is_error_code
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.lab.replay.comparison.compare import Difference


class Severity(IntEnum):
    """Severity of a finding; the most severe has the highest value."""

    EXPLAINED = 0
    """A row of a table gives the reason."""
    TIMING = 1
    """Timing alone can cause it."""
    CONFIGURATION = 2
    """The brokers were started with different configurations, or have different defaults."""
    DIFFERENCE = 3
    """A field differs."""
    ERROR = 4
    """An error code differs."""
    UNANSWERED = 5
    """The capture has a response, and the target sends none or does not serve the request."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Facts about an exchange that decide whether a difference has an explanation."""

    api: str
    has_concurrent_writes: bool = False
    """Whether write requests of other connections were in flight at the same time."""
    follows_metadata_change: bool = False
    """Whether topics or configurations were changed shortly before."""
    has_different_placement: bool = False
    """Whether one of the two clusters has several nodes, so that partition placement differs."""


@dataclass(frozen=True, slots=True)
class ExplainedDifference:
    """A table row: the fields that may differ, the condition for it, and the reason."""

    api: str
    """A glob for names of APIs."""
    path: str
    """A glob for paths of fields."""
    reason: str
    condition: Callable[[Difference, Circumstances], bool] = lambda *_: True

    def covers(self, difference: Difference, circumstances: Circumstances) -> bool:
        """Whether this row explains a difference."""
        return (
            fnmatchcase(circumstances.api, self.api)
            and fnmatchcase(difference.path, self.path)
            and self.condition(difference, circumstances)
        )


def when_errors_are(
    recorded: Sequence[ErrorCode], target: Sequence[ErrorCode]
) -> Callable[[Difference, Circumstances], bool]:
    """Return a condition: the recorded error is in `recorded`, the target's error in `target`."""
    return lambda difference, _: difference.recorded in recorded and difference.target in target


def _config_sources(difference: Difference) -> set[int]:
    """Return the sources of a configuration in the two responses; empty for other rows."""
    return {
        row.config_source
        for pair in difference.rows
        for row in pair
        if hasattr(row, "config_source")
    }


def _is_startup_config(difference: Difference) -> bool:
    """Whether the configuration has its startup value or its default on both brokers."""
    sources = _config_sources(difference)
    return bool(sources) and sources <= {ConfigSource.STATIC_BROKER, ConfigSource.DEFAULT}


_NO_ERROR = (ErrorCode.NONE,)
_NOT_READY_ERRORS = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
_REBALANCE_ERRORS = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)

TIMING: tuple[ExplainedDifference, ...] = (
    ExplainedDifference(
        "*",
        "*error_code",
        "one broker was ready earlier; the other returned a retriable error",
        when_errors_are(_NOT_READY_ERRORS, (*_NO_ERROR, *_NOT_READY_ERRORS)),
    ),
    ExplainedDifference(
        "FindCoordinator",
        "*error_code",
        "the target creates the internal topics of its coordinators at the first lookup",
        when_errors_are(_NO_ERROR, (ErrorCode.COORDINATOR_NOT_AVAILABLE,)),
    ),
    ExplainedDifference(
        "OffsetFetch",
        "*error_code",
        "the markers of a transaction were written earlier or later",
        when_errors_are(
            (ErrorCode.UNSTABLE_OFFSET_COMMIT, *_NO_ERROR),
            (ErrorCode.UNSTABLE_OFFSET_COMMIT, *_NO_ERROR),
        ),
    ),
    *(
        ExplainedDifference(
            api,
            "error_code",
            "the response to a member's next request, of any API, reports a rebalance",
            when_errors_are(_REBALANCE_ERRORS, _REBALANCE_ERRORS),
        )
        for api in ("Heartbeat", "SyncGroup")
    ),
    ExplainedDifference(
        "OffsetCommit",
        "*error_code",
        "the response to a member's next request, of any API, reports a rebalance",
        when_errors_are(_REBALANCE_ERRORS, _REBALANCE_ERRORS),
    ),
    ExplainedDifference(
        "*GroupHeartbeat",
        "assignment*",
        "a new assignment is in the response to the first heartbeat after its computation",
    ),
    ExplainedDifference(
        "*GroupHeartbeat",
        "member_epoch",
        "a new epoch is in the response to the first heartbeat after the bump",
    ),
    *(
        ExplainedDifference(
            "StreamsGroupHeartbeat",
            path,
            "tasks are in the response to the first heartbeat after their topics exist",
        )
        for path in (
            "status",
            "active_tasks",
            "standby_tasks",
            "warmup_tasks",
            "endpoint_information_epoch",
            "partitions_by_user_endpoint",
        )
    ),
    ExplainedDifference(
        "Produce",
        "*base_offset",
        "several producers wrote to the partition concurrently, in either order",
        lambda _, circumstances: circumstances.has_concurrent_writes,
    ),
    ExplainedDifference(
        "ListOffsets",
        "*offset",
        "a producer wrote to the partition concurrently",
        lambda _, circumstances: circumstances.has_concurrent_writes,
    ),
    ExplainedDifference(
        "ShareFetch",
        "*acquired_records*",
        "the number of acquired records in a response depends on timing",
    ),
    *(
        ExplainedDifference(
            api,
            path,
            "Kafka's brokers apply a metadata change shortly after the response to it",
            lambda difference, circumstances: (
                circumstances.follows_metadata_change and not _is_startup_config(difference)
            ),
        )
        for api, path in (
            ("Metadata", "topics*"),
            ("DescribeTopicPartitions", "topics*"),
            ("DescribeConfigs", "results.configs*"),
            ("ListConfigResources", "config_resources*"),
            ("DescribeLogDirs", "results.topics*"),
        )
    ),
    ExplainedDifference(
        "Describe*",
        "*",
        "the described entity was changing at the same time",
        lambda difference, circumstances: (
            circumstances.has_concurrent_writes and not _is_startup_config(difference)
        ),
    ),
)
"""Differences that timing alone can cause."""


CONFIGURATION: tuple[ExplainedDifference, ...] = (
    *(
        ExplainedDifference(
            "DescribeConfigs",
            f"results.configs.{path}",
            "the brokers were started with different values, or have different defaults",
            lambda difference, _: _is_startup_config(difference),
        )
        for path in ("value", "config_source", "is_default", "synonyms*")
    ),
    ExplainedDifference(
        "DescribeConfigs",
        "results.configs",
        "only one of the brokers was started with this configuration",
        lambda difference, _: _config_sources(difference) == {ConfigSource.STATIC_BROKER},
    ),
)
"""Differences between configurations that no request changed."""


_ONLY_OF_NODE = "the response has only entities of the node, and placement differs between clusters"

PLACEMENT: tuple[ExplainedDifference, ...] = tuple(
    ExplainedDifference(
        api,
        path,
        reason,
        lambda _, circumstances: circumstances.has_different_placement,
    )
    for api, path, reason in (
        ("ListGroups", "groups*", _ONLY_OF_NODE),
        ("ListTransactions", "transaction_states*", _ONLY_OF_NODE),
        ("DescribeLogDirs", "results*", _ONLY_OF_NODE),
        (
            "CreateTopics",
            "topics.replication_factor",
            "a partition has at most one replica per node",
        ),
    )
)
"""Differences that follow from the placement of partitions and groups on several nodes."""


@dataclass(frozen=True, slots=True)
class Classification:
    """Severity of a difference, and the reason if a table has one."""

    severity: Severity
    reason: str = ""


def classify(
    difference: Difference,
    circumstances: Circumstances,
    explained: Sequence[ExplainedDifference] = (),
) -> Classification:
    """Return the severity of a difference; the first row that covers it decides."""
    tables = (
        (Severity.EXPLAINED, explained),
        (Severity.EXPLAINED, PLACEMENT),
        (Severity.CONFIGURATION, CONFIGURATION),
        (Severity.TIMING, TIMING),
    )
    for severity, table in tables:
        for row in table:
            if row.covers(difference, circumstances):
                return Classification(severity, row.reason)
    return Classification(Severity.ERROR if is_error_code(difference.path) else Severity.DIFFERENCE)
