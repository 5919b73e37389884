"""BrokerConfig: the current settings of a broker.

All parts of a broker share one object. A dynamic change replaces the values in it, so later reads
return the new values without notifications.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kafkalite.config.constraints import check_broker_values, check_log_defaults, check_static_text
from kafkalite.config.default_overrides import (
    DEFAULTS_NAMES,
    IDENTITY,
    default_overrides,
    limit_replication,
)
from kafkalite.config.definitions import (
    KNOWN_CLASSES,
    ConfigError,
    ConfigType,
    Value,
    typed,
    value_to_text,
)
from kafkalite.config.group import STICKY_TASK_ASSIGNOR, check_rack_tags, clamp_to_bounds
from kafkalite.config.keys import (
    authorizer_keys,
    broker_keys,
    dynamic_broker_keys,
    group_config_keys,
    group_synonym,
    topic_default_keys,
    topic_keys_without,
)
from kafkalite.config.log_levels import LogLevels
from kafkalite.config.releases import FEATURE_SETTINGS, UNSTABLE_FEATURES, emulated_release
from kafkalite.config.rules import ADDED_BY_4_4
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.config.definitions import ConfigKey
    from kafkalite.config.releases import Release


_NO_KEYS: Final[Mapping[str, ConfigKey]] = MappingProxyType({})

_UNVALIDATED_PREFIXES: Final = ("listener.name.", "rlmm.config.", "rsm.config.")
"""Prefixes of keys that are not validated: they configure one listener or a plug-in."""

_OTHERS_OF_SASL: Final = ("connection.failed.authentication.delay.ms", "connections.max.reauth.ms")

SECRET_KEY: Final = "delegation.token.secret.key"  # noqa: S105 - the name of a setting
"""The setting without which, or with an empty value, there are no delegation tokens."""

SHARE_PERSISTER: Final = "group.share.persister.class.name"
NO_SHARE_PERSISTER: Final = "org.apache.kafka.server.share.persister.NoOpStatePersister"
"""Value of `SHARE_PERSISTER`, as the empty one, with which no state of share groups is stored."""

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""Value of `replica.selector.class` that lets consumers fetch from followers in their rack."""


def strip_listener_prefix(name: str) -> str:
    """Return the key without a listener prefix."""
    if not name.startswith("listener.name."):
        return name
    return name.split(".", 3)[-1]


def is_known_key(name: str, as_version: str | None = None) -> bool:
    """Return whether a properties file may have this key.

    It may have the keys of brokers and of the authorizer, keys with one of `_UNVALIDATED_PREFIXES`,
    and those that a later release than `as_version` removed. Raises ConfigError if that is unknown.
    """
    return (
        name in broker_keys()
        or name in authorizer_keys()
        or name.startswith(_UNVALIDATED_PREFIXES)
        or (as_version is not None and name in _removed_keys(emulated_release(as_version)))
    )


def parse_broker_text(
    text: Mapping[str, str], *, strict: bool, removed: Mapping[str, ConfigKey] = _NO_KEYS
) -> dict[str, Value]:
    """Return parsed values by key; raises ConfigError for an invalid value.

    With `strict`, an unknown key is an error too. `removed` are the keys of the release that 4.4
    does not have.
    """
    keys = broker_keys()
    parsed: dict[str, Value] = {}
    for name, value_text in text.items():
        key = (
            keys.get(strip_listener_prefix(name))
            or authorizer_keys().get(name)
            or removed.get(name)
            or (None if strict else dynamic_broker_keys().get(name))
        )
        if key is not None:
            parsed[name] = key.parse(value_text)
        elif strict and not name.startswith(_UNVALIDATED_PREFIXES):
            raise ConfigError(name, unknown_key_message(name))
        else:
            parsed[name] = value_text
    return parsed


def _check_present(names: Iterable[str], release: Release) -> None:
    """Raise ConfigError for settings of Kafka 4.4 that the release does not have."""
    for name in names:
        if name in ADDED_BY_4_4 and name in release.absent_settings:
            raise ConfigError(name, f"Kafka {release.name} does not have the setting {name}")


def known_settings(text: Mapping[str, str], release: Release) -> Mapping[str, str]:
    """Return the settings without those of later releases.

    A release ignores these, as it ignores all settings that it does not know.
    """
    absent = release.absent_settings
    if not absent:
        return text
    return {
        name: value for name, value in text.items() if strip_listener_prefix(name) not in absent
    }


def _removed_keys(release: Release) -> Mapping[str, ConfigKey]:
    """Return the keys of the release that Kafka 4.4 does not have."""
    if not release.absent_settings:
        return _NO_KEYS
    from kafkalite.config.older_keys import removed_keys  # noqa: PLC0415 - only for older releases

    return removed_keys(release.name)


def _check_feature_levels(values: Mapping[str, Value], release: Release) -> None:
    """Raise ConfigError for a level that the release has not; Kafka formats no such cluster."""
    for name in FEATURE_SETTINGS:
        level = values.get(name)
        if isinstance(level, int) and (problem := release.level_problem(name, level)):
            message = f"Invalid value {level} for configuration {name}: Kafka {release.name}"
            raise ConfigError(name, f"{message} {problem}")


def _check_node_keys(keys: Iterable[str]) -> None:
    from kafkalite.config.node_keys import can_differ, refusal  # noqa: PLC0415 - rarely used

    for key in keys:
        if not can_differ(key):
            raise ConfigError(key, refusal(key))


def is_of_tls(key: str) -> bool:
    """Return whether a key configures TLS, of all listeners or of one."""
    return strip_listener_prefix(key).startswith("ssl.")


def is_of_sasl(key: str) -> bool:
    """Return whether a key configures authentication by SASL, of all listeners or of one."""
    name = strip_listener_prefix(key)
    return name in _OTHERS_OF_SASL or name.startswith("sasl.") or ".sasl." in name


def unknown_key_message(name: str) -> str:
    """Return the error of an unknown key, with a similar one that is known.

    A rate of Kafka that is no setting of properties files is unknown, too.
    """
    if name in dynamic_broker_keys():
        return f"{name} is only a dynamic setting, as kafka-configs --add-config sets it"
    import difflib  # noqa: PLC0415 - imported only for misspelt keys: a start should be fast

    known = (*broker_keys(), *authorizer_keys())
    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    hint = f"; did you mean {matches[0]}?" if matches else ""
    return f"Unknown configuration {name}{hint}"


DynamicCheck = Callable[[Collection[str], Callable[[str], Value]], None]
"""(names, get): raises ConfigError if the values of these changed settings cannot be applied."""


class _ValuesWithDefaults(dict[str, Value]):
    """Values by key; the default of an unset key is cached when it is first read."""

    __slots__ = ()

    def __missing__(self, key: str) -> Value:
        default = self[key] = broker_keys()[key].default
        return default


_PARTITION_EPOCHS: Final = "kafkalite.partition.epochs"


class _Parsed(NamedTuple):
    """The arguments of BrokerConfig, which do not change."""

    static_text: Mapping[str, str]
    default_text: Mapping[str, str]
    static: Mapping[str, Value]
    release: Release


@lru_cache(maxsize=64)
def _parsed(
    given: tuple[tuple[str, str], ...],
    as_version: str | None,
    defaults: str,
    node_count: int,
    *,
    is_strict: bool,
    has_controller: bool,
) -> _Parsed:
    """Parse and check settings; see BrokerConfig.from_text.

    Test suites start many brokers with the same settings.
    """
    text = dict(given)
    release = emulated_release(as_version)
    default_text = {
        **default_overrides(defaults, node_count),
        **limit_replication(release.settings, node_count),
    }
    identity = {**IDENTITY, "process.roles": "broker"} if has_controller else IDENTITY
    static_text = {**identity, **text}
    if is_strict:
        _check_present(static_text, release)
    check_no_plugins(static_text)
    check_static_text(text)
    check_rack_tags("group.streams.rack.aware.assignment.tags", text)
    removed = _removed_keys(release)
    effective = {**default_text, **known_settings(static_text, release)}
    static = parse_broker_text(effective, strict=is_strict, removed=removed)
    if static.get(UNSTABLE_FEATURES) is True:
        release = release.with_unstable_features()
    _check_feature_levels(static, release)
    values = _ValuesWithDefaults(static)
    check_broker_values(values.__getitem__)
    check_log_defaults(values.__getitem__)
    return _Parsed(static_text, default_text, static, release)


class BrokerConfig:
    """Parsed values by Kafka's names, including dynamic ones, with one method per type."""

    __slots__ = (
        "_dynamic_cluster_default",
        "_dynamic_node",
        "_dynamic_nodes",
        "_groups",
        "_node_id",
        "_node_texts",
        "_node_values",
        "_static",
        "_static_text",
        "_values",
        "_views",
        "controller_id",
        "default_text",
        "dynamic_checks",
        "log_levels",
        "offline_log_directories",
        "release",
        "uses_partition_epochs",
    )  # fmt: skip

    def __init__(
        self,
        static_text: Mapping[str, str],
        default_text: Mapping[str, str],
        static: Mapping[str, Value],
        release: Release,
        controller_id: builtins.int | None = None,
    ) -> None:
        self.controller_id = controller_id
        """The id of a controller that is no broker; None if a broker acts as controller."""
        self.release = release
        """The release of Kafka to emulate."""
        self.default_text = default_text
        """The defaults that differ from Kafka 4.4, as text by key."""
        self._static_text = static_text
        self._static = static
        self._values: Mapping[str, Value] = _ValuesWithDefaults(static)
        self.uses_partition_epochs = self._values[_PARTITION_EPOCHS] is True
        """The value of `kafkalite.partition.epochs`, which is needed for every request."""
        self._dynamic_cluster_default: Mapping[str, Value] = {}
        self._dynamic_node: Mapping[str, Value] = {}
        self._dynamic_nodes: Mapping[builtins.int, Mapping[str, Value]] = {}
        self._groups: Mapping[str, Mapping[str, Value]] = {}
        self.log_levels = LogLevels()
        self.dynamic_checks: list[DynamicCheck] = []
        """Checks of dynamic changes by the parts of the broker that apply them."""
        self.offline_log_directories: dict[builtins.int, Collection[str]] = {}
        """Node → those of its log directories that it cannot use."""
        self._node_texts: dict[builtins.int, Mapping[str, str]] = {}
        self._node_values: dict[builtins.int, Mapping[str, Value]] = {}
        self._node_id: builtins.int | None = None
        self._views: dict[builtins.int, BrokerConfig] = {}

    @classmethod
    def from_text(
        cls,
        text: Mapping[str, str] | None = None,
        *,
        strict: bool = True,
        as_version: str | None = None,
        defaults: str = DEFAULTS_NAMES[0],
        node_count: builtins.int = 1,
        controller_id: builtins.int | None = None,
    ) -> BrokerConfig:
        """Return the configuration that `text` sets, over the defaults with this name.

        `node_count` is the number of nodes of the cluster. Raises ConfigError, which has the
        invalid key. Without `strict`, unknown keys are retained, as Kafka does for plug-ins.
        `as_version` selects a release of Kafka, or a service with a profile. `controller_id` is the
        id of a controller that is no broker; then the brokers have no other role by default.
        """
        given = tuple((text or {}).items())
        parsed = _parsed(
            given,
            as_version,
            defaults,
            node_count,
            is_strict=strict,
            has_controller=controller_id is not None,
        )
        return cls(*parsed, controller_id)

    @property
    def node_id(self) -> builtins.int | None:
        """The node whose configuration this is; None for that of the cluster."""
        return self._node_id

    @property
    def topic_keys(self) -> Mapping[str, ConfigKey]:
        """Every key of a topic in the emulated release, by name."""
        release = self.release
        return topic_keys_without(release.absent_settings, has_old_keys=release.has_message_formats)

    @property
    def described_keys(self) -> Mapping[str, ConfigKey]:
        """Every key of a broker in the emulated release, by name."""
        release = self.release
        if not release.absent_settings:
            return broker_keys()
        from kafkalite.config.older_keys import described_keys  # noqa: PLC0415 - as above

        return described_keys(release.name, release.absent_settings)

    @property
    def static_text(self) -> Mapping[str, str]:
        """The settings of the properties file and the identity of the node, as text."""
        return self._static_text

    def set_node_text(
        self, node_id: builtins.int, text: Mapping[builtins.str, builtins.str]
    ) -> None:
        """Set settings of one node, as text, for DescribeConfigs, such as its listeners."""
        self._node_texts[node_id] = {**self._node_texts.get(node_id, {}), **text}

    def configure_node(
        self, node_id: builtins.int, text: Mapping[builtins.str, builtins.str]
    ) -> None:
        """Set values of one node that have precedence over those of all nodes.

        Raises ConfigError for an invalid value, and for a key whose values cannot differ: see
        `node_keys`.
        """
        try:
            values = parse_broker_text(known_settings(text, self.release), strict=True)
            _check_node_keys(text)
            check_no_plugins(text)

            def effective_value(key: builtins.str) -> Value:
                return values[key] if key in values else self.get(key)

            check_broker_values(effective_value)
            check_log_defaults(effective_value)
        except ConfigError as error:
            raise ConfigError(error.key, f"node {node_id}: {error.message}") from error
        self._node_values[node_id] = values
        self.set_node_text(node_id, text)
        if node_id in self._views:
            self._update_view(node_id)

    def has_own_sasl(self, node_id: builtins.int) -> builtins.bool:
        """Return whether a node has a static value of its own for a key of SASL."""
        return any(map(is_of_sasl, self._node_values.get(node_id, ())))

    def has_own_topic_defaults(self, node_id: builtins.int) -> builtins.bool:
        """Return whether defaults of topics may have other values at a node than here."""
        own = self._node_values.get(node_id, {})
        dynamic = self._dynamic_nodes.get(node_id, {})
        if not own and dynamic == self._dynamic_node:
            return False
        return not topic_default_keys().isdisjoint((*own, *dynamic, *self._dynamic_node))

    def of_node(self, node_id: builtins.int) -> BrokerConfig:
        """Return the configuration of one node, which changes as its values change.

        Values of one node have precedence: dynamic ones over those of all nodes, and these over
        static ones.
        """
        if node_id not in self._views:
            view = BrokerConfig(
                self._static_text, self.default_text, self._static, self.release, self.controller_id
            )
            view.log_levels, view.dynamic_checks = self.log_levels, self.dynamic_checks
            view._node_texts, view._node_values = self._node_texts, self._node_values
            view._views, view._node_id = self._views, node_id
            self._views[node_id] = view
            self._update_view(node_id)
        return self._views[node_id]

    def of_controller(self, nodes: Iterable[builtins.int]) -> BrokerConfig:
        """Return the configuration of the controller.

        The one of `nodes` with the smallest id acts as controller if no separate controller does.
        """
        node_id = min(nodes, default=None) if self.controller_id is None else None
        return self if node_id is None else self.of_node(node_id)

    def has_own_value(self, key: builtins.str) -> builtins.bool:
        """Return whether a node has a static or dynamic value of its own for a key."""
        nodes = (*self._node_values.values(), *self._dynamic_nodes.values())
        return any(key in values for values in nodes)

    def _update_view(self, node_id: builtins.int) -> None:
        own = self._node_values.get(node_id, {})
        dynamic = self._dynamic_nodes.get(node_id, {})
        values = self._values
        if own or dynamic != self._dynamic_node:
            layers = {**self._static, **own, **self._dynamic_cluster_default, **dynamic}
            values = _ValuesWithDefaults(layers)
        self._views[node_id]._follow(self, values, dynamic)  # noqa: SLF001 - of the same class

    def _follow(
        self, cluster: BrokerConfig, values: Mapping[str, Value], dynamic: Mapping[str, Value]
    ) -> None:
        """Have these values of a node, and those that all nodes of a cluster share."""
        self._values, self._dynamic_node = values, dynamic
        self._dynamic_cluster_default = cluster._dynamic_cluster_default
        self._dynamic_nodes = cluster._dynamic_nodes
        self._groups = cluster._groups
        self.uses_partition_epochs = cluster.uses_partition_epochs

    def forget_node(self, node_id: builtins.int) -> None:
        """Remove all settings of one node, which is not in the cluster any more."""
        self._node_values.pop(node_id, None)
        self._node_texts.pop(node_id, None)
        if node_id in self._views:
            self._update_view(node_id)

    def node_text(self, node_id: builtins.int) -> Mapping[builtins.str, builtins.str]:
        """Return the text of one node's settings, as in a properties file."""
        identity = {"node.id": f"{node_id}", "broker.id": f"{node_id}"}
        return {**self._static_text, **identity, **self._node_texts.get(node_id, {})}

    def controller_text(
        self, listeners: Mapping[builtins.str, builtins.str]
    ) -> Mapping[builtins.str, builtins.str]:
        """Return the text of the settings of a controller that is no broker.

        `listeners` are its addresses by the names of listeners.
        """
        text = {
            **self._static_text,
            "process.roles": "controller",
            "node.id": f"{self.controller_id}",
            "broker.id": f"{self.controller_id}",
            "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
        }
        text.pop("advertised.listeners", None)
        return text

    def dynamic_keys(self, *, is_per_broker: builtins.bool) -> frozenset[builtins.str]:
        """Return the keys that are set dynamically for the node, or for all nodes."""
        return frozenset(self._dynamic_node if is_per_broker else self._dynamic_cluster_default)

    def value_lookup(
        self, dynamic: Mapping[builtins.str, Value], *, is_per_broker: builtins.bool
    ) -> Callable[[builtins.str], Value]:
        """Return a lookup of values in which `dynamic` replaces one layer of dynamic settings."""
        layers = (
            (self._static, self._dynamic_cluster_default, dynamic)
            if is_per_broker
            else (self._static, dynamic, self._dynamic_node)
        )
        values = _ValuesWithDefaults({key: layer[key] for layer in layers for key in layer})
        values["log.dirs"] = self.log_directories
        return values.__getitem__

    @property
    def log_directories(self) -> tuple[builtins.str, ...]:
        """The log directories in use, or the configured ones if none is in use.

        They are those of the node of this configuration, or of the first node.
        """
        own = None if self._node_id is None else self._node_texts.get(self._node_id, {})
        used = (own or {}).get("log.dirs") or self.node_setting("log.dirs")
        return tuple(used.split(",")) if used else self._static_log_directories

    @property
    def _static_log_directories(self) -> tuple[builtins.str, ...]:
        return self.list("log.dirs") or self.list("log.dir")

    def node_log_directories(self, node_id: builtins.int) -> tuple[builtins.str, ...]:
        """Return the names of a node's log directories; empty if it has the data directory only.

        A node without a value of its own has the directories of all nodes, if there are several.
        """
        own = self._node_values.get(node_id, {})
        for key in ("log.dirs", "log.dir"):
            value = own.get(key)
            if isinstance(value, tuple):
                return value
        names = self._static_log_directories
        return names if len(names) > 1 else ()

    def node_setting(self, key: builtins.str) -> builtins.str:
        """Return a setting of the first node that has it, as text; empty if no node has it."""
        return next((text[key] for text in self._node_texts.values() if key in text), "")

    def get(self, key: builtins.str) -> Value:
        """Return the value of `key` or its default; raises KeyError for an unknown key."""
        return self._values[key]

    def get_if_set(self, key: builtins.str) -> Value:
        """Return the value of `key` without its default; None if it is not set."""
        return self._values.get(key)

    def node_get(self, node_id: builtins.int, key: builtins.str) -> Value:
        """Return the value of `key` for a node; raises KeyError for an unknown key."""
        return self.of_node(node_id).get(key)

    def node_int(self, node_id: builtins.int, key: builtins.str) -> builtins.int:
        """Return a node's value of an integer key; raises TypeError for another type or null."""
        return typed(key, self.node_get(node_id, key), builtins.int, "an integer")

    def node_str_or_none(self, node_id: builtins.int, key: builtins.str) -> builtins.str | None:
        """Return a node's value of a string key, None if it is null; raises TypeError otherwise."""
        value = self.node_get(node_id, key)
        return None if value is None else typed(key, value, builtins.str, "a string")

    def int(self, key: builtins.str) -> builtins.int:
        """Return the value of an integer key; raises TypeError for another type or null."""
        value = self.get(key)
        if not isinstance(value, builtins.int):
            raise TypeError(f"{key} is not an integer")
        return value

    def str(self, key: builtins.str) -> builtins.str:
        """Return the value of a string key; raises TypeError for another type or null."""
        value = self.get(key)
        if not isinstance(value, builtins.str):
            raise TypeError(f"{key} is not a string")
        return value

    def str_or_none(self, key: builtins.str) -> builtins.str | None:
        """Return the value of a string key; None if it is null."""
        return None if self.get(key) is None else self.str(key)

    def bool(self, key: builtins.str) -> builtins.bool:
        """Return the value of a boolean key; raises TypeError if it has another type."""
        return typed(key, self.get(key), builtins.bool, "a boolean")

    def float(self, key: builtins.str) -> builtins.float:
        """Return the value of a double key; raises TypeError if it has another type."""
        return typed(key, self.get(key), builtins.float, "a double")

    def list(self, key: builtins.str) -> tuple[builtins.str, ...]:
        """Return the items of a list key, none if it is null; raises TypeError for another type."""
        value = self.get(key)
        if value is None:
            return ()
        if not isinstance(value, tuple):
            raise TypeError(f"{key} is not a list")
        return value

    def group_get(self, group_id: builtins.str, key: builtins.str) -> Value:
        """Return the group's own setting, else that of its broker synonym, else the default."""
        settings = self._groups.get(group_id)
        if settings is not None and key in settings:
            return clamp_to_bounds(key, settings[key], self)
        synonym = group_synonym(key)
        return group_config_keys()[key].default if synonym is None else self.get(synonym)

    def group_int(self, group_id: builtins.str, key: builtins.str) -> builtins.int:
        """Return an integer setting of a group, such as `consumer.session.timeout.ms`."""
        return typed(key, self.group_get(group_id, key), builtins.int, "an integer")

    def group_list(self, group_id: builtins.str, key: builtins.str) -> tuple[builtins.str, ...]:
        """Return a list setting of a group, such as `streams.rack.aware.assignment.tags`."""
        return typed(key, self.group_get(group_id, key), tuple, "a list")

    def own_group_setting(self, group_id: builtins.str, key: builtins.str) -> Value:
        """Return the group's own setting; None if it has none."""
        return self._groups.get(group_id, {}).get(key)

    def publish(
        self,
        dynamic: Mapping[builtins.str, builtins.str],
        groups: Mapping[builtins.str, Mapping[builtins.str, builtins.str]],
        nodes: Mapping[builtins.int, Mapping[builtins.str, builtins.str]] | None = None,
    ) -> None:
        """Replace all dynamic settings; a key without one gets its static or default value.

        `dynamic` applies to all nodes. `nodes` apply to single nodes and have precedence; what all
        nodes share has the values of the first of `nodes`. Only the metadata controller calls this.
        It has validated the values before it recorded them.
        """
        removed = _removed_keys(self.release)
        self._dynamic_cluster_default, *each_node = (
            parse_broker_text(known_settings(text, self.release), strict=False, removed=removed)
            for text in (dynamic, *(nodes or {}).values())
        )
        self._dynamic_nodes = dict(zip(nodes or {}, each_node, strict=True))
        self._dynamic_node = next(iter(self._dynamic_nodes.values()), {})
        self._values = _ValuesWithDefaults(
            {**self._static, **self._dynamic_cluster_default, **self._dynamic_node}
        )
        self.uses_partition_epochs = self._values[_PARTITION_EPOCHS] is True
        keys = group_config_keys()
        self._groups = {
            group_id: {name: keys[name].parse(text) for name, text in texts.items() if name in keys}
            for group_id, texts in groups.items()
        }
        for node_id in self._views:
            self._update_view(node_id)


_ASSIGNOR_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."

_ALLOWED_CLASSES: Final[Mapping[str, frozenset[str]]] = {
    "authorizer.class.name": frozenset(
        ("org.apache.kafka.metadata.authorizer.StandardAuthorizer",)
    ),
    "config.providers": frozenset(),
    "group.consumer.assignors": frozenset(
        (
            "uniform",
            "range",
            f"{_ASSIGNOR_PACKAGE}UniformAssignor",
            f"{_ASSIGNOR_PACKAGE}RangeAssignor",
        )
    ),
    "group.share.assignors": frozenset(("simple", f"{_ASSIGNOR_PACKAGE}SimpleAssignor")),
    SHARE_PERSISTER: frozenset((NO_SHARE_PERSISTER,)),
    "group.streams.assignors": frozenset((STICKY_TASK_ASSIGNOR,)),
    "replica.selector.class": frozenset((RACK_AWARE_SELECTOR,)),
    "security.providers": frozenset(),
    **KNOWN_CLASSES,
}
"""Key → the classes that it may name, in addition to the default."""

_REMOVED_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"

_TIERED_STORAGE_CLASSES: Final = (
    "remote.log.metadata.manager.class.name",
    "remote.log.storage.manager.class.name",
)
"""Keys with classes that are not loaded, because all data remains in the data directory."""


def check_no_plugins(text: Mapping[str, str]) -> None:
    """Raise ConfigError for a setting that names a class which is not part of Kafka."""
    for name, value in text.items():
        if name == "authorizer.class.name" and value.strip() == _REMOVED_AUTHORIZER:
            (standard,) = _ALLOWED_CLASSES[name]
            raise ConfigError(
                name,
                f"{name} is {_REMOVED_AUTHORIZER}, which needs ZooKeeper and which Kafka 4.0 "
                f"removed: use {standard}",
            )
        for item in _unsupported_classes(name, value):
            advice = "remove this setting"
            if name == "authorizer.class.name":
                (standard,) = _ALLOWED_CLASSES[name]
                advice += f", or use {standard}"
            raise ConfigError(
                name, f"{name} is {item}, but JVM plug-ins are not supported: {advice}"
            )


def _unsupported_classes(name: str, value: str) -> list[str]:
    """Return the classes in a setting that are not part of Kafka."""
    keys = broker_keys()
    key = _strip_listener_and_mechanism(name)
    if key in _TIERED_STORAGE_CLASSES:
        return []
    if key not in _ALLOWED_CLASSES and (key not in keys or keys[key].type is not ConfigType.CLASS):
        return []
    default = (value_to_text(keys[key].default) or "").split(",")
    known = _ALLOWED_CLASSES.get(key, frozenset()).union(default)
    items = (item.strip() for item in value.split(","))
    return [item for item in items if item and item not in known]


def _strip_listener_and_mechanism(name: str) -> str:
    """Return the key that a name configures, without listener and mechanism."""
    if not name.startswith("listener.name."):
        return name
    key = name.split(".", 3)[-1]
    # Callback handlers and logins have a mechanism too: listener.name.LISTENER.MECHANISM.KEY.
    return key if key in broker_keys() else key.partition(".")[2]
