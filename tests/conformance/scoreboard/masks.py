"""Masks of values in scoreboards that differ between two runs: ids, times, ports, directories."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tests.conformance.scenarios.configs import OWN_KEYS, PLACES

if TYPE_CHECKING:
    from tests.conformance.normalization import Tree

_PRESENCE: Final = frozenset((
    # Java
    "consumerId", "memberId", "processId", "clusterId", "replicaDirectoryId", "port", "producerId",
    "lastCaughtUpTimestamp", "lastFetchTimestamp", "logEndOffset", "highWatermark",
    "finalizedFeaturesEpoch",
    # confluent-kafka, kafka-python
    "member_id", "cluster_id", "topic_id", "producer_id", "replica_directory_id", "timestamp",
    "last_caught_up_timestamp", "last_fetch_timestamp", "log_end_offset", "high_watermark",
    "last_timestamp", "transaction_start_time_ms", "total_bytes", "usable_bytes", "log_dir",
    "finalized_features_epoch", "finalized_epoch", "size", "partition_size", "salt", "directory_id",
    # franz-go
    "Port", "MemberID", "Cluster", "TopicID", "ID", "ProducerID", "ProducerId", "LastTimestamp",
    "StartTimestamp", "TxnStartTimestamp", "Dir", "Size", "TotalBytes", "UsableBytes",
    "Timestamp", "Salt", "LogEndOffset", "HighWatermark", "LastFetchTimestamp",
    "LastCaughtUpTimestamp", "ReplicaDirectoryID", "DirectoryID", "FinalizedFeaturesEpoch",
    "HMAC", "TokenID", "IssueTimestamp", "ExpiryTimestamp", "MaxTimestamp",
))  # fmt: skip
"""Fields of which only the presence is compared."""

_PATTERNS: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"directoryId=[\w-]{22}", "directoryId=<id>"),
        (r'cluster id "[\w-]{22}"', 'cluster id "<id>"'),
        (r"^Call\(callName=(\w+).* timed out at .*$", r"\1 timed out"),
        # The time may end before or after a retry is sent.
        (r"^Timed out waiting for a node assignment\. Call: (\w+)\(.*$", r"\1 timed out"),
        (r"/\S*/(kafka|kafkalite)/data\b", "<directory>"),
    )
)

_ENTITY: Final = re.compile(r"entries=\{([^}]*)\}")

_SETUP: Final = frozenset((
    "inter.broker.listener.name", "metric.reporters", "sasl.enabled.mechanisms",
))  # fmt: skip
"""Settings that differ because the two brokers are configured in different ways."""

_SETUP_PREFIX: Final = "listener.name."

_SETTINGS: Final = PLACES | OWN_KEYS | _SETUP


def masked(tree: Tree) -> Tree:
    """Return a tree without values and settings that differ between runs."""
    if isinstance(tree, dict):
        return {
            _text(key): _presence(value) if key in _PRESENCE else masked(value)
            for key, value in tree.items()
            if not _is_ignored_setting(key)
        }
    if isinstance(tree, list):
        return [masked(row) for row in tree if not _is_row_of_ignored_setting(row)]
    return _text(tree) if isinstance(tree, str) else tree


def _is_ignored_setting(name: object) -> bool:
    return isinstance(name, str) and (name in _SETTINGS or name.startswith(_SETUP_PREFIX))


def _is_row_of_ignored_setting(row: Tree) -> bool:
    return isinstance(row, dict) and any(
        _is_ignored_setting(row.get(field)) for field in ("name", "Key", "Name")
    )


def _presence(value: Tree) -> Tree:
    return "none" if value in (None, "", -1, "none") else "present"


def _text(text: str) -> str:
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    # Java prints the parts of an entity of quotas in the order of a hash map.
    return _ENTITY.sub(lambda match: f"entries={sorted(match[1].split(', '))}", text)
