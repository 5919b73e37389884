"""The settings of a topic, with their sources, as DescribeConfigs returns them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.layers import ConfigSource
from kafkalite.control.command_table import CommandError, sentence
from kafkalite.control.console.source import Setting
from kafkalite.control.internal_requests import answer_of
from kafkalite.metadata.image import ResourceType
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker


async def read_settings(broker: Broker, topic: str) -> list[Setting]:
    """Return the settings of a topic: changed ones first; raises CommandError."""
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name=topic, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource], include_documentation=True)
    (result,) = (await answer_of(broker, request)).results
    if result.error_code:
        raise CommandError(sentence(KafkaError(ErrorCode(result.error_code), result.error_message)))
    found = [
        Setting(
            each.name,
            each.value,
            ConfigSource(each.config_source).name.lower().replace("_", " "),
            each.config_source == ConfigSource.DYNAMIC_TOPIC,
            each.documentation or "",
        )
        for each in result.configs
    ]
    return sorted(found, key=lambda each: (not each.is_changed, each.name))
