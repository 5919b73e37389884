"""Keys of the broker about partitions on disk: segments, retention, compaction, compression."""

KEYS = """
compression.gzip.level int -1 gzip-level medium cluster-wide
    Level at which the broker compresses when the type is gzip.
compression.lz4.level int 9 1..17 medium cluster-wide
    Level at which the broker compresses when the type is lz4.
compression.type string producer one(uncompressed|zstd|lz4|snappy|gzip|producer) high cluster-wide
    How batches are stored: in one codec, uncompressed, or as their producer sent them.
compression.zstd.level int 3 -131072..22 medium cluster-wide
    Level at which the broker compresses when the type is zstd.
cordoned.log.dirs list "" items medium per-broker
    Directories that get no new partitions.
internal.metadata.delete.delay.millis long 60000 - low internal
    Wait before old metadata segments leave the disk.
internal.metadata.log.segment.bytes int null - low internal
    Size of a metadata log segment, below what metadata.log.segment.bytes takes.
internal.metadata.max.batch.size.in.bytes int 8388608 - low internal
    Largest batch in the metadata log.
log.cleaner.backoff.ms long 15000 0.. medium cluster-wide
    Pause of a cleaner that found nothing to clean.
log.cleaner.dedupe.buffer.size long 134217728 - medium cluster-wide
    Memory for finding duplicate keys, shared by all cleaners.
log.cleaner.delete.retention.ms long 86400000 0.. medium cluster-wide
    Time that tombstones stay in compacted topics.
log.cleaner.enable boolean true - medium
    Whether compacted topics are compacted.
log.cleaner.io.buffer.load.factor double 0.9 - medium cluster-wide
    How full the deduplication buffer may get.
log.cleaner.io.buffer.size int 524288 0.. medium cluster-wide
    Memory for reading and writing, shared by all cleaners.
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 - medium cluster-wide
    Bytes per second that cleaners may read and write.
log.cleaner.max.compaction.lag.ms long 9223372036854775807 1.. medium cluster-wide
    Age at which a record must become eligible for compaction.
log.cleaner.min.cleanable.ratio double 0.5 0..1 medium cluster-wide
    Share of a log that must be dirty before it is compacted.
log.cleaner.min.compaction.lag.ms long 0 0.. medium cluster-wide
    Time that a record stays out of compaction.
log.cleaner.threads int 1 0.. medium cluster-wide
    Threads that compact logs.
log.cleanup.policy list delete items(compact|delete) medium cluster-wide
    What happens to old records: deleted, compacted, both, or kept for ever when empty.
log.dir list /tmp/kafka-logs items+ high
    Directory for partitions, when log.dirs is not set.
log.dir.failure.timeout.ms long 30000 1.. low
    Time the controller may be unreachable about a failed directory before the broker stops.
log.dirs list null items+ high
    Directories for partitions.
log.flush.interval.messages long 9223372036854775807 1.. high cluster-wide
    Records after which a log is flushed to disk.
log.flush.interval.ms long null - high cluster-wide
    Time after which a log is flushed to disk.
log.flush.offset.checkpoint.interval.ms int 60000 0.. high
    How often it is noted down how far logs are flushed.
log.flush.scheduler.interval.ms long 9223372036854775807 - high
    How often the broker looks for logs to flush.
log.flush.start.offset.checkpoint.interval.ms int 60000 0.. high
    How often the starts of logs are noted down.
log.index.interval.bytes int 4096 0.. medium cluster-wide
    Bytes of a log between two entries of its index.
log.index.size.max.bytes int 10485760 4.. medium cluster-wide
    Largest size of an offset index.
log.initial.task.delay.ms long 30000 0.. low internal
    Wait after start before logs are looked after.
log.local.retention.bytes long -2 -2.. medium cluster-wide
    Bytes of a tiered log kept on the broker; -2 for as many as are kept at all.
log.local.retention.ms long -2 -2.. medium cluster-wide
    Time records of a tiered log stay on the broker; -2 for as long as they are kept at all.
log.message.timestamp.after.max.ms long 3600000 0.. medium cluster-wide
    How far in the future a record's timestamp may lie.
log.message.timestamp.before.max.ms long 9223372036854775807 0.. medium cluster-wide
    How far in the past a record's timestamp may lie.
log.message.timestamp.type string CreateTime one(CreateTime|LogAppendTime) medium cluster-wide
    Whether a record's time is its creation or its arrival.
log.preallocate boolean false - medium cluster-wide
    Whether segment files are made at their full size.
log.retention.bytes long -1 - high cluster-wide
    Size at which a partition's oldest segments are deleted; -1 for never.
log.retention.check.interval.ms long 300000 1.. medium
    How often the broker looks for segments to delete.
log.retention.hours int 168 - high
    Time records are kept, in hours.
log.retention.minutes int null - high
    Time records are kept, in minutes; counts before the hours.
log.retention.ms long null - high cluster-wide
    Time records are kept, in milliseconds; counts before minutes and hours; -1 for ever.
log.roll.hours int 168 1.. high
    Age at which a segment is closed, in hours.
log.roll.jitter.hours int 0 0.. high
    Most that is taken off log.roll.hours at random.
log.roll.jitter.ms long null - high cluster-wide
    Most that is taken off log.roll.ms at random.
log.roll.ms long null - high cluster-wide
    Age at which a segment is closed, in milliseconds; counts before the hours.
log.segment.bytes int 1073741824 1048576.. high cluster-wide
    Size at which a log closes its segment and opens a new one.
log.segment.delete.delay.ms long 60000 0.. high cluster-wide
    Wait between taking a file out of a log and removing it.
message.max.bytes int 1048588 0.. high cluster-wide
    Largest batch that a topic takes, as it comes in.
metadata.log.dir string null - high
    Directory for the metadata log, when it is not the first of log.dirs.
metadata.log.max.record.bytes.between.snapshots long 20971520 1.. high
    Bytes of metadata after which a snapshot is taken.
metadata.log.max.snapshot.interval.ms long 3600000 0.. high
    Time after which a metadata snapshot is taken.
metadata.log.segment.bytes int 1073741824 8388608.. high
    Size of a metadata log segment.
metadata.log.segment.ms long 604800000 - high
    Age at which a metadata log segment is closed.
metadata.max.idle.interval.ms int 500 0.. low
    Silence after which the controller writes a record that says nothing.
metadata.max.retention.bytes long 104857600 - high
    Size at which old metadata snapshots are deleted.
metadata.max.retention.ms long 604800000 - high
    Age at which old metadata snapshots are deleted.
min.insync.replicas int 1 1.. high cluster-wide
    Replicas that must be in sync before acks=all is a promise.
num.recovery.threads.per.data.dir int 2 1.. high cluster-wide
    Threads per directory that recover logs at start.
"""
