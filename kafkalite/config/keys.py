"""The keys of brokers, topics and groups, and the synonyms from which unset keys get their values.

The tables are parsed on first use, not on import.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kafkalite.config.definitions import KeyTable, UpdateMode
from kafkalite.config.tables import cluster, group, kafkalite, log, network, remote, security, topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.definitions import ConfigKey

MS_PER_MINUTE = 60_000
MS_PER_HOUR = 3_600_000


@cache
def broker_keys() -> Mapping[str, ConfigKey]:
    """Return every broker key by name."""
    return KeyTable(
        cluster.KEYS,
        group.BROKER_KEYS,
        kafkalite.KEYS,
        log.KEYS,
        network.KEYS,
        remote.KEYS,
        security.KEYS,
    )


@cache
def own_broker_keys() -> frozenset[str]:
    """Return the names of the broker keys that Kafka does not have."""
    return frozenset(KeyTable(kafkalite.KEYS))


@cache
def authorizer_keys() -> Mapping[str, ConfigKey]:
    """Return every key of the authorizer by name."""
    return KeyTable(security.AUTHORIZER_KEYS)


@cache
def topic_keys() -> Mapping[str, ConfigKey]:
    """Return every topic key by name."""
    return KeyTable(topic.KEYS)


@cache
def old_topic_keys() -> Mapping[str, ConfigKey]:
    """Return every topic key of releases before Kafka 4.0 by name."""
    return KeyTable(topic.KEYS, topic.OLD_KEYS)


@cache
def topic_keys_without(
    absent: frozenset[str], *, has_old_keys: bool = False
) -> Mapping[str, ConfigKey]:
    """Return every topic key of a release by name, without the `absent` keys of later releases.

    With `has_old_keys`, the keys that Kafka 4.0 removed are included.
    """
    keys = old_topic_keys() if has_old_keys else topic_keys()
    return {name: key for name, key in keys.items() if name not in absent} if absent else keys


@cache
def group_config_keys() -> Mapping[str, ConfigKey]:
    """Return every group key by name."""
    return KeyTable(group.KEYS)


# A setting can have several keys with different units. The first key that is set counts. The factor
# converts its value to milliseconds.
RETENTION_SYNONYMS = (
    ("log.retention.ms", 1),
    ("log.retention.minutes", MS_PER_MINUTE),
    ("log.retention.hours", MS_PER_HOUR),
)
ROLL_SYNONYMS = (("log.roll.ms", 1), ("log.roll.hours", MS_PER_HOUR))
ROLL_JITTER_SYNONYMS = (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", MS_PER_HOUR))
FLUSH_SYNONYMS = (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1))

TOPIC_SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": FLUSH_SYNONYMS,
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.decompressed.message.bytes": (("max.decompressed.message.bytes", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "remote.copy.lag.bytes": (("log.remote.copy.lag.bytes", 1),),
    "remote.copy.lag.ms": (("log.remote.copy.lag.ms", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": RETENTION_SYNONYMS,
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": ROLL_JITTER_SYNONYMS,
    "segment.ms": ROLL_SYNONYMS,
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}
"""Topic key → the broker keys that determine it, in order of precedence, with their factors."""

_BROKER_SYNONYMS = {
    name: tuple(key for key, _ in synonyms)
    for synonyms in (RETENTION_SYNONYMS, ROLL_SYNONYMS, ROLL_JITTER_SYNONYMS)
    for name, _ in synonyms
} | {"log.flush.interval.ms": tuple(key for key, _ in FLUSH_SYNONYMS)}


@cache
def topic_default_keys() -> frozenset[str]:
    """Return the broker keys that are defaults of topics."""
    return frozenset(key for synonyms in TOPIC_SYNONYMS.values() for key, _ in synonyms)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Return the broker keys that can determine `name`, in order of precedence."""
    return _BROKER_SYNONYMS.get(name, (name,))


_OTHER_GROUP_SYNONYMS = {"streams.assignor.name": "group.streams.assignors"}


def group_synonym(name: str) -> str | None:
    """Return the broker key that determines a group's key, or None."""
    candidate = _OTHER_GROUP_SYNONYMS.get(name, f"group.{name}")
    return candidate if candidate in broker_keys() else None


# Rates that exist only as dynamic settings, not in properties files.
_DYNAMIC_ONLY = """
follower.replication.throttled.rate long 9223372036854775807 0.. medium per-broker
    Bytes per second that followers on a node may receive for throttled replicas.
leader.replication.throttled.rate long 9223372036854775807 0.. medium per-broker
    Bytes per second that leaders on a node may send for throttled replicas.
replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 0.. medium per-broker
    Bytes per second for moving replicas between directories of a node.
"""


@cache
def dynamic_broker_keys() -> Mapping[str, ConfigKey]:
    """Return every key with dynamic updates, by name."""
    keys = broker_keys()
    dynamic = {name: key for name, key in keys.items() if key.mode is not UpdateMode.READ_ONLY}
    return {**dynamic, **KeyTable(_DYNAMIC_ONLY)}
