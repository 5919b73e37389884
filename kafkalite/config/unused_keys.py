"""Settings of Kafka that are accepted and validated but have no effect, with reasons.

A test checks the list: every key of a broker, a topic or a group is either read by the code or
listed here. The documentation page about defaults shows this table.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkalite.config.broker import strip_listener_prefix
from kafkalite.config.keys import broker_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NO_EFFECT: Final[Mapping[str, str]] = {
    "Replicas share one log: they do not fetch": """
follower.fetch.last.tiered.offset.enable num.replica.fetchers replica.fetch.min.bytes
replica.fetch.response.max.bytes replica.fetch.wait.max.ms
replica.high.watermark.checkpoint.interval.ms replica.socket.*
""",
    "Nodes shut down in a controlled way only on request": """
controlled.shutdown.enable
""",
    "The nodes of a cluster are one process, without quorum or network between them": """
broker.heartbeat.interval.ms controller.performance.*
controller.quorum.append.linger.ms controller.quorum.auto.join.enable
controller.quorum.bootstrap.servers controller.quorum.election.* controller.quorum.fetch.*
controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
controller.socket.timeout.ms early.start.listeners
initial.broker.registration.timeout.ms process.roles server.max.startup.time.ms
socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
""",
    "The metadata log is one log in the data directory, without snapshots": """
internal.metadata.* metadata.*
""",
    "One thread does all the work": """
background.threads group.coordinator.append.linger.ms group.coordinator.background.threads
group.coordinator.cached.buffer.max.bytes group.coordinator.threads log.cleaner.threads
num.io.threads num.network.threads num.recovery.threads.per.data.dir
num.replica.alter.log.dirs.threads queued.max.requests share.coordinator.append.linger.ms
share.coordinator.cached.buffer.max.bytes share.coordinator.threads
""",
    "kafkalite does not have the buffers, timers and queues that these keys configure": """
delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
log.cleaner.io.max.bytes.per.second offsets.commit.timeout.ms offsets.load.buffer.size
producer.purgatory.purge.interval.requests share.coordinator.load.buffer.size
share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes
transaction.state.log.load.buffer.size
""",
    "Files are not preallocated, are deleted at once, and are in one directory": """
log.dir.failure.timeout.ms log.flush.start.offset.checkpoint.interval.ms
log.initial.task.delay.ms log.preallocate log.segment.delete.delay.ms
""",
    "Batches are compressed at the default level of their codec; coordinators do not compress": """
compression.gzip.level compression.lz4.level compression.zstd.level
offsets.topic.compression.codec share.coordinator.state.topic.compression.codec
""",
    "There is no tiered storage": """
log.local.retention.bytes log.local.retention.ms log.remote.copy.lag.* remote.*
""",
    "There are no other builders of principals": """
principal.builder.class
""",
    "Nodes do not authenticate, and Kerberos is not supported": """
sasl.client.callback.handler.class sasl.kerberos.* sasl.login.* sasl.mechanism.*
sasl.oauthbearer.assertion.* sasl.oauthbearer.client.credentials.*
sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
""",
    "TLS is that of OpenSSL, without Java's providers; the broker connects to no server": """
security.providers ssl.endpoint.identification.algorithm ssl.engine.factory.class
ssl.keymanager.algorithm ssl.protocol ssl.provider ssl.secure.random.implementation
ssl.trustmanager.algorithm
""",
    "Metrics of the broker are not reported": """
kafka.metrics.* metric.reporters metrics.*
""",
    "JVM plug-ins are not supported, so only Kafka's own classes are accepted": """
alter.config.policy.class.name client.quota.callback.class config.providers
create.topic.policy.class.name group.share.assignors
""",
}
"""Reason → keys; `*` matches the rest of a name."""


def keys_without_effect(names: Iterable[str]) -> list[str]:
    """Return the `names` of settings without effect, sorted."""
    known = broker_keys()
    return sorted(
        name
        for name in names
        if (key := strip_listener_prefix(name)) in known and reason_without_effect(key) is not None
    )


def reason_without_effect(key: str) -> str | None:
    """Return the reason why a key has no effect; None if it has an effect.

    The key can be one of a broker, a topic or a group.
    """
    for reason, patterns in NO_EFFECT.items():
        if any(fnmatchcase(key, pattern) for pattern in patterns.split()):
            return reason
    return None
