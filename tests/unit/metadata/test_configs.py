"""Settings change key by key or completely; refusals have Kafka's texts."""

from __future__ import annotations

import pytest

from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.features import METADATA_VERSION, FeatureUpdate
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.metadata import MetadataCluster

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
NODE = ConfigResource(ResourceType.BROKER, "1")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")
GROUP = ConfigResource(ResourceType.GROUP, "g")
SET, DELETE, APPEND, SUBTRACT = AlterOperation


def cluster_with_topic() -> MetadataCluster:
    cluster = MetadataCluster()
    cluster.controller.create_topics([NewTopic(name="t")])
    return cluster


def alter(
    cluster: MetadataCluster,
    resource: ConfigResource,
    *changes: tuple[AlterOperation, str, str | None],
) -> tuple[ErrorCode, str | None] | None:
    """Alter one resource; return the error or None."""
    config_changes = [ConfigChange(name, operation, value) for operation, name, value in changes]
    error = cluster.controller.alter_configs({resource: config_changes})[resource]
    return None if error is None else (error.code, error.message)


def test_setting_is_set_and_deleted() -> None:
    cluster = cluster_with_topic()
    assert alter(cluster, TOPIC, (SET, "retention.ms", "5"), (SET, "segment.ms", "6")) is None
    assert cluster.image.topic_config("t") == {"retention.ms": "5", "segment.ms": "6"}
    assert [topic.name for topic in cluster.last_delta.reconfigured] == ["t"]
    assert alter(cluster, TOPIC, (DELETE, "retention.ms", None)) is None
    assert cluster.image.topic_config("t") == {"segment.ms": "6"}


def test_unchanged_setting_writes_no_record() -> None:
    cluster = cluster_with_topic()
    alter(cluster, TOPIC, (SET, "retention.ms", "5"))
    entries = len(cluster.log.entries)
    assert alter(cluster, TOPIC, (SET, "retention.ms", "5"), (DELETE, "segment.ms", None)) is None
    assert len(cluster.log.entries) == entries


def test_append_and_subtract_start_from_the_default() -> None:
    cluster = cluster_with_topic()
    alter(cluster, TOPIC, (APPEND, "cleanup.policy", "compact"))
    assert cluster.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
    alter(cluster, TOPIC, (APPEND, "cleanup.policy", "compact,"))
    alter(cluster, TOPIC, (SUBTRACT, "cleanup.policy", "delete"))
    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}
    alter(cluster, TOPIC, (SUBTRACT, "cleanup.policy", "compact"))
    assert cluster.image.topic_config("t") == {"cleanup.policy": ""}
    assert alter(cluster, TOPIC, (APPEND, "cleanup.policy", "compact")) is None
    assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}


def test_each_resource_succeeds_or_fails_on_its_own() -> None:
    cluster = cluster_with_topic()
    outcome = cluster.controller.alter_configs(
        {
            ConfigResource(ResourceType.TOPIC, "nope"): [ConfigChange("retention.ms", SET, "5")],
            TOPIC: [ConfigChange("retention.ms", SET, "5")],
        }
    )
    assert [error is None for error in outcome.values()] == [False, True]
    assert cluster.image.topic_config("t") == {"retention.ms": "5"}


REFUSED = [
    (
        TOPIC,
        (SET, "retention.ms", "x"),
        ErrorCode.INVALID_CONFIG,
        "Invalid value x for configuration retention.ms: Not a number of type LONG",
    ),
    (TOPIC, (SET, "foo", "x"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: foo"),
    (
        TOPIC,
        (SET, "leader.replication.throttled.replicas", ",".join(["0:1"] * 9000)),
        ErrorCode.INVALID_CONFIG,
        (
            "The configuration value cannot be added because it exceeds the maximum value size of "
            "32767 bytes."
        ),
    ),
    (
        ConfigResource(ResourceType.TOPIC, "nope"),
        (SET, "retention.ms", "1"),
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "The topic 'nope' does not exist.",
    ),
    (
        ConfigResource(ResourceType.TOPIC, ""),
        (SET, "retention.ms", "1"),
        ErrorCode.INVALID_REQUEST,
        "Default topic resources are not allowed.",
    ),
    (
        ConfigResource(ResourceType.TOPIC, "."),
        (SET, "retention.ms", "1"),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: '.' is not allowed",
    ),
    (
        NODE,
        (APPEND, "num.io.threads", "3"),
        ErrorCode.INVALID_CONFIG,
        "Config value append is not allowed for config key: num.io.threads",
    ),
    (NODE, (SUBTRACT, "zzz", "3"), ErrorCode.INVALID_CONFIG, "Unknown config name: zzz"),
    (
        NODE,
        (DELETE, "min.insync.replicas", None),
        ErrorCode.INVALID_CONFIG,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    ),
    (
        ALL_BROKERS,
        (DELETE, "min.insync.replicas", None),
        ErrorCode.INVALID_CONFIG,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    ),
    (GROUP, (SET, "foo", "1"), ErrorCode.INVALID_CONFIG, "Unknown group config name: foo"),
    (
        ConfigResource(ResourceType.GROUP, ""),
        (SET, "foo", "1"),
        ErrorCode.INVALID_REQUEST,
        "Default group resources are not allowed.",
    ),
    (
        ConfigResource(ResourceType.CLIENT_METRICS, "m"),
        (SET, "foo", "1"),
        ErrorCode.INVALID_REQUEST,
        "Unknown client metrics configuration: foo",
    ),
    (
        ConfigResource(ResourceType.CLIENT_METRICS, ""),
        (SET, "metrics", "1"),
        ErrorCode.INVALID_REQUEST,
        "Subscription name can't be empty",
    ),
    (
        ConfigResource(ResourceType.CLIENT_METRICS, "m"),
        (SET, "match", "x"),
        ErrorCode.INVALID_CONFIG,
        "Illegal client matching pattern: x",
    ),
    (
        ConfigResource(ResourceType.UNKNOWN, "x"),
        (SET, "x", "x"),
        ErrorCode.INVALID_REQUEST,
        "Unknown resource type 0",
    ),
]


@pytest.mark.parametrize(("resource", "change", "code", "message"), REFUSED)
def test_refusals_have_kafkas_codes_and_messages(
    resource: ConfigResource,
    change: tuple[AlterOperation, str, str | None],
    code: ErrorCode,
    message: str,
) -> None:
    cluster = cluster_with_topic()
    entries = len(cluster.log.entries)
    assert alter(cluster, resource, change) == (code, message)
    assert len(cluster.log.entries) == entries


@pytest.mark.parametrize("level", [29, 30])
@pytest.mark.parametrize("operation", [SET, DELETE])
def test_directories_are_cordoned_from_their_metadata_version_on(
    level: int, operation: AlterOperation
) -> None:
    # The level of an older release remains when a newer release starts.
    cluster = MetadataCluster(as_version="4.2").restart(1)
    if level == 30:
        assert cluster.controller.update_features([FeatureUpdate(METADATA_VERSION, 30)]) == {}
    assert cluster.image.features[METADATA_VERSION] == level
    error = alter(cluster, NODE, (operation, "cordoned.log.dirs", "*"))
    refusal = (
        "The cordoned.log.dirs configuration value cannot be set because it requires "
        "metadata.version >= 4.3-IV0"
    )
    assert error == ((ErrorCode.INVALID_CONFIG, refusal) if level < 30 else None)


def test_new_cluster_stores_min_insync_replicas_in_the_metadata() -> None:
    """KIP-966: the properties file is read once, when the cluster is created."""
    cluster = MetadataCluster(min_insync_replicas="2")
    assert cluster.image.config_of(ResourceType.BROKER, "") == {"min.insync.replicas": "2"}
    assert alter(cluster, ALL_BROKERS, (SET, "min.insync.replicas", "1")) is None
    assert cluster.config.int("min.insync.replicas") == 1


def test_node_setting_precedes_cluster_default_and_file() -> None:
    cluster = MetadataCluster(message_max_bytes="1000")
    alter(cluster, ALL_BROKERS, (SET, "message.max.bytes", "2000"))
    assert cluster.config.int("message.max.bytes") == 2000
    alter(cluster, NODE, (SET, "message.max.bytes", "3000"))
    assert cluster.config.int("message.max.bytes") == 3000
    alter(cluster, NODE, (DELETE, "message.max.bytes", None))
    alter(cluster, ALL_BROKERS, (DELETE, "message.max.bytes", None))
    assert cluster.config.int("message.max.bytes") == 1000


def test_group_setting_applies_at_once_and_after_a_restart() -> None:
    cluster = MetadataCluster()
    alter(cluster, GROUP, (SET, "consumer.session.timeout.ms", "46000"))
    for each in (cluster, cluster.restart(1)):
        assert each.config.group_int("g", "consumer.session.timeout.ms") == 46000


def eligible(cluster: MetadataCluster) -> dict[str, tuple[int, ...]]:
    """Return the eligible leader replicas of each topic's partition."""
    return {name: topic.partitions[0].elr for name, topic in cluster.image.topics.items()}


def cluster_with_eligible_replicas() -> MetadataCluster:
    cluster = MetadataCluster(nodes=(1, 2), min_insync_replicas="2")
    cluster.controller.create_topics(
        [NewTopic(name=name, assignments=((0, (1, 2)),)) for name in ("t", "u")]
    )
    cluster.controller.fence(2)
    return cluster


def test_change_of_min_insync_replicas_clears_eligible_replicas_of_the_topic() -> None:
    cluster = cluster_with_eligible_replicas()
    assert eligible(cluster) == {"t": (2,), "u": (2,)}
    before = cluster.topic("t").partitions[0]
    assert alter(cluster, TOPIC, (SET, "retention.ms", "1000")) is None
    assert eligible(cluster) == {"t": (2,), "u": (2,)}
    assert alter(cluster, TOPIC, (SET, "min.insync.replicas", "1")) is None
    assert eligible(cluster) == {"t": (), "u": (2,)}
    after = cluster.topic("t").partitions[0]
    assert after == before._replace(elr=(), partition_epoch=before.partition_epoch + 1)


def test_change_of_min_insync_replicas_of_all_nodes_clears_all_eligible_replicas() -> None:
    cluster = cluster_with_eligible_replicas()
    assert alter(cluster, ALL_BROKERS, (SET, "min.insync.replicas", "1")) is None
    assert eligible(cluster) == {"t": (), "u": ()}


def test_validation_of_min_insync_replicas_clears_nothing() -> None:
    cluster = cluster_with_eligible_replicas()
    change = ConfigChange("min.insync.replicas", SET, "1")
    assert cluster.controller.alter_configs({TOPIC: [change]}, validate_only=True) == {TOPIC: None}
    assert eligible(cluster) == {"t": (2,), "u": (2,)}


def test_settings_of_the_first_node_remain_in_effect_while_it_is_fenced() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    assert alter(cluster, NODE, (SET, "message.max.bytes", "7")) is None
    cluster.controller.fence(1)
    assert alter(cluster, ALL_BROKERS, (SET, "log.retention.ms", "5")) is None
    assert cluster.config.int("message.max.bytes") == 7
