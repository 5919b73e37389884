"""Keys of a topic; one left unset follows its broker synonym."""

KEYS = """
cleanup.policy list delete items(compact|delete) medium
    What happens to old records: deleted, compacted, both, or kept for ever when empty.
compression.gzip.level int -1 gzip-level medium
    Level at which the broker compresses when the type is gzip.
compression.lz4.level int 9 1..17 medium
    Level at which the broker compresses when the type is lz4.
compression.type string producer one(uncompressed|zstd|lz4|snappy|gzip|producer) medium
    How batches are stored: in one codec, uncompressed, or as their producer sent them.
compression.zstd.level int 3 -131072..22 medium
    Level at which the broker compresses when the type is zstd.
delete.retention.ms long 86400000 0.. medium
    Time that tombstones stay after compaction.
file.delete.delay.ms long 60000 0.. medium
    Wait between taking a file out of the log and removing it.
flush.messages long 9223372036854775807 1.. medium
    Records after which the log is flushed to disk.
flush.ms long 9223372036854775807 0.. medium
    Time after which the log is flushed to disk.
follower.replication.throttled.replicas list "" throttled-replicas medium
    Replicas whose followers are throttled, as partition:broker pairs, or * for all.
index.interval.bytes int 4096 0.. medium
    Bytes of the log between two entries of its index.
internal.segment.bytes int null - medium internal
    Segment size below what segment.bytes takes, for tests.
leader.replication.throttled.replicas list "" throttled-replicas medium
    Replicas whose leaders are throttled, as partition:broker pairs, or * for all.
local.retention.bytes long -2 -2.. medium
    Bytes of a tiered log kept on the broker; -2 for as many as retention.bytes.
local.retention.ms long -2 -2.. medium
    Time records of a tiered log stay on the broker; -2 for as long as retention.ms.
max.compaction.lag.ms long 9223372036854775807 1.. medium
    Age at which a record must become eligible for compaction.
max.message.bytes int 1048588 0.. medium
    Largest batch that the topic takes, as it comes in.
message.timestamp.after.max.ms long 3600000 0.. medium
    How far in the future a record's timestamp may lie.
message.timestamp.before.max.ms long 9223372036854775807 0.. medium
    How far in the past a record's timestamp may lie.
message.timestamp.type string CreateTime one(CreateTime|LogAppendTime) medium
    Whether a record's time is its creation or its arrival.
min.cleanable.dirty.ratio double 0.5 0..1 medium
    Share of the log that must be dirty before it is compacted.
min.compaction.lag.ms long 0 0.. medium
    Time that a record stays out of compaction.
min.insync.replicas int 1 1.. medium
    Replicas that must be in sync before acks=all is a promise.
preallocate boolean false - medium
    Whether segment files are made at their full size.
remote.log.copy.disable boolean false - medium
    Whether nothing more is copied to tiered storage.
remote.log.delete.on.disable boolean false - medium
    Whether giving up tiered storage deletes what was tiered.
remote.storage.enable boolean false - medium
    Whether old segments move to tiered storage.
retention.bytes long -1 - medium
    Size at which a partition's oldest segments are deleted; -1 for never.
retention.ms long 604800000 -1.. medium
    Time records are kept, in milliseconds; -1 for ever.
segment.bytes int 1073741824 1048576.. medium
    Size at which the log closes its segment and opens a new one.
segment.index.bytes int 10485760 4.. medium
    Largest size of the offset index.
segment.jitter.ms long 0 0.. medium
    Most that is taken off segment.ms at random.
segment.ms long 604800000 1.. medium
    Age at which a segment is closed, full or not.
unclean.leader.election.enable boolean false - medium
    Whether a replica out of sync may lead when no other is left.
"""
