"""AlterConfigs and IncrementalAlterConfigs from clients of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.configs.alter import APIS
from kafkalite.apis.configs.alter_at_controller import (
    handle_alter_configs_at_controller,
    handle_incremental_alter_configs_at_controller,
)
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol._generated.messages.alter_configs import AlterConfigsRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.metadata import MetadataCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.metadata.image import MetadataImage

REPLACE, ALTER = APIS
REPLACE_AT_CONTROLLER = REPLACE._replace(handler=handle_alter_configs_at_controller)
ALTER_AT_CONTROLLER = ALTER._replace(handler=handle_incremental_alter_configs_at_controller)
SET, DELETE, APPEND = 0, 1, 2
TOPIC, BROKER, LOGGER = ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER
T = ConfigResource(TOPIC, "t")

Change = tuple[str, int, str | None]
Resource = tuple[int, str, tuple[Change, ...]]
Row = tuple[int, str, ErrorCode]


@pytest.fixture
def cluster() -> MetadataCluster:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.create_topics([NewTopic(name="t", configs={"segment.ms": "6"})])
    return cluster


def image(cluster: MetadataCluster) -> MetadataImage:
    return cluster.controller.image


def alter(cluster: MetadataCluster, *resources: Resource) -> list[Row]:
    rows = IncrementalAlterConfigsRequest
    request = rows(
        resources=[
            rows.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    rows.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ]
    )
    return result(cluster.ask(ALTER_AT_CONTROLLER, request))


def replace(cluster: MetadataCluster, *resources: Resource) -> list[Row]:
    rows = AlterConfigsRequest
    request = rows(
        resources=[
            rows.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[rows.AlterableConfig(name=key, value=value) for key, _, value in changes],
            )
            for kind, name, changes in resources
        ]
    )
    return result(cluster.ask(REPLACE_AT_CONTROLLER, request))


def result(answer: object) -> list[Row]:
    rows = answer.responses  # type: ignore[attr-defined]  # both responses have rows
    for each in rows:
        assert (each.error_message is None) is (each.error_code in (0, -1))
    return [(each.resource_type, each.resource_name, ErrorCode(each.error_code)) for each in rows]


@pytest.mark.parametrize("change", [alter, replace])
def test_a_repeated_resource_has_one_row(cluster: MetadataCluster, change: object) -> None:
    assert callable(change)
    values = (("segment.ms", SET, "9"),)
    rows = change(cluster, *[(TOPIC, "t", values)] * 3, (TOPIC, "no", values), (99, "t", values))
    assert rows == [
        (TOPIC, "t", ErrorCode.INVALID_REQUEST),
        (99, "t", ErrorCode.UNSUPPORTED_VERSION),
        (TOPIC, "no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert image(cluster).configs[T] == {"segment.ms": "6"}


def test_the_last_value_of_a_key_applies(cluster: MetadataCluster) -> None:
    changes = (("segment.ms", SET, "9"), ("retention.ms", SET, "1"), ("segment.ms", SET, "8"))
    assert alter(cluster, (TOPIC, "t", changes)) == [(TOPIC, "t", ErrorCode.NONE)]
    assert image(cluster).configs[T] == {"segment.ms": "8", "retention.ms": "1"}


def test_a_null_value_deletes_a_key(cluster: MetadataCluster) -> None:
    assert alter(cluster, (TOPIC, "t", (("segment.ms", SET, None),)))[0][2] == ErrorCode.NONE
    assert T not in image(cluster).configs
    values = (("segment.ms", SET, None), ("retention.ms", SET, "1"))
    assert replace(cluster, (TOPIC, "t", values))[0][2] == ErrorCode.NONE
    assert image(cluster).configs[T] == {"retention.ms": "1"}


@pytest.mark.parametrize(
    "change", [("cleanup.policy", APPEND, None), ("segment.ms", 4, "1"), ("segment.ms", -1, "1")]
)
def test_a_change_that_cannot_be_processed_fails_the_request(
    cluster: MetadataCluster, change: Change
) -> None:
    other = (("segment.ms", SET, "9"),)
    rows = alter(cluster, (TOPIC, "t", other), (TOPIC, "no", (change,)))
    assert [code for _, _, code in rows] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert image(cluster).configs[T] == {"segment.ms": "6"}


@pytest.mark.parametrize("change", [alter, replace])
def test_settings_of_all_registered_nodes_can_change(
    cluster: MetadataCluster, change: object
) -> None:
    assert callable(change)
    values = (("log.retention.ms", SET, "77"),)
    rows = change(cluster, *((BROKER, name, values) for name in ("2", "3", "x", "-1")))
    assert sorted(rows) == [
        (BROKER, "-1", ErrorCode.INVALID_REQUEST),
        (BROKER, "2", ErrorCode.NONE),
        (BROKER, "3", ErrorCode.BROKER_ID_NOT_REGISTERED),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
    ]
    assert image(cluster).configs[ConfigResource(BROKER, "2")] == {"log.retention.ms": "77"}


def test_loggers_are_changed_one_after_the_other(cluster: MetadataCluster) -> None:
    rows = alter(
        cluster,
        (LOGGER, "1", (("root", SET, "WARN"),)),
        (LOGGER, "1", (("root", SET, "INFO"),)),
        (LOGGER, "1", (("root", 4, "INFO"),)),
        (LOGGER, "2", (("root", SET, "INFO"),)),
        (TOPIC, "t", ()),
    )
    assert rows == [
        (TOPIC, "t", ErrorCode.NONE),
        (LOGGER, "1", ErrorCode.NONE),
        (LOGGER, "1", ErrorCode.NONE),
        (LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST),
    ]
    assert cluster.config.log_levels.effective["root"] == "INFO"
    assert replace(cluster, (LOGGER, "1", ())) == [(LOGGER, "1", ErrorCode.INVALID_REQUEST)]


def test_a_null_level_of_a_logger_fails() -> None:
    cluster = MetadataCluster()
    rows = IncrementalAlterConfigsRequest
    null = rows.AlterableConfig(name="root", config_operation=SET, value=None)
    logger = rows.AlterConfigsResource(resource_type=LOGGER, resource_name="1", configs=[null])
    (row,) = cluster.ask(ALTER_AT_CONTROLLER, rows(resources=[logger])).responses
    assert row.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert row.error_message == ErrorCode.UNKNOWN_SERVER_ERROR.message


def test_an_old_release_has_no_settings_of_groups() -> None:
    cluster = MetadataCluster(as_version="3.7")
    rows = alter(cluster, (ResourceType.GROUP, "g", ()))
    assert rows == [(ResourceType.GROUP, "g", ErrorCode.UNSUPPORTED_VERSION)]


@pytest.mark.parametrize("change", [alter, replace])
def test_the_controller_cordons_no_directories(
    cluster: MetadataCluster, change: Callable[..., list[Row]]
) -> None:
    def error_of(value: str | None) -> ErrorCode:
        ((_, _, error),) = change(cluster, (BROKER, "1", (("cordoned.log.dirs", SET, value),)))
        return error

    assert error_of("*") == ErrorCode.INVALID_CONFIG
    resource = ConfigResource(BROKER, "1")
    assert cluster.controller.replace_configs({resource: {"cordoned.log.dirs": "*"}}) == {
        resource: None
    }
    assert [error_of(value) for value in ("*", " ", "*")] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.INVALID_CONFIG,
    ]
    assert error_of(None) == ErrorCode.NONE
