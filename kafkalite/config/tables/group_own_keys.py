"""Keys of a group; one left unset follows its broker synonym."""

KEYS = """
consumer.assignment.interval.ms int 1000 0.. medium
    Least time between two assignments of this consumer group.
consumer.heartbeat.interval.ms int 5000 1.. medium
    How often members of this consumer group are told to beat.
consumer.session.timeout.ms int 45000 1.. medium
    Silence after which a member of this consumer group is removed.
share.assignment.interval.ms int 1000 0.. medium
    Least time between two assignments of this share group.
share.auto.offset.reset string latest share-reset medium
    Where this share group starts: earliest, latest, or a duration back.
share.delivery.count.limit int 5 2.. medium
    How often a record is delivered to this share group before it is given up.
share.heartbeat.interval.ms int 5000 1.. medium
    How often members of this share group are told to beat.
share.isolation.level string read_uncommitted one(read_committed|read_uncommitted) medium
    Whether this share group sees records of aborted and open transactions.
share.partition.max.record.locks int 2000 100.. medium
    Records of one partition that this share group may have out at once.
share.record.lock.duration.ms int 30000 1000.. medium
    Time a consumer of this share group has a record to itself.
share.renew.acknowledge.enable boolean true - medium
    Whether consumers of this share group may prolong their hold on a record.
share.session.timeout.ms int 45000 1.. medium
    Silence after which a member of this share group is removed.
streams.assignment.interval.ms int 1000 0.. medium
    Least time between two assignments of this streams group.
streams.heartbeat.interval.ms int 5000 1.. medium
    How often members of this streams group are told to beat.
streams.initial.rebalance.delay.ms int 3000 0.. medium
    Time this streams group waits, when new, for more members before it balances.
streams.num.standby.replicas int 0 0.. medium
    Standby replicas of each task in this streams group.
streams.session.timeout.ms int 45000 1.. medium
    Silence after which a member of this streams group is removed.
"""
