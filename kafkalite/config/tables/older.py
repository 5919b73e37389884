"""Keys of brokers, topics and groups in releases of Kafka before 4.4, as they describe them.

Each release was asked. Keys are omitted that have been in all releases since 3.3.
"""

from __future__ import annotations

from types import MappingProxyType

ADDED = MappingProxyType({
    "3.4": """
metadata.log.max.snapshot.interval.ms producer.id.expiration.ms
""",
    "3.6": """
local.retention.bytes local.retention.ms log.local.retention.bytes log.local.retention.ms
log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
message.timestamp.after.max.ms message.timestamp.before.max.ms
remote.log.manager.task.interval.ms remote.log.manager.thread.pool.size
remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks
remote.log.reader.threads remote.log.storage.manager.class.name
remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
remote.log.storage.system.enable remote.storage.enable transaction.partition.verification.enable
""",
    "3.7": """
group.consumer.assignors group.consumer.heartbeat.interval.ms
group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
group.consumer.max.size group.consumer.min.heartbeat.interval.ms
group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms
group.coordinator.rebalance.protocols group.coordinator.threads
remote.log.index.file.cache.total.size.bytes ssl.allow.dn.changes ssl.allow.san.changes
telemetry.max.bytes
""",
    "3.8": """
compression.gzip.level compression.lz4.level compression.zstd.level
group.consumer.migration.policy group.coordinator.append.linger.ms log.dir.failure.timeout.ms
max.request.partition.size.limit remote.fetch.max.wait.ms
remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
remote.log.manager.copy.quota.window.size.seconds remote.log.manager.fetch.max.bytes.per.second
remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
""",
    "3.9": """
controller.quorum.bootstrap.servers group.share.delivery.count.limit
group.share.heartbeat.interval.ms group.share.max.heartbeat.interval.ms
group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.size
group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms
group.share.min.session.timeout.ms group.share.partition.max.record.locks
group.share.record.lock.duration.ms group.share.session.timeout.ms
remote.log.copy.disable remote.log.delete.on.disable
remote.log.manager.copier.thread.pool.size remote.log.manager.expiration.thread.pool.size
""",
    "4.0": """
add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
remote.list.offsets.request.timeout.ms share.coordinator.append.linger.ms
share.coordinator.load.buffer.size share.coordinator.snapshot.update.records.per.snapshot
share.coordinator.state.topic.compression.codec share.coordinator.state.topic.min.isr
share.coordinator.state.topic.num.partitions share.coordinator.state.topic.replication.factor
share.coordinator.state.topic.segment.bytes share.coordinator.threads
share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
""",
    "4.1": """
group.share.assignors group.share.max.share.sessions group.streams.heartbeat.interval.ms
group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
group.streams.max.size group.streams.max.standby.replicas
group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
group.streams.num.standby.replicas group.streams.session.timeout.ms
sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.jwt.retriever.class
sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope share.isolation.level
streams.heartbeat.interval.ms streams.num.standby.replicas streams.session.timeout.ms
transaction.two.phase.commit.enable
""",
    "4.2": """
config.providers controller.quorum.auto.join.enable group.streams.initial.rebalance.delay.ms
remote.log.manager.follower.thread.pool.size streams.initial.rebalance.delay.ms
""",
    "4.3": """
consumer.assignment.interval.ms controller.quorum.fetch.max.bytes
controller.quorum.fetch.snapshot.max.bytes cordoned.log.dirs
follower.fetch.last.tiered.offset.enable group.consumer.assignment.interval.ms
group.consumer.max.assignment.interval.ms group.consumer.min.assignment.interval.ms
group.coordinator.background.threads group.coordinator.cached.buffer.max.bytes
group.share.assignment.interval.ms group.share.max.assignment.interval.ms
group.share.max.delivery.count.limit group.share.max.partition.max.record.locks
group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
group.share.min.partition.max.record.locks group.streams.assignment.interval.ms
group.streams.max.assignment.interval.ms group.streams.min.assignment.interval.ms
share.assignment.interval.ms share.coordinator.cached.buffer.max.bytes
share.delivery.count.limit share.partition.max.record.locks share.renew.acknowledge.enable
streams.assignment.interval.ms
""",
})  # fmt: skip
"""Release → the keys that it added; `rules` has those of 4.4."""

HIDDEN = MappingProxyType({"3.9": "group.consumer.migration.policy"})
"""Release → the keys that only this release does not describe."""

CHANGED = MappingProxyType({
    "3.3": """
metadata.max.retention.bytes long -1 - high
""",
    "3.7": """
listener.security.protocol.map string \
PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL - low per-broker
""",
    "3.9": """
group.share.max.size short 200 10..1000 medium
node.id int -1 - high
process.roles list "" - high
remote.log.manager.copier.thread.pool.size int -1 -1.. medium
remote.log.manager.expiration.thread.pool.size int -1 -1.. medium
remote.log.reader.threads int 10 1.. medium
""",
    "4.1": """
controller.listener.names string null - high
early.start.listeners string null - medium
log.dir string /tmp/kafka-logs - high
sasl.oauthbearer.expected.audience list null - low
""",
})  # fmt: skip
"""Release → rows of the keys that were described so up to this release."""

REMOVED = MappingProxyType({
    "3.3 3.9": """
broker.id.generation.enable boolean true - medium
    Whether a broker without an id gets one from ZooKeeper.
control.plane.listener.name string null - high
    Listener for connections of the controller to brokers.
controlled.shutdown.max.retries int 3 - medium
    How often a failed controlled shutdown is repeated.
controlled.shutdown.retry.backoff.ms long 5000 - medium
    Time before a failed controlled shutdown is repeated.
delegation.token.master.key password null - medium
    Earlier name of delegation.token.secret.key.
inter.broker.protocol.version string {protocol} metadata-version medium
    Version of the protocol between brokers.
leader.imbalance.per.broker.percentage int 10 - high
    Percentage of partitions without their preferred leader above which leaders are elected.
log.message.downconversion.enable boolean true - low cluster-wide
    Whether batches are converted for consumers that only know older formats.
log.message.format.version string 3.0-IV1 metadata-version medium
    Release that defines the record format of logs.
log.message.timestamp.difference.max.ms long 9223372036854775807 0.. medium cluster-wide
    Maximum difference between a record's timestamp and the broker's time.
offsets.commit.required.acks short -1 - high
    Acknowledgements that a commit needs.
password.encoder.cipher.algorithm string AES/CBC/PKCS5Padding - low
    Cipher for passwords that are stored in ZooKeeper.
password.encoder.iterations int 4096 1024.. low
    Iterations of the derivation of the key for stored passwords.
password.encoder.key.length int 128 8.. low
    Length of the key for stored passwords, in bits.
password.encoder.keyfactory.algorithm string null - low
    Algorithm that derives the key for stored passwords.
password.encoder.old.secret password null - medium
    The secret with which stored passwords were encoded before.
password.encoder.secret password null - medium
    The secret with which passwords are encoded in ZooKeeper.
reserved.broker.max.id int 1000 0.. medium
    The largest id of a broker that is configured, not generated.
zookeeper.clientCnxnSocket string null - medium
    Socket class of the client of ZooKeeper.
zookeeper.connect string null - high
    Addresses of ZooKeeper, as host:port, and an optional path.
zookeeper.connection.timeout.ms int null - high
    How long a client waits for a connection to ZooKeeper.
zookeeper.max.in.flight.requests int 10 1.. high
    Requests to ZooKeeper that may wait for an answer.
zookeeper.session.timeout.ms int 18000 - high
    Timeout of a session in ZooKeeper.
zookeeper.set.acl boolean false - high
    Whether the client of ZooKeeper sets ACLs.
zookeeper.ssl.cipher.suites list null - low
    Cipher suites for TLS connections to ZooKeeper.
zookeeper.ssl.client.enable boolean false - medium
    Whether connections to ZooKeeper use TLS.
zookeeper.ssl.crl.enable boolean false - low
    Whether certificate revocation lists are used for ZooKeeper.
zookeeper.ssl.enabled.protocols list null - low
    Versions of TLS for connections to ZooKeeper.
zookeeper.ssl.endpoint.identification.algorithm string HTTPS - low
    Whether the host name of ZooKeeper is verified.
zookeeper.ssl.keystore.location string null - medium
    Key store for connections to ZooKeeper.
zookeeper.ssl.keystore.password password null - medium
    Password of the key store for ZooKeeper.
zookeeper.ssl.keystore.type string null - medium
    Type of the key store for ZooKeeper.
zookeeper.ssl.ocsp.enable boolean false - low
    Whether the state of certificates is checked online for ZooKeeper.
zookeeper.ssl.protocol string TLSv1.2 - low
    Protocol of TLS connections to ZooKeeper.
zookeeper.ssl.truststore.location string null - medium
    Trust store for connections to ZooKeeper.
zookeeper.ssl.truststore.password password null - medium
    Password of the trust store for ZooKeeper.
zookeeper.ssl.truststore.type string null - medium
    Type of the trust store for ZooKeeper.
""",
    "3.4 3.9": """
auto.include.jmx.reporter boolean true - low
    Whether JmxReporter is used even if metric.reporters does not list it.
zookeeper.metadata.migration.enable boolean false - high
    Whether a cluster moves from ZooKeeper to KRaft.
""",
    "3.7 3.9": """
eligible.leader.replicas.enable boolean false - high
    Whether there are eligible leader replicas (KIP-966).
""",
    "3.9 4.0": """
group.share.max.groups short 10 1..100 medium
    Maximum number of share groups.
""",
})  # fmt: skip
"""First and last release → rows of the keys that only these releases have. They have no effect.

`{protocol}` stands for the metadata.version of the release.
"""

PROTOCOLS = MappingProxyType({
    "3.3": "3.3-IV3", "3.4": "3.4-IV0", "3.5": "3.5-IV2", "3.6": "3.6-IV2", "3.7": "3.7-IV4",
    "3.8": "3.8-IV0", "3.9": "3.9-IV0",
})  # fmt: skip
"""Release → its metadata.version."""
