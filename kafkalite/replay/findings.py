"""Findings: what a replay or a comparison found, how grave it is, and what explains it.

Two tables weigh a difference: one of what may come of timing alone, one of what is known of two
brokers that are compared. Each row has its reason; what no row knows counts in full.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.replay.compare import is_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.replay.compare import Difference


class Severity(IntEnum):
    """How grave a finding is; the gravest last."""

    EXPLAINED = 0
    """Known, and told why in a table."""
    TIMING = 1
    """May come of timing alone."""
    DIFFERENCE = 2
    """A field differs."""
    ERROR = 3
    """An error differs: one was refused what the other was not, or otherwise."""
    UNANSWERED = 4
    """There was an answer, and the target gives none or does not know the request."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known of an exchange besides its two answers."""

    api: str
    is_raced: bool = False
    """Whether requests of other connections that change the same things were under way."""
    is_settling: bool = False
    """Whether topics or configurations had been changed just before."""
    is_placed_otherwise: bool = False
    """Whether one of the two clusters has several nodes, which lead what they will."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A row of a table: what may differ, when, and why."""

    api: str
    """A glob over names of APIs."""
    path: str
    """A glob over paths of fields."""
    reason: str
    when: Callable[[Difference, Circumstances], bool] = lambda _difference, _circumstances: True

    def covers(self, difference: Difference, circumstances: Circumstances) -> bool:
        """Whether this row is about a difference."""
        return (
            fnmatchcase(circumstances.api, self.api)
            and fnmatchcase(difference.path, self.path)
            and self.when(difference, circumstances)
        )


def errors(
    recorded: Sequence[ErrorCode], target: Sequence[ErrorCode]
) -> Callable[[Difference, Circumstances], bool]:
    """Return the condition that the recorded error is one of these, and the target's of those."""
    return lambda difference, _: difference.recorded in recorded and difference.target in target


_NONE = (ErrorCode.NONE,)
_NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
_IN_REBALANCE = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)

TIMING: tuple[Explained, ...] = (
    Explained(
        "*",
        "*error_code",
        "one broker was ready sooner: the other asked to try again",
        errors(_NOT_READY, (*_NONE, *_NOT_READY)),
    ),
    Explained(
        "FindCoordinator",
        "*error_code",
        "the target makes its coordinators' topics when they are first asked for",
        errors(_NONE, (ErrorCode.COORDINATOR_NOT_AVAILABLE,)),
    ),
    Explained(
        "OffsetFetch",
        "*error_code",
        "the markers of a transaction were written sooner",
        errors(
            (ErrorCode.UNSTABLE_OFFSET_COMMIT, *_NONE), (ErrorCode.UNSTABLE_OFFSET_COMMIT, *_NONE)
        ),
    ),
    *(
        Explained(
            api,
            "error_code",
            "a member learns of a rebalance with whichever request comes next",
            errors(_IN_REBALANCE, _IN_REBALANCE),
        )
        for api in ("Heartbeat", "SyncGroup")
    ),
    Explained(
        "OffsetCommit",
        "*error_code",
        "a member learns of a rebalance with whichever request comes next",
        errors(_IN_REBALANCE, _IN_REBALANCE),
    ),
    Explained(
        "*GroupHeartbeat",
        "assignment*",
        "an assignment comes with whichever heartbeat is next when it is ready",
    ),
    Explained(
        "*GroupHeartbeat",
        "member_epoch",
        "an epoch comes with whichever heartbeat is next when it is ready",
    ),
    *(
        Explained(
            "StreamsGroupHeartbeat",
            path,
            "tasks come with whichever heartbeat is next when their topics are there",
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
    Explained(
        "Produce",
        "*base_offset",
        "producers wrote to the partition at once, and either may come first",
        lambda _, circumstances: circumstances.is_raced,
    ),
    Explained(
        "ListOffsets",
        "*offset",
        "a producer wrote to the partition at once",
        lambda _, circumstances: circumstances.is_raced,
    ),
    Explained(
        "ShareFetch",
        "*acquired_records*",
        "how many records an answer takes along depends on the moment",
    ),
    *(
        Explained(
            api,
            path,
            "Kafka's brokers learn of a change of metadata a moment after it was answered",
            lambda _, circumstances: circumstances.is_settling,
        )
        for api, path in (
            ("Metadata", "topics*"),
            ("DescribeTopicPartitions", "topics*"),
            ("DescribeConfigs", "results.configs*"),
            ("ListConfigResources", "config_resources*"),
            ("DescribeLogDirs", "results.topics*"),
        )
    ),
    Explained(
        "Describe*",
        "*",
        "what is described was changing at that moment",
        lambda _, circumstances: circumstances.is_raced,
    ),
)
"""What may differ because no two runs take the same time."""


PLACED: tuple[Explained, ...] = tuple(
    Explained(
        api,
        path,
        "a node tells of what it leads or holds, and what that is is each cluster's choice",
        lambda _, circumstances: circumstances.is_placed_otherwise,
    )
    for api, path in (
        ("ListGroups", "groups*"),
        ("ListTransactions", "transaction_states*"),
        ("DescribeLogDirs", "results*"),
        ("CreateTopics", "topics.replication_factor"),
    )
)
"""What may differ because clusters of several nodes spread what they hold."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How grave a difference is, and why it is not graver."""

    severity: Severity
    reason: str = ""


def judge(
    difference: Difference, circumstances: Circumstances, explained: Sequence[Explained] = ()
) -> Verdict:
    """Return how grave a difference is; the first row that covers it counts."""
    tables = (
        (Severity.EXPLAINED, explained),
        (Severity.EXPLAINED, PLACED),
        (Severity.TIMING, TIMING),
    )
    for severity, table in tables:
        for row in table:
            if row.covers(difference, circumstances):
                return Verdict(severity, row.reason)
    return Verdict(Severity.ERROR if is_error(difference.path) else Severity.DIFFERENCE)
