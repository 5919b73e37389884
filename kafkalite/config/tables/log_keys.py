"""Keys of the broker about partitions on disk: segments, retention, compaction, compression."""

KEYS = """
compression.gzip.level int -1 gzip-level medium cluster-wide
compression.lz4.level int 9 1..17 medium cluster-wide
compression.type string producer one(uncompressed|zstd|lz4|snappy|gzip|producer) high cluster-wide
compression.zstd.level int 3 -131072..22 medium cluster-wide
cordoned.log.dirs list "" items medium per-broker
internal.metadata.delete.delay.millis long 60000 - low internal
internal.metadata.log.segment.bytes int null - low internal
internal.metadata.max.batch.size.in.bytes int 8388608 - low internal
log.cleaner.backoff.ms long 15000 0.. medium cluster-wide
log.cleaner.dedupe.buffer.size long 134217728 - medium cluster-wide
log.cleaner.delete.retention.ms long 86400000 0.. medium cluster-wide
log.cleaner.enable boolean true - medium
log.cleaner.io.buffer.load.factor double 0.9 - medium cluster-wide
log.cleaner.io.buffer.size int 524288 0.. medium cluster-wide
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 - medium cluster-wide
log.cleaner.max.compaction.lag.ms long 9223372036854775807 1.. medium cluster-wide
log.cleaner.min.cleanable.ratio double 0.5 0..1 medium cluster-wide
log.cleaner.min.compaction.lag.ms long 0 0.. medium cluster-wide
log.cleaner.threads int 1 0.. medium cluster-wide
log.cleanup.policy list delete items(compact|delete) medium cluster-wide
log.dir list /tmp/kafka-logs items high
log.dir.failure.timeout.ms long 30000 1.. low
log.dirs list null items+ high
log.flush.interval.messages long 9223372036854775807 1.. high cluster-wide
log.flush.interval.ms long null - high cluster-wide
log.flush.offset.checkpoint.interval.ms int 60000 0.. high
log.flush.scheduler.interval.ms long 9223372036854775807 - high
log.flush.start.offset.checkpoint.interval.ms int 60000 0.. high
log.index.interval.bytes int 4096 0.. medium cluster-wide
log.index.size.max.bytes int 10485760 4.. medium cluster-wide
log.initial.task.delay.ms long 30000 0.. low internal
log.local.retention.bytes long -2 -2.. medium cluster-wide
log.local.retention.ms long -2 -2.. medium cluster-wide
log.message.timestamp.after.max.ms long 3600000 0.. medium cluster-wide
log.message.timestamp.before.max.ms long 9223372036854775807 0.. medium cluster-wide
log.message.timestamp.type string CreateTime one(CreateTime|LogAppendTime) medium cluster-wide
log.preallocate boolean false - medium cluster-wide
log.retention.bytes long -1 - high cluster-wide
log.retention.check.interval.ms long 300000 1.. medium
log.retention.hours int 168 - high
log.retention.minutes int null - high
log.retention.ms long null - high cluster-wide
log.roll.hours int 168 1.. high
log.roll.jitter.hours int 0 0.. high
log.roll.jitter.ms long null - high cluster-wide
log.roll.ms long null - high cluster-wide
log.segment.bytes int 1073741824 1048576.. high cluster-wide
log.segment.delete.delay.ms long 60000 0.. high cluster-wide
message.max.bytes int 1048588 0.. high cluster-wide
metadata.log.dir string null - high
metadata.log.max.record.bytes.between.snapshots long 20971520 1.. high
metadata.log.max.snapshot.interval.ms long 3600000 0.. high
metadata.log.segment.bytes int 1073741824 8388608.. high
metadata.log.segment.ms long 604800000 - high
metadata.max.idle.interval.ms int 500 0.. low
metadata.max.retention.bytes long 104857600 - high
metadata.max.retention.ms long 604800000 - high
min.insync.replicas int 1 1.. high cluster-wide
num.recovery.threads.per.data.dir int 2 1.. high cluster-wide
"""
