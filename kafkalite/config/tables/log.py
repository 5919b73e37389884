"""Keys of the broker about partitions on disk: segments, retention, compaction, compression."""

KEYS = """
compression.gzip.level int -1 gzip-level medium cluster-wide
    Compression level of the broker for gzip.
compression.lz4.level int 9 1..17 medium cluster-wide
    Compression level of the broker for lz4.
compression.type string producer one(uncompressed|zstd|lz4|snappy|gzip|producer) high cluster-wide
    Compression of stored batches: one codec, none, or that of the producer.
compression.zstd.level int 3 -131072..22 medium cluster-wide
    Compression level of the broker for zstd.
cordoned.log.dirs list "" items medium per-broker
    Directories in which no new partitions are created.
internal.metadata.delete.delay.millis long 60000 - low internal
    Delay before old metadata segments are deleted.
internal.metadata.log.segment.bytes int null - low internal
    Size of a metadata log segment; may be below the minimum of metadata.log.segment.bytes.
internal.metadata.max.batch.size.in.bytes int 8388608 - low internal
    Largest batch in the metadata log.
log.cleaner.backoff.ms long 15000 0.. medium cluster-wide
    Delay of a cleaner that found nothing to clean.
log.cleaner.dedupe.buffer.size long 134217728 - medium cluster-wide
    Memory for deduplication, shared by all cleaners.
log.cleaner.delete.retention.ms long 86400000 0.. medium cluster-wide
    Time that tombstones stay in compacted topics.
log.cleaner.enable boolean true - medium
    Whether compacted topics are compacted.
log.cleaner.io.buffer.load.factor double 0.9 - medium cluster-wide
    Load factor of the deduplication buffer.
log.cleaner.io.buffer.size int 524288 0.. medium cluster-wide
    Memory for reading and writing, shared by all cleaners.
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 - medium cluster-wide
    Bytes per second that cleaners may read and write.
log.cleaner.max.compaction.lag.ms long 9223372036854775807 1.. medium cluster-wide
    Maximum age of a record before it becomes eligible for compaction.
log.cleaner.min.cleanable.ratio double 0.5 0..1 medium cluster-wide
    Minimum ratio of uncompacted data in a log before it is compacted.
log.cleaner.min.compaction.lag.ms long 0 0.. medium cluster-wide
    Minimum age of a record before it is compacted.
log.cleaner.threads int 1 0.. medium cluster-wide
    Threads that compact logs.
log.cleanup.policy list delete items(compact|delete) medium cluster-wide
    How old records are removed: delete, compact, both, or never if empty.
log.dir list /tmp/kafka-logs items+ high
    Directory for partitions if log.dirs is not set.
log.dir.failure.timeout.ms long 30000 1.. low
    Time after which a broker stops if it cannot report a failed directory to the controller.
log.dirs list null items+ high
    Directories for partitions.
log.flush.interval.messages long 9223372036854775807 1.. high cluster-wide
    Records after which a log is flushed to disk.
log.flush.interval.ms long null - high cluster-wide
    Time after which a log is flushed to disk.
log.flush.offset.checkpoint.interval.ms int 60000 0.. high
    How often the recovery points of logs are written to disk.
log.flush.scheduler.interval.ms long 9223372036854775807 - high
    How often the broker checks for logs to flush.
log.flush.start.offset.checkpoint.interval.ms int 60000 0.. high
    How often the start offsets of logs are written to disk.
log.index.interval.bytes int 4096 0.. medium cluster-wide
    Bytes of a log between two entries of its index.
log.index.size.max.bytes int 10485760 4.. medium cluster-wide
    Largest size of an offset index.
log.initial.task.delay.ms long 30000 0.. low internal
    Delay after the start before log maintenance begins.
log.local.retention.bytes long -2 -2.. medium cluster-wide
    Bytes of a tiered log on the broker; -2 for the limit of the whole log.
log.local.retention.ms long -2 -2.. medium cluster-wide
    Retention time of a tiered log on the broker; -2 for that of the whole log.
log.message.timestamp.after.max.ms long 3600000 0.. medium cluster-wide
    How far in the future a record's timestamp may be.
log.message.timestamp.before.max.ms long 9223372036854775807 0.. medium cluster-wide
    How far in the past a record's timestamp may be.
log.message.timestamp.type string CreateTime one(CreateTime|LogAppendTime) medium cluster-wide
    Whether a record's timestamp is the time of its creation or of its arrival.
log.preallocate boolean false - medium cluster-wide
    Whether segment files are preallocated.
log.remote.copy.lag.bytes long -1 -1.. medium cluster-wide
    Bytes of newer segments after which a segment is copied to tiered storage; -1 for no limit.
log.remote.copy.lag.ms long 0 -1.. medium cluster-wide
    Age at which a segment is copied to tiered storage; -1 for no limit.
log.retention.bytes long -1 - high cluster-wide
    Size at which a partition's oldest segments are deleted; -1 for never.
log.retention.check.interval.ms long 300000 1.. medium
    How often the broker checks for segments to delete.
log.retention.hours int 168 - high
    Retention time of records, in hours.
log.retention.minutes int null - high
    Retention time of records, in minutes; has precedence over hours.
log.retention.ms long null - high cluster-wide
    Retention time of records, in milliseconds; overrides minutes and hours; -1: unlimited.
log.roll.hours int 168 1.. high
    Age at which a segment is closed, in hours.
log.roll.jitter.hours int 0 0.. high
    Maximum random time that is subtracted from log.roll.hours.
log.roll.jitter.ms long null - high cluster-wide
    Maximum random time that is subtracted from log.roll.ms.
log.roll.ms long null - high cluster-wide
    Age at which a segment is closed, in milliseconds; has precedence over hours.
log.segment.bytes int 1073741824 1048576.. high cluster-wide
    Size at which a log closes its segment and opens a new one.
log.segment.delete.delay.ms long 60000 0.. high cluster-wide
    Delay before a file that was removed from a log is deleted.
message.max.bytes int 1048588 0.. high cluster-wide
    Maximum size of a batch that a topic accepts, as sent by the producer.
metadata.log.dir string null - high
    Directory for the metadata log; the first of log.dirs if null.
metadata.log.max.record.bytes.between.snapshots long 20971520 1.. high
    Bytes of metadata after which a snapshot is taken.
metadata.log.max.snapshot.interval.ms long 3600000 0.. high
    Time after which a metadata snapshot is taken.
metadata.log.segment.bytes int 1073741824 8388608.. high
    Size of a metadata log segment.
metadata.log.segment.ms long 604800000 - high
    Age at which a metadata log segment is closed.
metadata.max.idle.interval.ms int 500 0.. low
    Inactivity after which the controller writes a no-op record.
metadata.max.retention.bytes long 104857600 - high
    Size at which old metadata snapshots are deleted.
metadata.max.retention.ms long 604800000 - high
    Age at which old metadata snapshots are deleted.
min.insync.replicas int 1 1.. high cluster-wide
    Minimum number of in-sync replicas for a write with acks=all.
num.recovery.threads.per.data.dir int 2 1.. high cluster-wide
    Threads per directory that recover logs at start.
"""
