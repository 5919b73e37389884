"""Keys of the broker about tiered storage, which kafkalite stores and shows but does not use."""

KEYS = """
follower.fetch.last.tiered.offset.enable boolean false - medium cluster-wide
    Whether a new follower starts at the last offset in tiered storage.
remote.fetch.max.wait.ms int 500 1.. medium cluster-wide
    Timeout of a fetch from tiered storage.
remote.list.offsets.request.timeout.ms long 30000 1.. medium cluster-wide
    Timeout of a search for offsets in tiered storage.
remote.log.index.file.cache.total.size.bytes long 1073741824 1.. low cluster-wide
    Disk space for indexes fetched from tiered storage.
remote.log.index.file.cache.ttl.ms long 900000 -1.. low internal
    Time after which an unused index from tiered storage is dropped; -1 for never.
remote.log.manager.copier.thread.pool.size int 10 1.. medium cluster-wide
    Threads that copy segments to tiered storage.
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 1.. medium cluster-wide
    Limit of the rate of writes to tiered storage, in bytes per second.
remote.log.manager.copy.quota.window.num int 11 1.. medium
    Samples to measure the rate of writes to tiered storage.
remote.log.manager.copy.quota.window.size.seconds int 1 1.. medium
    Length of one sample of the rate of writes to tiered storage, in seconds.
remote.log.manager.expiration.thread.pool.size int 10 1.. medium cluster-wide
    Threads that delete expired segments from tiered storage.
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 1.. medium cluster-wide
    Limit of the rate of reads from tiered storage, in bytes per second.
remote.log.manager.fetch.quota.window.num int 11 1.. medium
    Samples to measure the rate of reads from tiered storage.
remote.log.manager.fetch.quota.window.size.seconds int 1 1.. medium
    Length of one sample of the rate of reads from tiered storage, in seconds.
remote.log.manager.follower.thread.pool.size int 2 1.. medium cluster-wide
    Threads that followers of tiered partitions use.
remote.log.manager.task.interval.ms long 30000 1.. low
    How often the tasks of tiered storage run.
remote.log.manager.task.retry.backoff.max.ms long 30000 1.. low internal
    Longest delay before a failed task of tiered storage is retried.
remote.log.manager.task.retry.backoff.ms long 500 1.. low internal
    Delay before a failed task of tiered storage is retried.
remote.log.manager.task.retry.jitter double 0.2 0..0.5 low internal
    Random part of the delay before a task of tiered storage is retried, as a ratio.
remote.log.manager.thread.pool.size int 2 1.. medium
    Threads for all other work of tiered storage.
remote.log.metadata.custom.metadata.max.bytes int 128 0.. low
    Maximum size of a plug-in's metadata about a tiered segment.
remote.log.metadata.manager.class.name string \
org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager \
non-empty medium
    Class that manages the metadata of tiered segments.
remote.log.metadata.manager.class.path string null - medium
    Class path of the class that manages the metadata of tiered segments.
remote.log.metadata.manager.impl.prefix string rlmm.config. non-empty medium
    Prefix of settings for the class that manages the metadata of tiered segments.
remote.log.metadata.manager.listener.name string null non-empty medium
    Listener for the class that manages the metadata of tiered segments.
remote.log.reader.max.pending.tasks int 100 1.. medium
    Reads from tiered storage that may wait.
remote.log.reader.threads int 10 1.. medium cluster-wide
    Threads that read from tiered storage.
remote.log.storage.manager.class.name string null non-empty medium
    Class that stores segments in tiered storage.
remote.log.storage.manager.class.path string null - medium
    Class path of the class that stores segments in tiered storage.
remote.log.storage.manager.impl.prefix string rsm.config. non-empty medium
    Prefix of settings for the class that stores segments in tiered storage.
remote.log.storage.system.enable boolean false - medium
    Whether tiered storage is enabled.
"""
