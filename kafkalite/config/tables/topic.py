"""Keys of a topic. An unset key has the value of its broker synonym."""

from __future__ import annotations

from types import MappingProxyType

KEYS = """
cleanup.policy list delete items(compact|delete) medium
    How old records are removed: delete, compact, both, or never if empty.
compression.gzip.level int -1 gzip-level medium
    Compression level of the broker for gzip.
compression.lz4.level int 9 1..17 medium
    Compression level of the broker for lz4.
compression.type string producer one(uncompressed|zstd|lz4|snappy|gzip|producer) medium
    Compression of stored batches: one codec, none, or that of the producer.
compression.zstd.level int 3 -131072..22 medium
    Compression level of the broker for zstd.
delete.retention.ms long 86400000 0.. medium
    Time that tombstones stay after compaction.
errors.deadletterqueue.group.enable boolean false - medium
    Whether share groups may use the topic as their dead-letter topic.
file.delete.delay.ms long 60000 0.. medium
    Delay before a file that was removed from the log is deleted.
flush.messages long 9223372036854775807 1.. medium
    Records after which the log is flushed to disk.
flush.ms long 9223372036854775807 0.. medium
    Time after which the log is flushed to disk.
follower.replication.throttled.replicas list "" throttled-replicas medium
    Replicas whose followers are throttled, as partition:broker pairs, or * for all.
index.interval.bytes int 4096 0.. medium
    Bytes of the log between two entries of its index.
internal.segment.bytes int null - medium internal
    Segment size for tests; may be below the minimum of segment.bytes.
leader.replication.throttled.replicas list "" throttled-replicas medium
    Replicas whose leaders are throttled, as partition:broker pairs, or * for all.
local.retention.bytes long -2 -2.. medium
    Bytes of a tiered log on the broker; -2 for the value of retention.bytes.
local.retention.ms long -2 -2.. medium
    Retention time of a tiered log on the broker; -2 for the value of retention.ms.
max.compaction.lag.ms long 9223372036854775807 1.. medium
    Maximum age of a record before it becomes eligible for compaction.
max.decompressed.message.bytes int 2147483639 1..2147483639 medium
    Maximum size of one record of a compressed batch when it is decompressed.
max.message.bytes int 1048588 0.. medium
    Maximum size of a batch that the topic accepts, as sent by the producer.
message.timestamp.after.max.ms long 3600000 0.. medium
    How far in the future a record's timestamp may be.
message.timestamp.before.max.ms long 9223372036854775807 0.. medium
    How far in the past a record's timestamp may be.
message.timestamp.type string CreateTime one(CreateTime|LogAppendTime) medium
    Whether a record's timestamp is the time of its creation or of its arrival.
min.cleanable.dirty.ratio double 0.5 0..1 medium
    Minimum ratio of uncompacted data in the log before it is compacted.
min.compaction.lag.ms long 0 0.. medium
    Minimum age of a record before it is compacted.
min.insync.replicas int 1 1.. medium
    Minimum number of in-sync replicas for a write with acks=all.
preallocate boolean false - medium
    Whether segment files are preallocated.
remote.copy.lag.bytes long -1 -1.. medium
    Bytes of newer segments after which a segment is copied to tiered storage; -1 for no limit.
remote.copy.lag.ms long 0 -1.. medium
    Age at which a segment is copied to tiered storage; -1 for no limit.
remote.log.copy.disable boolean false - medium
    Whether copying to tiered storage is disabled.
remote.log.delete.on.disable boolean false - medium
    Whether disabling tiered storage deletes the tiered segments.
remote.storage.enable boolean false - medium
    Whether old segments move to tiered storage.
retention.bytes long -1 - medium
    Size at which a partition's oldest segments are deleted; -1 for never.
retention.ms long 604800000 -1.. medium
    Retention time of records, in milliseconds; -1 for no limit.
segment.bytes int 1073741824 1048576.. medium
    Size at which the log closes its segment and opens a new one.
segment.index.bytes int 10485760 4.. medium
    Largest size of the offset index.
segment.jitter.ms long 0 0.. medium
    Maximum random time that is subtracted from segment.ms.
segment.ms long 604800000 1.. medium
    Age at which a segment is closed, even if it is not full.
unclean.leader.election.enable boolean false - medium
    Whether a replica that is not in sync may become leader if no other is available.
"""

OLD_KEYS = """
message.downconversion.enable boolean true - low
    Whether record batches are converted to older formats for old consumers.
message.format.version string 3.0-IV1 metadata-version medium
    Release that defines the record format of the log; ignored since 3.0.
message.timestamp.difference.max.ms long 9223372036854775807 0.. medium
    Maximum difference between a record's timestamp and the broker's time.
"""
"""Keys that Kafka had before 4.0. They are stored but have no effect."""

OLD_SYNONYMS = MappingProxyType({
    "message.downconversion.enable": "log.message.downconversion.enable",
    "message.format.version": "log.message.format.version",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
})  # fmt: skip
"""Topic key → the broker key that DescribeConfigs shows as its synonym."""
