"""What a real Apache Kafka answers otherwise than kafkalite, and why: known, looked at, and meant.

Whoever replays a capture of a real cluster on kafkalite need not look at these again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.tables.kafkalite_keys import KEYS
from kafkalite.replay.compare import ABSENT
from kafkalite.replay.findings import Circumstances, Explained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalite.replay.compare import Difference

NOT_SERVED = (
    # Secrets, and who may do what.
    17, 29, 30, 31, 36, 38, 39, 40, 41, 48, 49, 50, 51,
    # Moving replicas between disks and nodes, and the controllers' own quorum.
    34, 45, 46, 55, 57, 64, 80, 81,
)  # fmt: skip
"""APIs that Kafka 4.3 serves and kafkalite does not."""

SERVED_FROM_0 = (2, 8, 9)
"""ListOffsets, OffsetCommit and OffsetFetch: also in versions that Kafka 4 has dropped."""

OF_THE_DEPLOYMENT = frozenset(
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
"""Settings that say where a broker runs and what it was started with; root is a log level."""


KAFKALITE_KEYS = frozenset(
    line.partition(" ")[0] for line in KEYS.splitlines() if line and not line.startswith(" ")
)
"""Settings that Kafka does not have."""


def _is_of_the_deployment(difference: Difference, _: Circumstances) -> bool:
    return difference.row.rpartition(" ")[2] in OF_THE_DEPLOYMENT


def _was_blanked(difference: Difference, _: Circumstances) -> bool:
    """Whether the recorder took a value for a secret, and wrote stars in its place."""
    recorded = difference.recorded
    return isinstance(recorded, str) and bool(recorded) and set(recorded) == {"*"}


def _is_our_own(difference: Difference, _: Circumstances) -> bool:
    named = str(difference.target).removeprefix("name=").strip("'")
    return difference.recorded == ABSENT and named in KAFKALITE_KEYS


def _among(rows: Iterable[str]) -> Callable[[Difference, Circumstances], bool]:
    """Return the condition that a row, in whichever answer it is, is one of these."""
    there = frozenset(rows)
    return lambda difference, _: difference.row in there or difference.recorded in there


EXPLAINED: tuple[Explained, ...] = (
    Explained(
        "ApiVersions",
        "api_keys",
        "kafkalite has no ACLs, SASL, quotas, tokens, reassignments or quorum",
        lambda difference, _: (
            difference.target == ABSENT
            and difference.recorded in {f"api_key={key}" for key in NOT_SERVED}
        ),
    ),
    Explained(
        "ApiVersions",
        "api_keys.min_version",
        "kafkalite still serves what clients of before Kafka 1.0 speak",
        _among(str(key) for key in SERVED_FROM_0),
    ),
    *(
        Explained(
            "ApiVersions",
            path,
            "kafkalite has no quorum of controllers, so no version of theirs",
            lambda difference, _: (
                difference.target == ABSENT and difference.recorded == "name='kraft.version'"
            ),
        )
        for path in ("supported_features", "finalized_features")
    ),
    Explained(
        "DescribeConfigs",
        "results.configs*",
        "where a broker runs, and what it was started with",
        _is_of_the_deployment,
    ),
    Explained(
        "DescribeConfigs",
        "results.configs.*value",
        "captures hold no secrets, nor what looks like one",
        _was_blanked,
    ),
    Explained(
        "DescribeConfigs",
        "results.configs",
        "kafkalite has settings of its own",
        _is_our_own,
    ),
)
"""The table; each row has been seen in a capture that the tests replay."""
