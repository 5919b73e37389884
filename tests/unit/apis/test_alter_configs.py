"""AlterConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

import pytest

from kafkalite.apis.alter_configs import APIS
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ResourceType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from tests.unit.metadata_world import MetadataWorld

REPLACE, ALTER = APIS
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def world() -> MetadataWorld:
    world = MetadataWorld(nodes=(1, 2))
    world.controller.create_topics([NewTopic(name="t", configs={"segment.ms": "6"})])
    return world


def alter(
    world: MetadataWorld,
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
    answer = world.ask(ALTER, request)
    return [(ErrorCode(each.error_code), each.error_message) for each in answer.responses]


def replace(
    world: MetadataWorld, kind: int, name: str, *configs: tuple[str, str | None], times: int = 1
) -> list[tuple[ErrorCode, str | None]]:
    resource = AlterConfigsRequest.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterConfigsRequest.AlterableConfig(name=key, value=value) for key, value in configs
        ],
    )
    answer = world.ask(REPLACE, AlterConfigsRequest(resources=[resource] * times))
    return [(ErrorCode(each.error_code), each.error_message) for each in answer.responses]


DONE = [(ErrorCode.NONE, None)]


def test_single_settings_change(world: MetadataWorld) -> None:
    changes = (("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact"))
    assert alter(world, ResourceType.TOPIC, "t", *changes) == DONE
    assert world.image.topic_config("t") == {
        "cleanup.policy": "delete,compact",
        "retention.ms": "5",
        "segment.ms": "6",
    }


def test_all_settings_are_replaced(world: MetadataWorld) -> None:
    assert replace(world, ResourceType.TOPIC, "t", ("retention.ms", "5")) == DONE
    assert world.image.topic_config("t") == {"retention.ms": "5"}


def test_asking_only_changes_nothing(world: MetadataWorld) -> None:
    change = ("retention.ms", SET, "5")
    assert alter(world, ResourceType.TOPIC, "t", change, validate_only=True) == DONE
    level = ("root", SET, "DEBUG")
    assert alter(world, ResourceType.BROKER_LOGGER, "1", level, validate_only=True) == DONE
    assert world.image.topic_config("t") == {"segment.ms": "6"}
    assert world.config.log_levels.level_of("root") == "INFO"


def test_malformed_requests_are_told_resource_by_resource(world: MetadataWorld) -> None:
    topic = ResourceType.TOPIC
    twice = [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]
    assert alter(world, topic, "t", *twice) == [
        (ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    ]
    assert alter(world, topic, "t", ("a", SET, None), ("b", DELETE, None)) == [
        (ErrorCode.INVALID_REQUEST, "Null value not supported for : a")
    ]
    assert replace(world, topic, "t", ("a", None), ("b", None)) == [
        (ErrorCode.INVALID_REQUEST, "Null value not supported for : a, b")
    ]
    once = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert alter(world, topic, "t", times=2) == [once, once]
    assert replace(world, topic, "t", times=2) == [once, once]
    assert alter(world, topic, "t", ("retention.ms", 9, "1")) == [
        (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    ]
    assert world.image.topic_config("t") == {"segment.ms": "6"}


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        (77, "x", "Unknown resource type 77"),
        (0, "x", "Unknown resource type 0"),
        (ResourceType.BROKER, "2", "Unexpected broker id, expected 1, but received 2"),
        (ResourceType.BROKER, "x", "Node id must be an integer, but it is: x"),
    ],
)
def test_a_node_alters_what_is_its_to_alter(
    world: MetadataWorld, kind: int, name: str, message: str
) -> None:
    refused = [(ErrorCode.INVALID_REQUEST, message)]
    assert alter(world, kind, name, ("a", SET, "b")) == refused
    assert replace(world, kind, name, ("a", "b")) == refused


def test_a_broker_setting_takes_effect_at_once(world: MetadataWorld) -> None:
    assert alter(world, ResourceType.BROKER, "1", ("message.max.bytes", SET, "5000")) == DONE
    assert world.config.int("message.max.bytes") == 5000


def test_loggers_change_without_a_trace_in_the_log(world: MetadataWorld) -> None:
    entries = len(world.log.entries)
    logger = ResourceType.BROKER_LOGGER
    assert alter(world, logger, "1", ("kafkalite", SET, "DEBUG")) == DONE
    assert world.config.log_levels.level_of("kafkalite") == "DEBUG"
    assert alter(world, logger, "1", ("kafkalite", DELETE, None)) == DONE
    assert world.config.log_levels.level_of("kafkalite") == "INFO"
    assert len(world.log.entries) == entries


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
    ],
)
def test_refused_logger_changes(
    world: MetadataWorld,
    name: str,
    change: tuple[str, int, str | None],
    refusal: tuple[ErrorCode, str],
) -> None:
    assert alter(world, ResourceType.BROKER_LOGGER, name, change) == [refusal]


def test_one_bad_logger_change_leaves_all_as_they_are(world: MetadataWorld) -> None:
    changes = (("kafkalite", SET, "DEBUG"), ("root", SET, "LOUD"))
    ((code, message),) = alter(world, ResourceType.BROKER_LOGGER, "1", *changes)
    assert code is ErrorCode.INVALID_CONFIG
    assert message is not None
    assert message.startswith("Cannot set the log level of root to LOUD")
    assert world.config.log_levels.level_of("kafkalite") == "INFO"
