"""Keys of the broker about the cluster: its nodes, topics, replication, transactions."""

KEYS = """
add.partitions.to.txn.retry.backoff.max.ms int 100 0.. high
    Longest delay before the broker tries again to add partitions to a transaction.
add.partitions.to.txn.retry.backoff.ms int 20 1.. high
    Delay before the broker tries again to add partitions to a transaction.
alter.config.policy.class.name class null - low
    Class that decides whether a configuration may be changed.
alter.log.dirs.replication.quota.window.num int 11 1.. low
    Samples to measure how fast replicas move between directories.
alter.log.dirs.replication.quota.window.size.seconds int 1 1.. low
    Length of one sample of how fast replicas move between directories, in seconds.
auto.create.topics.enable boolean true - high
    Whether missing topics are created when a client requests them.
auto.leader.rebalance.enable boolean true - high
    Whether leadership returns to preferred replicas automatically.
broker.heartbeat.interval.ms int 2000 - medium
    Time between two heartbeats of a broker to the controller.
broker.id int -1 - high
    Older name of node.id.
broker.rack string null - medium
    Rack of this broker; replicas of a partition are spread over racks.
broker.session.timeout.ms int 9000 - medium
    Time without heartbeats after which the controller fences a broker.
controlled.shutdown.enable boolean true - medium
    Whether a broker transfers its leaderships before it stops.
controller.listener.names list required items+ high
    Names of the listeners that belong to the controller.
controller.performance.always.log.threshold.ms long 2000 0.. medium internal
    Controller events slower than this are logged.
controller.performance.sample.period.ms long 60000 100.. medium internal
    Time between two reports on slow controller events.
controller.quorum.append.linger.ms int 25 0.. medium
    Time that the quorum leader collects writes before it flushes them.
controller.quorum.auto.join.enable boolean false - low
    Whether a controller joins the quorum automatically.
controller.quorum.bootstrap.servers list "" host-and-port high
    Addresses of the controllers.
controller.quorum.election.backoff.max.ms int 1000 0.. high
    Longest delay before another election.
controller.quorum.election.timeout.ms int 1000 0.. high
    Time without a majority after which a candidate retries.
controller.quorum.fetch.max.bytes int 1048576 1.. low
    Maximum bytes of one fetch of the quorum's log.
controller.quorum.fetch.snapshot.max.bytes int 1048576 1.. low
    Maximum bytes of one fetch of a quorum snapshot.
controller.quorum.fetch.timeout.ms int 2000 0.. high
    Time without a fetch from the leader before a voter calls an election.
controller.quorum.request.timeout.ms int 2000 0.. medium
    Timeout of a quorum request.
controller.quorum.retry.backoff.ms int 20 0.. low
    Delay before a failed quorum request is retried.
controller.quorum.voters list "" voters high
    Fixed voters of the quorum, each as id@host:port.
controller.quota.window.num int 11 1.. low
    Samples to measure the rate of topic creation and deletion.
controller.quota.window.size.seconds int 1 1.. low
    Length of one sample of the rate of topic creation and deletion, in seconds.
controller.socket.timeout.ms int 30000 - medium
    Socket timeout of requests to the controller.
create.topic.policy.class.name class null - low
    Class that decides whether a topic may be created.
default.replication.factor int 1 - medium
    Default number of replicas of a topic.
delete.records.purgatory.purge.interval.requests int 1 - medium
    Number of waiting deletions of records after which finished ones are purged.
delete.topic.enable boolean true - high
    Whether topics can be deleted.
initial.broker.registration.timeout.ms int 60000 - medium
    Time that a starting broker tries to register before it stops.
leader.imbalance.check.interval.seconds long 300 1.. high
    How often the controller checks whether leadership must return to preferred replicas.
node.id int required 0.. high
    Id of this node in its cluster.
num.partitions int 1 1.. medium
    Default number of partitions of a topic.
num.replica.alter.log.dirs.threads int null - high
    Threads that move replicas between directories.
num.replica.fetchers int 1 1.. high cluster-wide
    Threads that copy records from each leader.
process.roles list required items+(broker|controller) high
    Roles of this process: broker, controller, or both.
producer.id.expiration.check.interval.ms int 600000 1.. low internal
    How often the broker checks for inactive producers.
producer.id.expiration.ms int 86400000 1.. low cluster-wide
    Inactivity after which a producer's sequence numbers are removed.
producer.purgatory.purge.interval.requests int 1000 - medium
    Number of waiting produce requests after which finished ones are purged.
replica.fetch.backoff.ms int 1000 0.. medium
    Delay of a follower after a failed fetch.
replica.fetch.max.bytes int 1048576 0.. medium
    Bytes that a follower requests per partition.
replica.fetch.min.bytes int 1 - high
    Minimum bytes of the response to a follower's fetch.
replica.fetch.response.max.bytes int 10485760 0.. medium
    Bytes that a follower requests in total.
replica.fetch.wait.max.ms int 500 - high
    Maximum time that a follower's fetch waits for data.
replica.high.watermark.checkpoint.interval.ms long 5000 - high
    How often high watermarks are written to disk.
replica.lag.time.max.ms long 30000 - high
    Lag after which a follower is no longer in sync.
replica.selector.class string null - medium
    Class that selects the replica that a consumer reads from; with RackAwareReplicaSelector, one
    in the rack of the consumer.
replica.socket.receive.buffer.bytes int 65536 - high
    Receive buffer of the sockets of followers.
replica.socket.timeout.ms int 30000 - high
    Socket timeout of a follower's fetch.
replication.quota.window.num int 11 1.. low
    Samples to measure throttled replication.
replication.quota.window.size.seconds int 1 1.. low
    Length of one sample of throttled replication, in seconds.
server.max.startup.time.ms long 9223372036854775807 0.. medium internal
    Time after which a start is aborted.
share.fetch.purgatory.purge.interval.requests int 1000 - medium
    Number of waiting share fetches after which finished ones are purged.
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 1.. low
    How often transactions that timed out are aborted.
transaction.max.timeout.ms int 900000 1.. high
    Longest timeout that a transactional producer may request.
transaction.partition.verification.enable boolean true - low cluster-wide
    Whether a transactional write is checked to belong to an ongoing transaction.
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 1.. low
    How often expired transactional ids are removed.
transaction.state.log.load.buffer.size int 5242880 1.. high
    Bytes per read while transactions are loaded.
transaction.state.log.min.isr int 2 1.. high
    Minimum number of in-sync replicas for transaction state.
transaction.state.log.num.partitions int 50 1.. high
    Partitions of the topic of transaction state.
transaction.state.log.replication.factor short 3 1.. high
    Replicas of the topic of transaction state.
transaction.state.log.segment.bytes int 104857600 1.. high
    Segment size of the topic of transaction state.
transaction.two.phase.commit.enable boolean false - low
    Whether producers may take part in two-phase commits.
transactional.id.expiration.ms int 604800000 1.. high
    Inactivity after which a transactional id is removed.
unclean.leader.election.enable boolean false - high cluster-wide
    Whether a replica that is not in sync may become leader if no other is available.
unclean.leader.election.interval.ms long 300000 1.. medium internal
    How often the controller looks for partitions that need an unclean leader election.
unstable.api.versions.enable boolean false - high internal
    Whether request versions under development are served.
unstable.feature.versions.enable boolean false - high internal
    Whether feature levels under development can be used.
"""
