"""LogConfig: the settings of a topic that its logs use."""

from __future__ import annotations

from typing import Final

from kafkalite.ports.named_tuples import NamedTuple

_INT64_MAX = 2**63 - 1
UNLIMITED_RECORD_BYTES: Final = 2_147_483_639
"""The default of max.decompressed.message.bytes, which no record can exceed."""


class LogConfig(NamedTuple):
    """The configuration of a topic that its logs use; names and defaults are those of Kafka 4.4.

    Times are in milliseconds, sizes in bytes; -1 means unlimited, as in Kafka.
    """

    cleanup_policy: frozenset[str] = frozenset(("delete",))
    compression_type: str = "producer"
    delete_retention_ms: int = 86_400_000
    flush_messages: int = _INT64_MAX
    flush_ms: int = _INT64_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = _INT64_MAX
    max_decompressed_message_bytes: int = UNLIMITED_RECORD_BYTES
    max_message_bytes: int = 1_048_588
    message_downconversion_enable: bool = True
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = _INT64_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
