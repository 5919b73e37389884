"""AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

import pytest

from kafkalite.apis.configs.alter import APIS
from kafkalite.config.releases import emulated_release
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ResourceType
from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.metadata import MetadataCluster

REPLACE, ALTER = APIS
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def cluster() -> MetadataCluster:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.create_topics([NewTopic(name="t", configs={"segment.ms": "6"})])
    return cluster


def alter(
    cluster: MetadataCluster,
    kind: int,
    name: str,
    *changes: tuple[str, int, str | None],
    validate_only: bool = False,
    times: int = 1,
) -> list[tuple[ErrorCode, str | None]]:
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(
                name=key, config_operation=operation, value=value
            )
            for key, operation, value in changes
        ],
    )
    request = IncrementalAlterConfigsRequest(
        resources=[resource] * times, validate_only=validate_only
    )
    answer = cluster.ask(ALTER, request)
    return [(ErrorCode(each.error_code), each.error_message) for each in answer.responses]


def emulate(cluster: MetadataCluster, release: str) -> None:
    """Let the controller and its node be those of a release."""
    for config in (cluster.config, cluster.config.of_node(1)):
        config.release = emulated_release(release)


def replace(
    cluster: MetadataCluster, kind: int, name: str, *configs: tuple[str, str | None], times: int = 1
) -> list[tuple[ErrorCode, str | None]]:
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in configs
        ],
    )
    answer = cluster.ask(REPLACE, AlterConfigsRequest(resources=[resource] * times))
    return [(ErrorCode(each.error_code), each.error_message) for each in answer.responses]


DONE = [(ErrorCode.NONE, None)]


def test_validate_only_changes_nothing(cluster: MetadataCluster) -> None:
    change = ("retention.ms", SET, "5")
    assert alter(cluster, ResourceType.TOPIC, "t", change, validate_only=True) == DONE
    level = ("root", SET, "DEBUG")
    assert alter(cluster, ResourceType.BROKER_LOGGER, "1", level, validate_only=True) == DONE
    assert cluster.image.topic_config("t") == {"segment.ms": "6"}
    assert cluster.config.log_levels.level_of("root") == "INFO"


def test_malformed_requests_are_refused_for_each_resource(cluster: MetadataCluster) -> None:
    topic = ResourceType.TOPIC
    twice = [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]
    assert alter(cluster, topic, "t", *twice) == [
        (ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    ]
    assert alter(cluster, topic, "t", ("a", SET, None), ("b", DELETE, None)) == [
        (ErrorCode.INVALID_REQUEST, "Null value not supported for : a")
    ]
    assert replace(cluster, topic, "t", ("a", None), ("b", None)) == [
        (ErrorCode.INVALID_REQUEST, "Null value not supported for : a, b")
    ]
    once = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert alter(cluster, topic, "t", times=2) == [once, once]
    assert replace(cluster, topic, "t", times=2) == [once, once]
    assert alter(cluster, topic, "t", ("retention.ms", 9, "1")) == [
        (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    ]
    assert cluster.image.topic_config("t") == {"segment.ms": "6"}


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (77, "x", "Unknown resource type 77"),
        (0, "x", "Unknown resource type 0"),
        (ResourceType.BROKER, "2", "Unexpected broker id, expected 1, but received 2"),
        (ResourceType.BROKER, "x", "Node id must be an integer, but it is: x"),
    ],
)
def test_a_node_alters_only_its_own_resources(
    cluster: MetadataCluster, kind: int, name: str, message: str
) -> None:
    refused = [(ErrorCode.INVALID_REQUEST, message)]
    assert alter(cluster, kind, name, ("a", SET, "b")) == refused
    assert replace(cluster, kind, name, ("a", "b")) == refused


def test_a_broker_setting_takes_effect_immediately(cluster: MetadataCluster) -> None:
    assert alter(cluster, ResourceType.BROKER, "1", ("message.max.bytes", SET, "5000")) == DONE
    assert cluster.config.int("message.max.bytes") == 5000


def test_logger_changes_are_not_stored(cluster: MetadataCluster) -> None:
    entries = len(cluster.log.entries)
    logger = ResourceType.BROKER_LOGGER
    assert alter(cluster, logger, "1", ("kafkalite", SET, "DEBUG")) == DONE
    assert cluster.config.log_levels.level_of("kafkalite") == "DEBUG"
    assert alter(cluster, logger, "1", ("kafkalite", DELETE, None)) == DONE
    assert cluster.config.log_levels.level_of("kafkalite") == "INFO"
    assert len(cluster.log.entries) == entries


@pytest.mark.parametrize(
    ("name", "change", "refusal"),
    [
        (
            "2",
            ("root", SET, "INFO"),
            (ErrorCode.INVALID_REQUEST, "Unexpected node id. Expected 1, but received 2"),
        ),
        ("1", ("x", SET, "INFO"), (ErrorCode.INVALID_CONFIG, "Logger x does not exist!")),
        (
            "1",
            ("root", DELETE, None),
            (
                ErrorCode.INVALID_REQUEST,
                "Removing the log level of the root logger is not allowed",
            ),
        ),
        (
            "1",
            ("root", APPEND, "INFO"),
            (
                ErrorCode.INVALID_REQUEST,
                "APPEND operation is not allowed for the BROKER_LOGGER resource",
            ),
        ),
        (
            "1",
            ("root", 4, "INFO"),
            (
                ErrorCode.INVALID_REQUEST,
                "Unknown operation type 4 is not allowed for the BROKER_LOGGER resource",
            ),
        ),
    ],
)
def test_invalid_logger_changes_are_refused(
    cluster: MetadataCluster,
    name: str,
    change: tuple[str, int, str | None],
    refusal: tuple[ErrorCode, str],
) -> None:
    assert alter(cluster, ResourceType.BROKER_LOGGER, name, change) == [refusal]


def test_one_invalid_logger_change_prevents_the_others(cluster: MetadataCluster) -> None:
    changes = (("kafkalite", SET, "DEBUG"), ("root", SET, "LOUD"))
    ((code, message),) = alter(cluster, ResourceType.BROKER_LOGGER, "1", *changes)
    assert code is ErrorCode.INVALID_CONFIG
    assert message is not None
    assert message.startswith("Cannot set the log level of root to LOUD")
    assert cluster.config.log_levels.level_of("kafkalite") == "INFO"


@pytest.mark.parametrize("release", ["3.3", "3.9"])
def test_releases_before_40_have_no_group_settings(cluster: MetadataCluster, release: str) -> None:
    emulate(cluster, release)
    unknown = [(ErrorCode.INVALID_REQUEST, "Unknown resource type 32")]
    for key in ("consumer.session.timeout.ms", "no.such.key"):
        assert alter(cluster, ResourceType.GROUP, "g", (key, SET, "50000")) == unknown
        assert replace(cluster, ResourceType.GROUP, "g", (key, "50000")) == unknown
    emulate(cluster, "4.0")
    assert (
        alter(cluster, ResourceType.GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
        == DONE
    )


def test_releases_before_40_accept_a_message_format_version(cluster: MetadataCluster) -> None:
    name = "message.format.version"
    refused = [(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")]
    assert replace(cluster, ResourceType.TOPIC, "t", (name, "2.8")) == refused
    emulate(cluster, "3.9")
    assert replace(cluster, ResourceType.TOPIC, "t", (name, "2.8")) == DONE
    assert alter(cluster, ResourceType.TOPIC, "t", (name, SET, "3.0-IV1")) == DONE
    assert cluster.image.topic_config("t") == {name: "3.0-IV1"}


def test_a_resource_is_checked_before_the_operations_on_it(cluster: MetadataCluster) -> None:
    change = ("retention.ms", 99, "5")
    assert alter(cluster, 99, "t", change) == [
        (ErrorCode.INVALID_REQUEST, "Unknown resource type 99")
    ]
    assert alter(cluster, ResourceType.TOPIC, "t", change) == [
        (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    ]
