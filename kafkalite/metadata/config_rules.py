"""What may be set on which kind of resource, and how a refusal is told to a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.client_metrics import (
    ClientMetricsRequestError,
    check_client_metrics_values,
)
from kafkalite.config.definitions import ConfigError, ConfigType
from kafkalite.config.dynamic import check_dynamic_values
from kafkalite.config.group import check_group_values
from kafkalite.config.keys import broker_keys, topic_keys
from kafkalite.config.topic import check_topic_values
from kafkalite.metadata.image import ResourceType
from kafkalite.metadata.topic_names import name_complaint
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.config.definitions import ConfigKey
    from kafkalite.metadata.image import ConfigResource

MAX_VALUE_BYTES = 32_767
"""The longest value a ConfigRecord is allowed to carry."""

_SPLITTABLE: Mapping[ResourceType, Callable[[], Mapping[str, ConfigKey]]] = {
    ResourceType.TOPIC: topic_keys,
    ResourceType.BROKER: broker_keys,
}
"""Resources whose list keys take APPEND and SUBTRACT."""


def list_default(resource: ConfigResource, name: str) -> tuple[str, ...] | None:
    """Return what a list key starts from when unset; None when `name` is no list."""
    keys = _SPLITTABLE.get(resource.type)
    key = keys().get(name) if keys is not None else None
    if key is None or key.type is not ConfigType.LIST:
        return None
    return key.default if isinstance(key.default, tuple) else ()


def unlisted_message(resource: ConfigResource, name: str, operation: str) -> str:
    """Return what Kafka says of APPEND or SUBTRACT on a key that is no list."""
    if resource.type is not ResourceType.BROKER:
        return f"Can't {operation} to key {name} because its type is not LIST."
    if name not in broker_keys():
        return f"Unknown config name: {name}"
    return f"Config value {operation.lower()} is not allowed for config key: {name}"


def _check_topic(name: str, own: Mapping[str, str], config: BrokerConfig) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if (complaint := name_complaint(name)) is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, complaint)
    check_topic_values(own, config)


def _check_group(name: str, own: Mapping[str, str], config: BrokerConfig) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    check_group_values(own, config)


def _check_client_metrics(name: str, own: Mapping[str, str], config: BrokerConfig) -> None:
    del config  # every rule takes it; subscriptions do not depend on the broker's settings
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    try:
        check_client_metrics_values(own)
    except ClientMetricsRequestError as refusal:
        raise KafkaError(ErrorCode.INVALID_REQUEST, refusal.message) from refusal


def _check_broker(name: str, own: Mapping[str, str], config: BrokerConfig) -> None:
    try:
        check_dynamic_values(own, config, is_per_broker=bool(name))
    except ConfigError as refusal:
        # A broker checks its own settings as a request, before any controller sees them.
        raise KafkaError(ErrorCode.INVALID_REQUEST, refusal.message) from refusal


_RULES: Mapping[ResourceType, Callable[[str, Mapping[str, str], BrokerConfig], None]] = {
    ResourceType.TOPIC: _check_topic,
    ResourceType.BROKER: _check_broker,
    ResourceType.CLIENT_METRICS: _check_client_metrics,
    ResourceType.GROUP: _check_group,
}


def check_resource(resource: ConfigResource, own: Mapping[str, str], config: BrokerConfig) -> None:
    """Raise KafkaError unless `own` may be all that is set on a resource."""
    rule = _RULES.get(resource.type)
    if rule is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {int(resource.type)}")
    try:
        rule(resource.name, own, config)
    except ConfigError as refusal:
        raise KafkaError(ErrorCode.INVALID_CONFIG, refusal.message) from refusal
