"""Keys of a topic; one left unset follows its broker synonym."""

KEYS = """
cleanup.policy list delete items(compact|delete) medium
compression.gzip.level int -1 gzip-level medium
compression.lz4.level int 9 1..17 medium
compression.type string producer one(uncompressed|zstd|lz4|snappy|gzip|producer) medium
compression.zstd.level int 3 -131072..22 medium
delete.retention.ms long 86400000 0.. medium
file.delete.delay.ms long 60000 0.. medium
flush.messages long 9223372036854775807 1.. medium
flush.ms long 9223372036854775807 0.. medium
follower.replication.throttled.replicas list "" throttled-replicas medium
index.interval.bytes int 4096 0.. medium
internal.segment.bytes int null - medium internal
leader.replication.throttled.replicas list "" throttled-replicas medium
local.retention.bytes long -2 -2.. medium
local.retention.ms long -2 -2.. medium
max.compaction.lag.ms long 9223372036854775807 1.. medium
max.message.bytes int 1048588 0.. medium
message.timestamp.after.max.ms long 3600000 0.. medium
message.timestamp.before.max.ms long 9223372036854775807 0.. medium
message.timestamp.type string CreateTime one(CreateTime|LogAppendTime) medium
min.cleanable.dirty.ratio double 0.5 0..1 medium
min.compaction.lag.ms long 0 0.. medium
min.insync.replicas int 1 1.. medium
preallocate boolean false - medium
remote.log.copy.disable boolean false - medium
remote.log.delete.on.disable boolean false - medium
remote.storage.enable boolean false - medium
retention.bytes long -1 - medium
retention.ms long 604800000 -1.. medium
segment.bytes int 1073741824 1048576.. medium
segment.index.bytes int 10485760 4.. medium
segment.jitter.ms long 0 0.. medium
segment.ms long 604800000 1.. medium
unclean.leader.election.enable boolean false - medium
"""
