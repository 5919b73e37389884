"""Keys of the broker that steer groups: classic, consumer, share and streams, and their offsets."""

KEYS = """
group.consumer.assignment.interval.ms int 1000 0.. medium cluster-wide
group.consumer.assignors list uniform,range items+ medium
group.consumer.heartbeat.interval.ms int 5000 1.. medium
group.consumer.max.assignment.interval.ms int 15000 0.. medium
group.consumer.max.heartbeat.interval.ms int 15000 1.. medium
group.consumer.max.session.timeout.ms int 60000 1.. medium
group.consumer.max.size int 2147483647 1.. medium
group.consumer.migration.policy string bidirectional \
any-case(DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL) medium
group.consumer.min.assignment.interval.ms int 0 0.. medium
group.consumer.min.heartbeat.interval.ms int 5000 1.. medium
group.consumer.min.session.timeout.ms int 45000 1.. medium
group.consumer.regex.refresh.interval.ms int 600000 10000.. medium internal
group.consumer.session.timeout.ms int 45000 1.. medium
group.coordinator.append.linger.ms int -1 -1.. medium
group.coordinator.background.threads int 2 1.. high
group.coordinator.cached.buffer.max.bytes int 1048588 524288.. medium cluster-wide
group.coordinator.rebalance.protocols list classic,consumer,streams \
items+(consumer|classic|share|streams) medium
group.coordinator.threads int 4 1.. high
group.initial.rebalance.delay.ms int 3000 - medium
group.max.session.timeout.ms int 1800000 - medium
group.max.size int 2147483647 1.. medium
group.min.session.timeout.ms int 6000 - medium
group.share.assignment.interval.ms int 1000 0.. medium cluster-wide
group.share.assignors list simple items+ medium
group.share.delivery.count.limit int 5 2..10 medium
group.share.heartbeat.interval.ms int 5000 1.. medium
group.share.initialize.retry.interval.ms int 30000 1.. low internal
group.share.max.assignment.interval.ms int 15000 0.. medium
group.share.max.delivery.count.limit int 10 5..25 medium
group.share.max.heartbeat.interval.ms int 15000 1.. medium
group.share.max.partition.max.record.locks int 4000 2000..10000 medium
group.share.max.record.lock.duration.ms int 60000 30000..3600000 medium
group.share.max.session.timeout.ms int 60000 1.. medium
group.share.max.share.sessions int 2000 1.. medium
group.share.max.size int 200 1..1000 medium
group.share.min.assignment.interval.ms int 0 0.. medium
group.share.min.delivery.count.limit int 2 2..5 medium
group.share.min.heartbeat.interval.ms int 5000 1.. medium
group.share.min.partition.max.record.locks int 100 100..2000 medium
group.share.min.record.lock.duration.ms int 15000 1000..30000 medium
group.share.min.session.timeout.ms int 45000 1.. medium
group.share.partition.max.record.locks int 2000 100..10000 medium
group.share.persister.class.name string \
org.apache.kafka.server.share.persister.DefaultStatePersister - medium internal
group.share.record.lock.duration.ms int 30000 1000..3600000 medium
group.share.session.timeout.ms int 45000 1.. medium
group.streams.assignment.interval.ms int 1000 0.. medium cluster-wide
group.streams.heartbeat.interval.ms int 5000 1.. medium
group.streams.initial.rebalance.delay.ms int 3000 0.. medium
group.streams.max.assignment.interval.ms int 15000 0.. medium
group.streams.max.heartbeat.interval.ms int 15000 1.. medium
group.streams.max.session.timeout.ms int 60000 1.. medium
group.streams.max.size int 2147483647 1.. medium
group.streams.max.standby.replicas int 2 0.. medium
group.streams.min.assignment.interval.ms int 0 0.. medium
group.streams.min.heartbeat.interval.ms int 5000 1.. medium
group.streams.min.session.timeout.ms int 45000 1.. medium
group.streams.num.standby.replicas int 0 0.. medium
group.streams.session.timeout.ms int 45000 1.. medium
offset.metadata.max.bytes int 4096 - high
offsets.commit.timeout.ms int 5000 1.. high
offsets.load.buffer.size int 5242880 1.. high
offsets.retention.check.interval.ms long 600000 1.. high
offsets.retention.minutes int 10080 1.. high
offsets.topic.compression.codec int 0 - high
offsets.topic.num.partitions int 50 1.. high
offsets.topic.replication.factor short 3 1.. high
offsets.topic.segment.bytes int 104857600 1.. high
share.coordinator.append.linger.ms int -1 -1.. medium
share.coordinator.cached.buffer.max.bytes int 1048588 524288.. medium cluster-wide
share.coordinator.cold.partition.snapshot.interval.ms int 300000 1.. low internal
share.coordinator.load.buffer.size int 5242880 1.. high
share.coordinator.snapshot.update.records.per.snapshot int 500 0..500 medium
share.coordinator.state.topic.compression.codec int 0 - high
share.coordinator.state.topic.min.isr short 2 1.. high
share.coordinator.state.topic.num.partitions int 50 1.. high
share.coordinator.state.topic.prune.interval.ms int 300000 1.. low internal
share.coordinator.state.topic.replication.factor short 3 1.. high
share.coordinator.state.topic.segment.bytes int 104857600 1.. high
share.coordinator.threads int 1 1.. medium
share.coordinator.write.timeout.ms int 5000 1.. high
"""
