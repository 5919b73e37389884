"""Keys of the broker about the cluster: its nodes, topics, replication, transactions."""

KEYS = """
add.partitions.to.txn.retry.backoff.max.ms int 100 0.. high
    Longest wait before adding partitions to a transaction is tried again on the server.
add.partitions.to.txn.retry.backoff.ms int 20 1.. high
    Wait before adding partitions to a transaction is tried again on the server.
alter.config.policy.class.name class null - low
    Class that is asked whether a change of configuration may be made.
alter.log.dirs.replication.quota.window.num int 11 1.. low
    Samples kept to measure how fast replicas move between directories.
alter.log.dirs.replication.quota.window.size.seconds int 1 1.. low
    Length of one such sample, in seconds.
auto.create.topics.enable boolean true - high
    Whether mentioning a topic that is not there makes it.
auto.leader.rebalance.enable boolean true - high
    Whether leadership goes back to preferred replicas by itself.
broker.heartbeat.interval.ms int 2000 - medium
    Time between two heartbeats of a broker to the controller.
broker.id int -1 - high
    Older name of node.id.
broker.rack string null - medium
    Rack this broker stands in; replicas of a partition are spread over racks.
broker.session.timeout.ms int 9000 - medium
    Time without heartbeats after which the controller takes a broker for dead.
controlled.shutdown.enable boolean true - medium
    Whether a broker hands its leaderships over before it stops.
controller.listener.names list required items+ high
    Names of the listeners that belong to the controller.
controller.performance.always.log.threshold.ms long 2000 0.. medium internal
    Controller events slower than this are logged.
controller.performance.sample.period.ms long 60000 100.. medium internal
    Time between two reports on slow controller events.
controller.quorum.append.linger.ms int 25 0.. medium
    Time the quorum leader gathers writes before they go to disk.
controller.quorum.auto.join.enable boolean false - low
    Whether a controller joins the quorum by itself.
controller.quorum.bootstrap.servers list "" host-and-port high
    Where the controllers can be found.
controller.quorum.election.backoff.max.ms int 1000 0.. high
    Longest wait before another election is started.
controller.quorum.election.timeout.ms int 1000 0.. high
    Time without a majority before a candidate tries again.
controller.quorum.fetch.max.bytes int 1048576 1.. low
    Most bytes one fetch of the quorum's log may ask for.
controller.quorum.fetch.snapshot.max.bytes int 1048576 1.. low
    Most bytes one fetch of a quorum snapshot may ask for.
controller.quorum.fetch.timeout.ms int 2000 0.. high
    Time without a fetch from the leader before a voter calls an election.
controller.quorum.request.timeout.ms int 2000 0.. medium
    Time a quorum request may take.
controller.quorum.retry.backoff.ms int 20 0.. low
    Wait before a failed quorum request is sent again.
controller.quorum.voters list "" voters high
    Fixed voters of the quorum, each as id@host:port.
controller.quota.window.num int 11 1.. low
    Samples kept to measure how fast topics are made and removed.
controller.quota.window.size.seconds int 1 1.. low
    Length of one such sample, in seconds.
controller.socket.timeout.ms int 30000 - medium
    Time a request to the controller may take on its socket.
create.topic.policy.class.name class null - low
    Class that is asked whether a topic may be made.
default.replication.factor int 1 - medium
    Replicas of a topic that does not say how many it wants.
delete.records.purgatory.purge.interval.requests int 1 - medium
    Waiting deletions after which finished ones are cleared away.
delete.topic.enable boolean true - high
    Whether topics can be removed.
initial.broker.registration.timeout.ms int 60000 - medium
    Time a starting broker tries to register before it gives up.
leader.imbalance.check.interval.seconds long 300 1.. high
    How often the controller looks for leaderships to hand back.
node.id int required 0.. high
    Number of this node in its cluster.
num.partitions int 1 1.. medium
    Partitions of a topic that does not say how many it wants.
num.replica.alter.log.dirs.threads int null - high
    Threads that move replicas between directories.
num.replica.fetchers int 1 1.. high cluster-wide
    Threads that copy records from each leader.
process.roles list required items+(broker|controller) high
    What this process is: a broker, a controller, or both.
producer.id.expiration.check.interval.ms int 600000 1.. low internal
    How often the broker looks for producers that fell silent.
producer.id.expiration.ms int 86400000 1.. low cluster-wide
    Silence after which a producer's sequence numbers are forgotten.
producer.purgatory.purge.interval.requests int 1000 - medium
    Waiting produce requests after which finished ones are cleared away.
replica.fetch.backoff.ms int 1000 0.. medium
    Pause of a follower whose fetch failed.
replica.fetch.max.bytes int 1048576 0.. medium
    Bytes that a follower asks for per partition.
replica.fetch.min.bytes int 1 - high
    Bytes that make a follower's fetch worth answering.
replica.fetch.response.max.bytes int 10485760 0.. medium
    Bytes that a follower asks for in all.
replica.fetch.wait.max.ms int 500 - high
    Time that a follower's fetch may wait for data.
replica.high.watermark.checkpoint.interval.ms long 5000 - high
    How often high watermarks are noted down.
replica.lag.time.max.ms long 30000 - high
    Time behind its leader after which a follower is out of sync.
replica.selector.class string null - medium
    Class that chooses which replica a consumer reads from.
replica.socket.receive.buffer.bytes int 65536 - high
    Receive buffer of the sockets that followers fetch by.
replica.socket.timeout.ms int 30000 - high
    Time a follower's fetch may take on its socket.
replication.quota.window.num int 11 1.. low
    Samples kept to measure throttled replication.
replication.quota.window.size.seconds int 1 1.. low
    Length of one such sample, in seconds.
server.max.startup.time.ms long 9223372036854775807 0.. medium internal
    Time that a start may take before it is given up.
share.fetch.purgatory.purge.interval.requests int 1000 - medium
    Waiting share fetches after which finished ones are cleared away.
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 1.. low
    How often transactions that timed out are aborted.
transaction.max.timeout.ms int 900000 1.. high
    Longest timeout that a transactional producer may ask for.
transaction.partition.verification.enable boolean true - low cluster-wide
    Whether a write is checked to belong to a transaction that is going on.
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 1.. low
    How often expired transactional ids are removed.
transaction.state.log.load.buffer.size int 5242880 1.. high
    Bytes read at once while transactions are loaded.
transaction.state.log.min.isr int 2 1.. high
    Replicas in sync that transaction state needs.
transaction.state.log.num.partitions int 50 1.. high
    Partitions of the topic that transactions are kept in.
transaction.state.log.replication.factor short 3 1.. high
    Replicas of the topic that transactions are kept in.
transaction.state.log.segment.bytes int 104857600 1.. high
    Segment size of the topic that transactions are kept in.
transaction.two.phase.commit.enable boolean false - low
    Whether producers may take part in two-phase commits.
transactional.id.expiration.ms int 604800000 1.. high
    Silence after which a transactional id is forgotten.
unclean.leader.election.enable boolean false - high cluster-wide
    Whether a replica out of sync may lead when no other is left.
unclean.leader.election.interval.ms long 300000 1.. medium internal
    How often leaderless partitions are looked at for such an election.
unstable.api.versions.enable boolean false - high internal
    Whether versions of requests that are still in the making are served.
unstable.feature.versions.enable boolean false - high internal
    Whether feature levels that are still in the making can be chosen.
"""
