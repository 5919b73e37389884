"""What is set on topics, brokers, groups and client metrics subscriptions.

One record sets one key of one resource, or takes it back. Values are checked when they are set and
kept as text: what they mean is for `config` to say.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.metadata.config_rules import (
    MAX_VALUE_BYTES,
    check_resource,
    list_default,
    unlisted_message,
)
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.records.config import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.changes import Changes
    from kafkalite.metadata.topics import Topics

MIN_INSYNC_REPLICAS = "min.insync.replicas"


class AlterOperation(IntEnum):
    """What to do with a key, numbered as IncrementalAlterConfigs numbers it."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One key of one resource, and what to do with it."""

    name: str
    operation: AlterOperation
    value: str | None


class Configs:
    """Settings by resource, each as text by key."""

    __slots__ = ("_changes", "_config", "_topics", "by_resource")

    def __init__(self, config: BrokerConfig, topics: Topics, changes: Changes) -> None:
        self._config = config
        self._topics = topics
        self._changes = changes
        # A resource's settings are replaced whole, so that images can share them.
        self.by_resource: dict[ConfigResource, Mapping[str, str]] = {}

    def _own(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.by_resource.get(resource, {})

    def bootstrap_records(self) -> list[ConfigRecord]:
        """Return the one setting a new cluster has: the least in-sync replicas, for all nodes.

        KIP-966: eligible leader replicas need it to be the same on every node, so Kafka moves it
        from the properties file into the metadata.
        """
        everybody = ConfigResource(ResourceType.BROKER, "")
        if MIN_INSYNC_REPLICAS in self._own(everybody):
            return []
        least = str(self._config.int(MIN_INSYNC_REPLICAS))
        return [_config_record(everybody, MIN_INSYNC_REPLICAS, least)]

    def records_of_new_topic(
        self, name: str, wanted: Mapping[str, str | None]
    ) -> list[ConfigRecord]:
        """Return the records that configure a topic about to be made; KafkaError if they cannot."""
        if nulls := sorted(key for key, value in wanted.items() if value is None):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Null value not supported for topic configs: {','.join(nulls)}",
            )
        resource = ConfigResource(ResourceType.TOPIC, name)
        own = {key: value for key, value in wanted.items() if value is not None}
        return self._checked(resource, own, before={})

    def alter(
        self, resource: ConfigResource, changes: Sequence[ConfigChange]
    ) -> list[ConfigRecord]:
        """Return the records that change some keys of a resource; KafkaError if they cannot."""
        before = self._own(resource)
        after = dict(before)
        for change in changes:
            self._apply(resource, change, after)
        self._check_existence(resource)
        records = self._checked(resource, after, before)
        for change in changes:
            # Taking back what was never set is no change, and still not allowed.
            _check_least_in_sync(resource, change.name, after)
        return records

    def replace(self, resource: ConfigResource, wanted: Mapping[str, str]) -> list[ConfigRecord]:
        """Return the records that make `wanted` all that is set on a resource."""
        before = self._own(resource)
        self._check_existence(resource)
        records = self._checked(resource, wanted, before)
        for name in before.keys() | wanted.keys():
            _check_least_in_sync(resource, name, wanted)
        return records

    def _apply(self, resource: ConfigResource, change: ConfigChange, after: dict[str, str]) -> None:
        if change.operation is AlterOperation.DELETE:
            after.pop(change.name, None)
            return
        value = change.value or ""
        if change.operation is AlterOperation.SET:
            after[change.name] = value
            return
        default = list_default(resource, change.name)
        if default is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                unlisted_message(resource, change.name, change.operation.name),
            )
        now = after.get(change.name)
        items = list(default) if now is None else _items(now)
        for item in _items(value):
            if change.operation is AlterOperation.APPEND and item not in items:
                items.append(item)
            elif change.operation is AlterOperation.SUBTRACT and item in items:
                items.remove(item)
        after[change.name] = ",".join(items)

    def _check_existence(self, resource: ConfigResource) -> None:
        # An ill name is told by its own rule, not as a topic that happens not to be there.
        if resource.type is not ResourceType.TOPIC or resource.name in self._topics.by_name:
            return
        check_resource(resource, {}, self._config)
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
        )

    def _checked(
        self, resource: ConfigResource, after: Mapping[str, str], before: Mapping[str, str]
    ) -> list[ConfigRecord]:
        check_resource(resource, after, self._config)
        changed = [
            _config_record(resource, name, after.get(name))
            for name in sorted(after.keys() | before.keys())
            if after.get(name) != before.get(name)
        ]
        for record in changed:
            if record.value is not None and len(record.value.encode()) > MAX_VALUE_BYTES:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    "The configuration value cannot be added because it exceeds the maximum value "
                    f"size of {MAX_VALUE_BYTES} bytes.",
                )
        return changed

    def replay_remove_topic(self, name: str) -> None:
        """Drop what was set on a topic that is gone; part of replaying its removal."""
        self.by_resource.pop(ConfigResource(ResourceType.TOPIC, name), None)

    def replay_config(self, record: ConfigRecord) -> None:
        """Make one ConfigRecord true; a null value takes the key back."""
        resource = ConfigResource(ResourceType(record.resource_type), record.resource_name)
        own = dict(self._own(resource))
        if record.value is None:
            own.pop(record.name, None)
        else:
            own[record.name] = record.value
        if own:
            self.by_resource[resource] = MappingProxyType(own)
        else:
            self.by_resource.pop(resource, None)
        self._changes.configs.add(resource)

    def images(self) -> dict[ConfigResource, Mapping[str, str]]:
        """Return every resource's settings as others may keep them."""
        return dict(self.by_resource)


def _items(text: str) -> list[str]:
    """Split a list as Java does: spaces stay, empty items at the end go."""
    return text.rstrip(",").split(",")


def _config_record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=int(resource.type), resource_name=resource.name, name=name, value=value
    )


def _check_least_in_sync(resource: ConfigResource, name: str, after: Mapping[str, str]) -> None:
    """Raise unless the least in-sync replicas stay one number for all nodes (KIP-966)."""
    if resource.type is not ResourceType.BROKER or name != MIN_INSYNC_REPLICAS:
        return
    if resource.name:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )
    if MIN_INSYNC_REPLICAS not in after:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )
