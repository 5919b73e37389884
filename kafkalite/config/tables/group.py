"""Keys of groups and of their offsets: those of the broker, and those of a single group."""

BROKER_KEYS = """
errors.deadletterqueue.auto.create.topics.enable boolean false - medium cluster-wide
    Whether the broker creates missing dead-letter topics of share groups.
errors.deadletterqueue.topic.name.prefix string dlq. - medium cluster-wide
    Required beginning of the names of dead-letter topics; empty for any name.
group.consumer.assignment.interval.ms int 1000 0.. medium cluster-wide
    Minimum time between two assignments of a consumer group.
group.consumer.assignors list uniform,range items+ medium
    Assignors that consumer groups can choose from, the default first.
group.consumer.heartbeat.interval.ms int 5000 1.. medium
    Heartbeat interval of members of a consumer group.
group.consumer.max.assignment.interval.ms int 15000 0.. medium
    Upper limit for the assignment interval of a group.
group.consumer.max.heartbeat.interval.ms int 15000 1.. medium
    Upper limit for the heartbeat interval of a group.
group.consumer.max.session.timeout.ms int 60000 1.. medium
    Upper limit for the session timeout of a group.
group.consumer.max.size int 2147483647 1.. medium
    Maximum number of members of a consumer group.
group.consumer.migration.policy string bidirectional \
any-case(DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL) medium
    Whether groups may migrate between the classic and the consumer protocol.
group.consumer.min.assignment.interval.ms int 0 0.. medium
    Lower limit for the assignment interval of a group.
group.consumer.min.heartbeat.interval.ms int 5000 1.. medium
    Lower limit for the heartbeat interval of a group.
group.consumer.min.session.timeout.ms int 45000 1.. medium
    Lower limit for the session timeout of a group.
group.consumer.regex.refresh.interval.ms int 600000 10000.. medium internal
    How often topics are matched against subscribed patterns again.
group.consumer.session.timeout.ms int 45000 1.. medium
    Time without heartbeats after which a member of a consumer group is removed.
group.coordinator.append.linger.ms int -1 -1.. medium
    Time that a coordinator collects records for one batch; -1 adapts to load.
group.coordinator.background.threads int 2 1.. high
    Threads for a coordinator's slow work, such as matching patterns.
group.coordinator.cached.buffer.max.bytes int 1048588 524288.. medium cluster-wide
    Largest write buffer that a group coordinator caches.
group.coordinator.rebalance.protocols list classic,consumer,streams \
items+(consumer|classic|share|streams) medium
    Group protocols that are enabled.
group.coordinator.threads int 4 1.. high
    Threads that run group coordinators.
group.initial.rebalance.delay.ms int 3000 - medium
    Time that a new classic group waits for more members before its first rebalance.
group.max.session.timeout.ms int 1800000 - medium
    Longest session timeout that a classic member may request.
group.max.size int 2147483647 1.. medium
    Maximum number of members of a classic group.
group.min.session.timeout.ms int 6000 - medium
    Shortest session timeout that a classic member may request.
group.share.assignment.interval.ms int 1000 0.. medium cluster-wide
    Minimum time between two assignments of a share group.
group.share.assignors list simple items+ medium
    Assignor that share groups use.
group.share.delivery.count.limit int 5 2..10 medium
    How often a record is delivered before it is archived.
group.share.heartbeat.interval.ms int 5000 1.. medium
    Heartbeat interval of members of a share group.
group.share.initialize.retry.interval.ms int 30000 1.. low internal
    Delay before the initialization of share state is retried.
group.share.max.assignment.interval.ms int 15000 0.. medium
    Upper limit for the assignment interval of a share group.
group.share.max.delivery.count.limit int 10 5..25 medium
    Upper limit for the delivery count of a share group.
group.share.max.heartbeat.interval.ms int 15000 1.. medium
    Upper limit for the heartbeat interval of a share group.
group.share.max.partition.max.record.locks int 4000 2000..10000 medium
    Upper limit for the record locks of a share group.
group.share.max.record.lock.duration.ms int 60000 30000..3600000 medium
    Upper limit for the lock duration of a share group.
group.share.max.session.timeout.ms int 60000 1.. medium
    Upper limit for the session timeout of a share group.
group.share.max.share.sessions int 2000 1.. medium
    Maximum number of share sessions of a broker.
group.share.max.size int 200 1..1000 medium
    Maximum number of members of a share group.
group.share.min.assignment.interval.ms int 0 0.. medium
    Lower limit for the assignment interval of a share group.
group.share.min.delivery.count.limit int 2 2..5 medium
    Lower limit for the delivery count of a share group.
group.share.min.heartbeat.interval.ms int 5000 1.. medium
    Lower limit for the heartbeat interval of a share group.
group.share.min.partition.max.record.locks int 100 100..2000 medium
    Lower limit for the record locks of a share group.
group.share.min.record.lock.duration.ms int 15000 1000..30000 medium
    Lower limit for the lock duration of a share group.
group.share.min.session.timeout.ms int 45000 1.. medium
    Lower limit for the session timeout of a share group.
group.share.partition.max.record.locks int 2000 100..10000 medium
    Records of one partition that a share group may have acquired at a time.
group.share.persister.class.name string \
org.apache.kafka.server.share.persister.DefaultStatePersister - medium internal
    Class that stores the state of share partitions.
group.share.record.lock.duration.ms int 30000 1000..3600000 medium
    Duration of a share consumer's acquisition lock on a record.
group.share.session.timeout.ms int 45000 1.. medium
    Time without heartbeats after which a member of a share group is removed.
group.streams.acceptable.recovery.lag long 10000 0.. medium internal
    Lag at which a client counts as caught up; members of streams groups receive it since Kafka 4.4.
group.streams.assignment.interval.ms int 1000 0.. medium cluster-wide
    Minimum time between two assignments of a streams group.
group.streams.assignors list sticky items+ medium
    Assignors of streams groups; the first is the default. Used since Kafka 4.4.
group.streams.heartbeat.interval.ms int 5000 1.. medium
    Heartbeat interval of members of a streams group.
group.streams.initial.rebalance.delay.ms int 3000 0.. medium
    Time that a new streams group waits for more members before its first rebalance.
group.streams.max.assignment.interval.ms int 15000 0.. medium
    Upper limit for the assignment interval of a streams group.
group.streams.max.heartbeat.interval.ms int 15000 1.. medium
    Upper limit for the heartbeat interval of a streams group.
group.streams.max.session.timeout.ms int 60000 1.. medium
    Upper limit for the session timeout of a streams group.
group.streams.max.size int 2147483647 1.. medium
    Maximum number of members of a streams group.
group.streams.max.standby.replicas int 2 0.. medium
    Maximum number of standby replicas of each task in a streams group.
group.streams.min.assignment.interval.ms int 0 0.. medium
    Lower limit for the assignment interval of a streams group.
group.streams.min.heartbeat.interval.ms int 5000 1.. medium
    Lower limit for the heartbeat interval of a streams group.
group.streams.min.session.timeout.ms int 45000 1.. medium
    Lower limit for the session timeout of a streams group.
group.streams.min.task.offset.interval.ms int 15000 1.. medium internal
    Lower limit for the interval at which members of a streams group report offsets of tasks.
group.streams.num.standby.replicas int 0 0.. medium
    Standby replicas of each task in a streams group.
group.streams.rack.aware.assignment.tags list "" items low
    Tags that each client of a streams group must have, since Kafka 4.4. Assignors may distribute
    standby tasks by them; `sticky` does not.
group.streams.session.timeout.ms int 45000 1.. medium
    Time without heartbeats after which a member of a streams group is removed.
group.streams.task.offset.interval.ms int 60000 1.. medium internal
    Interval at which members of a streams group report offsets of tasks since Kafka 4.4.
group.streams.topology.description.plugin.class class null - medium
    Class that stores the topology descriptions of streams groups since Kafka 4.4, such as
    `org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin`. null: they are not stored.
offset.metadata.max.bytes int 4096 - high
    Maximum size of the metadata of a committed offset.
offsets.commit.timeout.ms int 5000 1.. high
    Time that a commit may take to reach all replicas.
offsets.load.buffer.size int 5242880 1.. high
    Bytes per read while committed offsets are loaded.
offsets.retention.check.interval.ms long 600000 1.. high
    How often the broker looks for expired offsets.
offsets.retention.minutes int 10080 1.. high
    Time after which offsets of an empty group expire.
offsets.topic.compression.codec int 0 0..4 high
    Compression codec of the topic of committed offsets, as a number.
offsets.topic.num.partitions int 50 1.. high
    Partitions of the topic of committed offsets.
offsets.topic.replication.factor short 3 1.. high
    Replicas of the topic of committed offsets.
offsets.topic.segment.bytes int 104857600 1.. high
    Segment size of the topic of committed offsets.
share.coordinator.append.linger.ms int -1 -1.. medium
    Time that a share coordinator collects records for one batch; -1 adapts to load.
share.coordinator.cached.buffer.max.bytes int 1048588 524288.. medium cluster-wide
    Largest write buffer that a share coordinator caches.
share.coordinator.cold.partition.snapshot.interval.ms int 300000 1.. low internal
    How often a snapshot of share partitions without updates is written.
share.coordinator.load.buffer.size int 5242880 1.. high
    Bytes per read while share state is loaded.
share.coordinator.snapshot.update.records.per.snapshot int 500 0..500 medium
    Updates of a share partition between two of its snapshots.
share.coordinator.state.topic.compression.codec int 0 0..4 high
    Compression codec of the topic of share state, as a number.
share.coordinator.state.topic.min.isr short 2 1.. high
    Minimum number of in-sync replicas for share state.
share.coordinator.state.topic.num.partitions int 50 1.. high
    Partitions of the topic of share state.
share.coordinator.state.topic.prune.interval.ms int 300000 1.. low internal
    How often superseded share state is deleted.
share.coordinator.state.topic.replication.factor short 3 1.. high
    Replicas of the topic of share state.
share.coordinator.state.topic.segment.bytes int 104857600 1.. high
    Segment size of the topic of share state.
share.coordinator.threads int 1 1.. medium
    Threads that run share coordinators.
share.coordinator.write.timeout.ms int 5000 1.. high
    Time that writing share state may take.
"""

KEYS = """
consumer.assignment.interval.ms int 1000 0.. medium
    Minimum time between two assignments of this consumer group.
consumer.heartbeat.interval.ms int 5000 1.. medium
    Heartbeat interval of members of this consumer group.
consumer.session.timeout.ms int 45000 1.. medium
    Time without heartbeats after which a member of this consumer group is removed.
errors.deadletterqueue.copy.record.enable boolean false - medium
    Whether records of the dead-letter topic have the keys and values of the original records.
errors.deadletterqueue.topic.name string "" - medium
    Dead-letter topic of this share group; empty for none.
share.assignment.interval.ms int 1000 0.. medium
    Minimum time between two assignments of this share group.
share.auto.offset.reset string latest share-reset medium
    Where this share group starts: earliest, latest, or a duration before now.
share.delivery.count.limit int 5 2.. medium
    How often a record is delivered to this share group before it is archived.
share.heartbeat.interval.ms int 5000 1.. medium
    Heartbeat interval of members of this share group.
share.isolation.level string read_uncommitted one(read_committed|read_uncommitted) medium
    Whether this share group sees records of aborted and open transactions.
share.partition.max.record.locks int 2000 100.. medium
    Records of one partition that this share group may have acquired at a time.
share.record.lock.duration.ms int 30000 1000.. medium
    Duration of a consumer's acquisition lock on a record in this share group.
share.renew.acknowledge.enable boolean true - medium
    Whether consumers of this share group may renew their acquisition locks.
share.session.timeout.ms int 45000 1.. medium
    Time without heartbeats after which a member of this share group is removed.
streams.acceptable.recovery.lag long 10000 0.. medium internal
    Lag at which a client of this streams group counts as caught up.
streams.assignment.interval.ms int 1000 0.. medium
    Minimum time between two assignments of this streams group.
streams.assignor.name string null - medium
    Assignor of this streams group, one of `group.streams.assignors`.
streams.heartbeat.interval.ms int 5000 1.. medium
    Heartbeat interval of members of this streams group.
streams.initial.rebalance.delay.ms int 3000 0.. medium
    Time that this streams group waits for more members before its first rebalance.
streams.num.standby.replicas int 0 0.. medium
    Standby replicas of each task in this streams group.
streams.rack.aware.assignment.tags list "" items low
    Tags that each client of this streams group must have.
streams.session.timeout.ms int 45000 1.. medium
    Time without heartbeats after which a member of this streams group is removed.
streams.task.offset.interval.ms int 60000 1.. medium internal
    Interval at which members of this streams group report offsets of tasks.
"""
"""Keys of a group. An unset key has the value of its broker synonym."""
