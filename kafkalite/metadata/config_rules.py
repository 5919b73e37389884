"""Validation of the settings of each type of resource, with Kafka's error messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalite.config.definitions import ConfigError, ConfigType
from kafkalite.config.group import check_group_values
from kafkalite.config.topic import check_topic_values
from kafkalite.metadata.image import ResourceType
from kafkalite.metadata.topic_names import invalid_name_reason
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import ConfigKey
    from kafkalite.metadata.image import ConfigResource

MAX_VALUE_BYTES = 32_767
"""The longest value that a ConfigRecord may contain."""

_RESOURCES_WITH_LIST_KEYS: Mapping[
    ResourceType, Callable[[BrokerConfig], Mapping[str, ConfigKey]]
] = {
    ResourceType.TOPIC: lambda config: config.topic_keys,
    ResourceType.BROKER: lambda config: config.described_keys,
}
"""Resources whose list keys support APPEND and SUBTRACT."""


def list_default(
    resource: ConfigResource, name: str, config: BrokerConfig
) -> tuple[str, ...] | None:
    """Return the default of a list key; None if `name` is not a list."""
    keys = _RESOURCES_WITH_LIST_KEYS.get(resource.type)
    key = keys(config).get(name) if keys is not None else None
    if key is None or key.type is not ConfigType.LIST:
        return None
    return key.default if isinstance(key.default, tuple) else ()


def no_list_error(
    resource: ConfigResource, name: str, operation: str, config: BrokerConfig
) -> KafkaError:
    """Return Kafka's error for APPEND or SUBTRACT on a key that is not a list."""
    if resource.type is not ResourceType.BROKER:
        message = ErrorText.CONFIG_IS_NO_LIST.format(operation=operation, name=name)
    elif name in config.described_keys:
        message = f"Config value {operation.lower()} is not allowed for config key: {name}"
    elif config.release.rules.names_unknown_lists:
        message = f"Unknown config name: {name}"
    else:
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _check_topic(
    name: str, values: Mapping[str, str], config: BrokerConfig, before: Mapping[str, str]
) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if (reason := invalid_name_reason(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    check_topic_values(values, config, before)


def _check_group(
    name: str, values: Mapping[str, str], config: BrokerConfig, _: Mapping[str, str]
) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    check_group_values(values, config)


def _check_client_metrics(
    name: str, values: Mapping[str, str], config: BrokerConfig, _: Mapping[str, str]
) -> None:
    from kafkalite.config.client_metrics import (  # noqa: PLC0415 - rarely used
        ClientMetricsRequestError,
        check_client_metrics_values,
    )

    del config  # not used; all rules have the same parameters
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    try:
        check_client_metrics_values(values)
    except ClientMetricsRequestError as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


def _check_broker(
    name: str, values: Mapping[str, str], config: BrokerConfig, _: Mapping[str, str]
) -> None:
    from kafkalite.config.dynamic import check_dynamic_values  # noqa: PLC0415 - rarely used

    try:
        own = config.of_node(int(name)) if name.isdecimal() else config
        check_dynamic_values(values, own, is_per_broker=bool(name))
    except ConfigError as error:
        # In Kafka a broker refuses its own settings before a controller sees the request.
        raise KafkaError(ErrorCode.INVALID_REQUEST, error.message) from error


_Rule = Callable[[str, "Mapping[str, str]", "BrokerConfig", "Mapping[str, str]"], None]
"""(name, values, settings of the broker, values before the change): raises an error."""

_RULES: Mapping[ResourceType, _Rule] = {
    ResourceType.TOPIC: _check_topic,
    ResourceType.BROKER: _check_broker,
    ResourceType.CLIENT_METRICS: _check_client_metrics,
    ResourceType.GROUP: _check_group,
}


def check_resource(
    resource: ConfigResource,
    values: Mapping[str, str],
    config: BrokerConfig,
    before: Mapping[str, str],
) -> None:
    """Raise KafkaError unless `values` are valid settings for a resource that had others before."""
    rule = _RULES.get(resource.type)
    if rule is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {int(resource.type)}")
    try:
        rule(resource.name, values, config, before)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, error.message) from error
