"""Keys of a group; one left unset follows its broker synonym."""

KEYS = """
consumer.assignment.interval.ms int 1000 0.. medium
consumer.heartbeat.interval.ms int 5000 1.. medium
consumer.session.timeout.ms int 45000 1.. medium
share.assignment.interval.ms int 1000 0.. medium
share.auto.offset.reset string latest share-reset medium
share.delivery.count.limit int 5 2.. medium
share.heartbeat.interval.ms int 5000 1.. medium
share.isolation.level string read_uncommitted one(read_committed|read_uncommitted) medium
share.partition.max.record.locks int 2000 100.. medium
share.record.lock.duration.ms int 30000 1000.. medium
share.renew.acknowledge.enable boolean true - medium
share.session.timeout.ms int 45000 1.. medium
streams.assignment.interval.ms int 1000 0.. medium
streams.heartbeat.interval.ms int 5000 1.. medium
streams.initial.rebalance.delay.ms int 3000 0.. medium
streams.num.standby.replicas int 0 0.. medium
streams.session.timeout.ms int 45000 1.. medium
"""
