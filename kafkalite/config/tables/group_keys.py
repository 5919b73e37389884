"""Keys of the broker that steer groups: classic, consumer, share and streams, and their offsets."""

KEYS = """
group.consumer.assignment.interval.ms int 1000 0.. medium cluster-wide
    Least time between two assignments of a consumer group.
group.consumer.assignors list uniform,range items+ medium
    Assignors that consumer groups can choose from, the default first.
group.consumer.heartbeat.interval.ms int 5000 1.. medium
    How often members of a consumer group are told to beat.
group.consumer.max.assignment.interval.ms int 15000 0.. medium
    Most that a group may set its assignment interval to.
group.consumer.max.heartbeat.interval.ms int 15000 1.. medium
    Most that a group may set its heartbeat interval to.
group.consumer.max.session.timeout.ms int 60000 1.. medium
    Most that a group may set its session timeout to.
group.consumer.max.size int 2147483647 1.. medium
    Members a consumer group may have.
group.consumer.migration.policy string bidirectional \
any-case(DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL) medium
    Whether groups turn from the classic to the consumer protocol and back.
group.consumer.min.assignment.interval.ms int 0 0.. medium
    Least that a group may set its assignment interval to.
group.consumer.min.heartbeat.interval.ms int 5000 1.. medium
    Least that a group may set its heartbeat interval to.
group.consumer.min.session.timeout.ms int 45000 1.. medium
    Least that a group may set its session timeout to.
group.consumer.regex.refresh.interval.ms int 600000 10000.. medium internal
    How often topics are matched anew against subscribed patterns.
group.consumer.session.timeout.ms int 45000 1.. medium
    Silence after which a member of a consumer group is removed.
group.coordinator.append.linger.ms int -1 -1.. medium
    Time a coordinator gathers records into one batch; -1 adapts to load.
group.coordinator.background.threads int 2 1.. high
    Threads for a coordinator's slow work, such as matching patterns.
group.coordinator.cached.buffer.max.bytes int 1048588 524288.. medium cluster-wide
    Largest write buffer that a group coordinator keeps for reuse.
group.coordinator.rebalance.protocols list classic,consumer,streams \
items+(consumer|classic|share|streams) medium
    Group protocols that are served; features decide nowadays.
group.coordinator.threads int 4 1.. high
    Threads that run group coordinators.
group.initial.rebalance.delay.ms int 3000 - medium
    Time a new classic group waits for more members before it balances.
group.max.session.timeout.ms int 1800000 - medium
    Longest session timeout that a classic member may ask for.
group.max.size int 2147483647 1.. medium
    Members a classic group may have.
group.min.session.timeout.ms int 6000 - medium
    Shortest session timeout that a classic member may ask for.
group.share.assignment.interval.ms int 1000 0.. medium cluster-wide
    Least time between two assignments of a share group.
group.share.assignors list simple items+ medium
    Assignor that share groups use.
group.share.delivery.count.limit int 5 2..10 medium
    How often a record is delivered before it is given up.
group.share.heartbeat.interval.ms int 5000 1.. medium
    How often members of a share group are told to beat.
group.share.initialize.retry.interval.ms int 30000 1.. low internal
    Wait before setting up a share partition's state is tried again.
group.share.max.assignment.interval.ms int 15000 0.. medium
    Most that a share group may set its assignment interval to.
group.share.max.delivery.count.limit int 10 5..25 medium
    Most that a share group may set its delivery count to.
group.share.max.heartbeat.interval.ms int 15000 1.. medium
    Most that a share group may set its heartbeat interval to.
group.share.max.partition.max.record.locks int 4000 2000..10000 medium
    Most that a share group may set its record locks to.
group.share.max.record.lock.duration.ms int 60000 30000..3600000 medium
    Most that a share group may set its lock duration to.
group.share.max.session.timeout.ms int 60000 1.. medium
    Most that a share group may set its session timeout to.
group.share.max.share.sessions int 2000 1.. medium
    Share sessions a broker keeps at once.
group.share.max.size int 200 1..1000 medium
    Members a share group may have.
group.share.min.assignment.interval.ms int 0 0.. medium
    Least that a share group may set its assignment interval to.
group.share.min.delivery.count.limit int 2 2..5 medium
    Least that a share group may set its delivery count to.
group.share.min.heartbeat.interval.ms int 5000 1.. medium
    Least that a share group may set its heartbeat interval to.
group.share.min.partition.max.record.locks int 100 100..2000 medium
    Least that a share group may set its record locks to.
group.share.min.record.lock.duration.ms int 15000 1000..30000 medium
    Least that a share group may set its lock duration to.
group.share.min.session.timeout.ms int 45000 1.. medium
    Least that a share group may set its session timeout to.
group.share.partition.max.record.locks int 2000 100..10000 medium
    Records of one partition that a share group may have out at once.
group.share.persister.class.name string \
org.apache.kafka.server.share.persister.DefaultStatePersister - medium internal
    Class that keeps the state of share partitions.
group.share.record.lock.duration.ms int 30000 1000..3600000 medium
    Time a share consumer has a record to itself.
group.share.session.timeout.ms int 45000 1.. medium
    Silence after which a member of a share group is removed.
group.streams.assignment.interval.ms int 1000 0.. medium cluster-wide
    Least time between two assignments of a streams group.
group.streams.heartbeat.interval.ms int 5000 1.. medium
    How often members of a streams group are told to beat.
group.streams.initial.rebalance.delay.ms int 3000 0.. medium
    Time a new streams group waits for more members before it balances.
group.streams.max.assignment.interval.ms int 15000 0.. medium
    Most that a streams group may set its assignment interval to.
group.streams.max.heartbeat.interval.ms int 15000 1.. medium
    Most that a streams group may set its heartbeat interval to.
group.streams.max.session.timeout.ms int 60000 1.. medium
    Most that a streams group may set its session timeout to.
group.streams.max.size int 2147483647 1.. medium
    Members a streams group may have.
group.streams.max.standby.replicas int 2 0.. medium
    Most standby replicas that a streams group may ask for.
group.streams.min.assignment.interval.ms int 0 0.. medium
    Least that a streams group may set its assignment interval to.
group.streams.min.heartbeat.interval.ms int 5000 1.. medium
    Least that a streams group may set its heartbeat interval to.
group.streams.min.session.timeout.ms int 45000 1.. medium
    Least that a streams group may set its session timeout to.
group.streams.num.standby.replicas int 0 0.. medium
    Standby replicas of each task in a streams group.
group.streams.session.timeout.ms int 45000 1.. medium
    Silence after which a member of a streams group is removed.
offset.metadata.max.bytes int 4096 - high
    Longest note that may go with a committed offset.
offsets.commit.timeout.ms int 5000 1.. high
    Time that a commit may take to reach all replicas.
offsets.load.buffer.size int 5242880 1.. high
    Bytes read at once while committed offsets are loaded.
offsets.retention.check.interval.ms long 600000 1.. high
    How often the broker looks for expired offsets.
offsets.retention.minutes int 10080 1.. high
    Time that offsets of an empty group are kept.
offsets.topic.compression.codec int 0 - high
    Codec of the topic that offsets are kept in, by number.
offsets.topic.num.partitions int 50 1.. high
    Partitions of the topic that offsets are kept in.
offsets.topic.replication.factor short 3 1.. high
    Replicas of the topic that offsets are kept in.
offsets.topic.segment.bytes int 104857600 1.. high
    Segment size of the topic that offsets are kept in.
share.coordinator.append.linger.ms int -1 -1.. medium
    Time a share coordinator gathers records into one batch; -1 adapts to load.
share.coordinator.cached.buffer.max.bytes int 1048588 524288.. medium cluster-wide
    Largest write buffer that a share coordinator keeps for reuse.
share.coordinator.cold.partition.snapshot.interval.ms int 300000 1.. low internal
    How often quiet share partitions are written whole.
share.coordinator.load.buffer.size int 5242880 1.. high
    Bytes read at once while share state is loaded.
share.coordinator.snapshot.update.records.per.snapshot int 500 0..500 medium
    Updates of a share partition between two of its snapshots.
share.coordinator.state.topic.compression.codec int 0 - high
    Codec of the topic that share state is kept in, by number.
share.coordinator.state.topic.min.isr short 2 1.. high
    Replicas in sync that share state needs.
share.coordinator.state.topic.num.partitions int 50 1.. high
    Partitions of the topic that share state is kept in.
share.coordinator.state.topic.prune.interval.ms int 300000 1.. low internal
    How often superseded share state is deleted.
share.coordinator.state.topic.replication.factor short 3 1.. high
    Replicas of the topic that share state is kept in.
share.coordinator.state.topic.segment.bytes int 104857600 1.. high
    Segment size of the topic that share state is kept in.
share.coordinator.threads int 1 1.. medium
    Threads that run share coordinators.
share.coordinator.write.timeout.ms int 5000 1.. high
    Time that writing share state may take.
"""
