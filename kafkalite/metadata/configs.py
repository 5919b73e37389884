"""Settings of topics, brokers, groups and client metrics subscriptions.

One record sets or deletes one key of one resource. Values are validated when they are set and
stored as text; `config` parses them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.metadata.config_rules import (
    MAX_VALUE_BYTES,
    check_resource,
    list_default,
    no_list_error,
)
from kafkalite.metadata.features import (
    ELIGIBLE_LEADER_REPLICAS,
    FIRST_WITH_CORDONED_DIRECTORIES,
    METADATA_VERSION,
)
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.records.config import ConfigRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.metadata.brokers import Brokers
    from kafkalite.metadata.changes import Changes
    from kafkalite.metadata.features import Features
    from kafkalite.metadata.topics import Topics

CORDONED_LOG_DIRS = "cordoned.log.dirs"
MIN_INSYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

_CORDONED_BY_CONTROLLER: Final = (
    "When updating cordoned.log.dirs via controllers,  "
    "the new value must be a subset of the current configuration value."
)


class AlterOperation(IntEnum):
    """Operation on a key, numbered as in IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """An operation on one key of one resource."""

    name: str
    operation: AlterOperation
    value: str | None


class Configs:
    """Settings by resource, each as text by key."""

    __slots__ = ("_brokers", "_changes", "_config", "_features", "_topics", "by_resource")

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        brokers: Brokers,
        features: Features,
        changes: Changes,
    ) -> None:
        self._config = config
        self._brokers = brokers
        self._topics = topics
        self._features = features
        self._changes = changes
        # A resource's settings are replaced as a whole, so that images can share them.
        self.by_resource: dict[ConfigResource, Mapping[str, str]] = {}

    def _values(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.by_resource.get(resource, {})

    def effective_topic_values(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic that decide about its leaders.

        Their defaults are those of the controller, as in Kafka.
        """
        config = self._config.of_controller(self._brokers.active)
        # Changes of this decision are not yet in `config`.
        controller_id = "" if config.node_id is None else str(config.node_id)
        return {
            MIN_INSYNC_REPLICAS: str(config.int(MIN_INSYNC_REPLICAS)),
            UNCLEAN_LEADER_ELECTION: str(config.bool(UNCLEAN_LEADER_ELECTION)).lower(),
            **self._values(ConfigResource(ResourceType.BROKER, "")),
            **self._values(ConfigResource(ResourceType.BROKER, controller_id)),
            **self._values(ConfigResource(ResourceType.TOPIC, topic)),
        }

    def bootstrap_records(self) -> list[ConfigRecord]:
        """Return the setting of a new cluster: the default min.insync.replicas of all nodes.

        KIP-966: eligible leader replicas require the same value on every node, so Kafka moves it
        from the properties file to the metadata.
        """
        all_brokers = ConfigResource(ResourceType.BROKER, "")
        if MIN_INSYNC_REPLICAS in self._values(all_brokers):
            return []
        min_insync_replicas = str(self._config.int(MIN_INSYNC_REPLICAS))
        return [_config_record(all_brokers, MIN_INSYNC_REPLICAS, min_insync_replicas)]

    def eligible_replicas_records(self) -> list[ConfigRecord]:
        """Return the records that the feature of eligible leader replicas needs when it is enabled.

        All nodes get the same min.insync.replicas, and values of single nodes are removed.
        """
        removed = [
            _config_record(resource, MIN_INSYNC_REPLICAS, None)
            for resource, values in self.by_resource.items()
            if resource.type is ResourceType.BROKER
            and resource.name
            and MIN_INSYNC_REPLICAS in values
        ]
        return [*self.bootstrap_records(), *removed]

    def new_topic_records(
        self, name: str, requested: Mapping[str, str | None]
    ) -> list[ConfigRecord]:
        """Return the records that configure a new topic; raises KafkaError for invalid settings."""
        if nulls := sorted(key for key, value in requested.items() if value is None):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                ErrorText.NULL_TOPIC_CONFIG.format(names=",".join(nulls)),
            )
        resource = ConfigResource(ResourceType.TOPIC, name)
        values = {key: value for key, value in requested.items() if value is not None}
        return self._change_records(resource, values, before={})

    def alter(
        self,
        resource: ConfigResource,
        changes: Sequence[ConfigChange],
        *,
        is_forwarded: bool = True,
    ) -> list[ConfigRecord]:
        """Return the records that change some keys of a resource; raises KafkaError if invalid.

        `is_forwarded` is false for a request that a client sends to the controller itself.
        """
        before = self._values(resource)
        after = dict(before)
        for change in changes:
            self._apply_change(resource, change, after)
        self._check_existence(resource)
        records = self._change_records(resource, after, before)
        for change in changes:
            # Deleting a key that is not set has no effect, but its rules are still checked.
            self._check_features(resource, change.name, after)
        if not is_forwarded:
            self._check_cordons(resource, before, after)
        return records

    def replace(
        self, resource: ConfigResource, requested: Mapping[str, str], *, is_forwarded: bool = True
    ) -> list[ConfigRecord]:
        """Return the records that replace all settings of a resource by `requested`."""
        before = self._values(resource)
        self._check_existence(resource)
        records = self._change_records(resource, requested, before)
        for name in before.keys() | requested.keys():
            self._check_features(resource, name, requested)
        if not is_forwarded:
            self._check_cordons(resource, before, requested)
        return records

    def _apply_change(
        self, resource: ConfigResource, change: ConfigChange, after: dict[str, str]
    ) -> None:
        if change.operation is AlterOperation.DELETE:
            after.pop(change.name, None)
            return
        value = change.value or ""
        if change.operation is AlterOperation.SET:
            after[change.name] = value
            return
        default = list_default(resource, change.name, self._config)
        if default is None:
            raise no_list_error(resource, change.name, change.operation.name, self._config)
        current = after.get(change.name)
        items = list(default) if current is None else [item for item in _items(current) if item]
        for item in _items(value):
            if change.operation is AlterOperation.APPEND and item not in items:
                items.append(item)
            elif change.operation is AlterOperation.SUBTRACT and item in items:
                items.remove(item)
        after[change.name] = ",".join(items)

    def _check_features(
        self, resource: ConfigResource, name: str, after: Mapping[str, str]
    ) -> None:
        """Raise KafkaError if the levels of features do not allow the change of a broker setting.

        Cordoned directories need a level of metadata.version (KIP-1066). With eligible leader
        replicas, min.insync.replicas is the same on all nodes (KIP-966).
        """
        if resource.type is not ResourceType.BROKER:
            return
        levels = self._features.levels
        if name == CORDONED_LOG_DIRS and name in self._config.described_keys:
            if levels.get(METADATA_VERSION, 0) < FIRST_WITH_CORDONED_DIRECTORIES:
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    "The cordoned.log.dirs configuration value cannot be set because it requires "
                    "metadata.version >= 4.3-IV0",
                )
        elif name == MIN_INSYNC_REPLICAS and levels.get(ELIGIBLE_LEADER_REPLICAS):
            _check_eligible_leader_replicas(resource, after)

    def _check_cordons(
        self, resource: ConfigResource, before: Mapping[str, str], after: Mapping[str, str]
    ) -> None:
        """Raise KafkaError if the change cordons directories (KIP-1066).

        A controller does not know the directories of the nodes, so its clients can only remove
        some of those that are cordoned.
        """
        is_known = CORDONED_LOG_DIRS in self._config.described_keys
        if resource.type is not ResourceType.BROKER or not is_known:
            return
        before_items, items = (
            {item.strip() for item in values.get(CORDONED_LOG_DIRS, "").split(",")}
            for values in (before, after)
        )
        if items != {""} and not items <= before_items:
            raise KafkaError(ErrorCode.INVALID_CONFIG, _CORDONED_BY_CONTROLLER)

    def _check_existence(self, resource: ConfigResource) -> None:
        # An invalid name is reported as such, not as an unknown topic.
        if resource.type is not ResourceType.TOPIC or resource.name in self._topics.by_name:
            return
        check_resource(resource, {}, self._config, {})
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
        )

    def _change_records(
        self, resource: ConfigResource, after: Mapping[str, str], before: Mapping[str, str]
    ) -> list[ConfigRecord]:
        check_resource(resource, after, self._config, before)
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
        """Remove the settings of a deleted topic; part of replaying its removal."""
        self.by_resource.pop(ConfigResource(ResourceType.TOPIC, name), None)

    def replay_config(self, record: ConfigRecord) -> None:
        """Apply one ConfigRecord; a null value deletes the key."""
        resource = ConfigResource(ResourceType(record.resource_type), record.resource_name)
        values = dict(self._values(resource))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            self.by_resource[resource] = MappingProxyType(values)
        else:
            self.by_resource.pop(resource, None)
        self._changes.changed_resources.add(resource)

    def images(self) -> dict[ConfigResource, Mapping[str, str]]:
        """Return every resource's settings for an image."""
        return dict(self.by_resource)


def _check_eligible_leader_replicas(resource: ConfigResource, after: Mapping[str, str]) -> None:
    """Raise KafkaError if min.insync.replicas would differ between nodes."""
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


def _items(text: str) -> list[str]:
    """Split a list as Java does: spaces are preserved, trailing empty items are dropped."""
    return text.rstrip(",").split(",")


def _config_record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=int(resource.type), resource_name=resource.name, name=name, value=value
    )
