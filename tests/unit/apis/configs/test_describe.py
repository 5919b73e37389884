"""DescribeConfigs and ListConfigResources."""

from __future__ import annotations

from typing import Any

import pytest

from kafkalite.apis.configs.describe import APIS
from kafkalite.apis.duplicates import MAX_DUPLICATES
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.list_config_resources import ListConfigResourcesRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.metadata import MetadataCluster

DESCRIBE, LIST = APIS
GROUP = ConfigResource(ResourceType.GROUP, "g")


@pytest.fixture
def cluster() -> MetadataCluster:
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.create_topics([NewTopic(name="t", configs={"retention.ms": "5"})])
    return cluster


def describe(cluster: MetadataCluster, kind: int, name: str, *keys: str, **flags: Any) -> Any:  # noqa: ANN401 - a generated result
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(resources=[resource], **flags)
    (result,) = cluster.ask(DESCRIBE, request).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def test_a_topic_is_described_with_the_requested_keys(cluster: MetadataCluster) -> None:
    (plain,) = describe(cluster, ResourceType.TOPIC, "t", "retention.ms", "nope").configs
    assert (plain.value, plain.config_source, plain.config_type) == ("5", 1, 5)
    assert (plain.synonyms, plain.documentation) == ([], None)
    (full,) = describe(
        cluster,
        ResourceType.TOPIC,
        "t",
        "max.message.bytes",
        include_synonyms=True,
        include_documentation=True,
    ).configs
    assert [(each.name, each.source) for each in full.synonyms] == [("message.max.bytes", 5)]
    assert (
        full.documentation
        == "Maximum size of a batch that the topic accepts, as sent by the producer."
    )
    assert len(describe(cluster, ResourceType.TOPIC, "t").configs) == 37


def test_repeated_resources_in_one_request_are_limited(cluster: MetadataCluster) -> None:
    """The response is a thousand times as large as the request."""
    asked = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name="t"
    )
    request = DescribeConfigsRequest(resources=[asked] * (MAX_DUPLICATES + 3))
    codes = [each.error_code for each in cluster.ask(DESCRIBE, request).results]
    assert codes == [0] * (MAX_DUPLICATES + 1) + [ErrorCode.INVALID_REQUEST] * 2


def test_a_node_describes_only_itself(cluster: MetadataCluster) -> None:
    own = {each.name: each for each in describe(cluster, ResourceType.BROKER, "1").configs}
    assert own["node.id"].value == "1"
    assert own["num.partitions"].read_only
    assert describe(cluster, ResourceType.BROKER, "2").error_code == ErrorCode.INVALID_REQUEST


def test_the_cluster_default_is_described_on_its_own(cluster: MetadataCluster) -> None:
    (only,) = describe(cluster, ResourceType.BROKER, "", include_synonyms=True).configs
    assert (only.name, only.config_source) == ("min.insync.replicas", 3)
    assert [each.source for each in only.synonyms] == [3]


def test_loggers_are_described_with_their_levels(cluster: MetadataCluster) -> None:
    result = describe(cluster, ResourceType.BROKER_LOGGER, "1")
    rows = [
        (each.name, each.value, each.config_source, each.documentation) for each in result.configs
    ]
    assert rows == [("kafkalite", "INFO", 6, ""), ("root", "INFO", 6, "")]


def test_groups_and_subscriptions_without_settings_are_described(cluster: MetadataCluster) -> None:
    assert len(describe(cluster, ResourceType.GROUP, "unknown").configs) == 21
    assert len(describe(cluster, ResourceType.CLIENT_METRICS, "nothing").configs) == 3


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (ResourceType.TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            ResourceType.TOPIC,
            "..",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: '..' is not allowed",
        ),
        (
            ResourceType.BROKER,
            "x",
            ErrorCode.INVALID_REQUEST,
            "Broker id must be an integer, but it is: x",
        ),
        (
            ResourceType.BROKER,
            "7",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 7",
        ),
        (ResourceType.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (
            ResourceType.BROKER_LOGGER,
            "7",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 but received 7",
        ),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
        (
            ResourceType.CLIENT_METRICS,
            "",
            ErrorCode.INVALID_REQUEST,
            "Client metrics subscription name must not be empty",
        ),
        (77, "x", ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST.message),
    ],
)
def test_invalid_resources_are_refused(
    cluster: MetadataCluster, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    result = describe(cluster, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


def listed(cluster: MetadataCluster, version: int, *kinds: int) -> list[tuple[int, str]]:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = cluster.ask(LIST, request, version)
    assert answer.error_code == ErrorCode.NONE
    return [(each.resource_type, each.resource_name) for each in answer.config_resources]


def test_resources_are_listed_by_type(cluster: MetadataCluster) -> None:
    cluster.controller.alter_configs(
        {
            GROUP: [ConfigChange("consumer.session.timeout.ms", AlterOperation.SET, "46000")],
            ConfigResource(ResourceType.CLIENT_METRICS, "m"): [
                ConfigChange("metrics", AlterOperation.SET, "")
            ],
        }
    )
    assert listed(cluster, 1) == [
        (ResourceType.TOPIC, "t"),
        (ResourceType.BROKER, "1"),
        (ResourceType.BROKER, "2"),
        (ResourceType.BROKER_LOGGER, "1"),
        (ResourceType.BROKER_LOGGER, "2"),
        (ResourceType.CLIENT_METRICS, "m"),
        (ResourceType.GROUP, "g"),
    ]
    assert listed(cluster, 1, ResourceType.GROUP) == [(ResourceType.GROUP, "g")]
    assert listed(cluster, 0) == [(ResourceType.CLIENT_METRICS, "m")]


def test_releases_before_40_describe_message_formats_and_no_groups() -> None:
    cluster = MetadataCluster(as_version="3.9")
    cluster.controller.create_topics(
        [NewTopic(name="t", configs={"message.format.version": "2.8"})]
    )
    topic = describe(cluster, ResourceType.TOPIC, "t", include_synonyms=True)
    shown = {each.name: each for each in topic.configs}
    assert len(shown) == 36
    version = shown["message.format.version"]
    assert (version.value, version.config_source) == ("2.8", 1)
    assert [(each.name, each.value, each.source) for each in version.synonyms] == [
        ("message.format.version", "2.8", 1),
        ("log.message.format.version", "3.0-IV1", 5),
    ]
    conversion = shown["message.downconversion.enable"]
    assert (conversion.value, conversion.config_source) == ("true", 5)
    group = describe(cluster, ResourceType.GROUP, "g")
    assert (group.error_code, group.configs) == (ErrorCode.INVALID_REQUEST, [])
