"""Keys of the broker about the cluster: its nodes, topics, replication, transactions."""

KEYS = """
add.partitions.to.txn.retry.backoff.max.ms int 100 0.. high
add.partitions.to.txn.retry.backoff.ms int 20 1.. high
alter.config.policy.class.name class null - low
alter.log.dirs.replication.quota.window.num int 11 1.. low
alter.log.dirs.replication.quota.window.size.seconds int 1 1.. low
auto.create.topics.enable boolean true - high
auto.leader.rebalance.enable boolean true - high
broker.heartbeat.interval.ms int 2000 - medium
broker.id int -1 - high
broker.rack string null - medium
broker.session.timeout.ms int 9000 - medium
controlled.shutdown.enable boolean true - medium
controller.listener.names list required items high
controller.performance.always.log.threshold.ms long 2000 0.. medium internal
controller.performance.sample.period.ms long 60000 100.. medium internal
controller.quorum.append.linger.ms int 25 0.. medium
controller.quorum.auto.join.enable boolean false - low
controller.quorum.bootstrap.servers list "" host-and-port high
controller.quorum.election.backoff.max.ms int 1000 0.. high
controller.quorum.election.timeout.ms int 1000 0.. high
controller.quorum.fetch.max.bytes int 1048576 1.. low
controller.quorum.fetch.snapshot.max.bytes int 1048576 1.. low
controller.quorum.fetch.timeout.ms int 2000 0.. high
controller.quorum.request.timeout.ms int 2000 0.. medium
controller.quorum.retry.backoff.ms int 20 0.. low
controller.quorum.voters list "" voters high
controller.quota.window.num int 11 1.. low
controller.quota.window.size.seconds int 1 1.. low
controller.socket.timeout.ms int 30000 - medium
create.topic.policy.class.name class null - low
default.replication.factor int 1 - medium
delete.records.purgatory.purge.interval.requests int 1 - medium
delete.topic.enable boolean true - high
initial.broker.registration.timeout.ms int 60000 - medium
leader.imbalance.check.interval.seconds long 300 1.. high
node.id int required 0.. high
num.partitions int 1 1.. medium
num.replica.alter.log.dirs.threads int null - high
num.replica.fetchers int 1 1.. high cluster-wide
process.roles list required items+(broker|controller) high
producer.id.expiration.check.interval.ms int 600000 1.. low internal
producer.id.expiration.ms int 86400000 1.. low cluster-wide
producer.purgatory.purge.interval.requests int 1000 - medium
replica.fetch.backoff.ms int 1000 0.. medium
replica.fetch.max.bytes int 1048576 0.. medium
replica.fetch.min.bytes int 1 - high
replica.fetch.response.max.bytes int 10485760 0.. medium
replica.fetch.wait.max.ms int 500 - high
replica.high.watermark.checkpoint.interval.ms long 5000 - high
replica.lag.time.max.ms long 30000 - high
replica.selector.class string null - medium
replica.socket.receive.buffer.bytes int 65536 - high
replica.socket.timeout.ms int 30000 - high
replication.quota.window.num int 11 1.. low
replication.quota.window.size.seconds int 1 1.. low
server.max.startup.time.ms long 9223372036854775807 0.. medium internal
share.fetch.purgatory.purge.interval.requests int 1000 - medium
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 1.. low
transaction.max.timeout.ms int 900000 1.. high
transaction.partition.verification.enable boolean true - low cluster-wide
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 1.. low
transaction.state.log.load.buffer.size int 5242880 1.. high
transaction.state.log.min.isr int 2 1.. high
transaction.state.log.num.partitions int 50 1.. high
transaction.state.log.replication.factor short 3 1.. high
transaction.state.log.segment.bytes int 104857600 1.. high
transaction.two.phase.commit.enable boolean false - low
transactional.id.expiration.ms int 604800000 1.. high
unclean.leader.election.enable boolean false - high cluster-wide
unclean.leader.election.interval.ms long 300000 1.. medium internal
unstable.api.versions.enable boolean false - high internal
unstable.feature.versions.enable boolean false - high internal
"""
