"""The settings of a broker process, and the parsers of their texts."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from kafkalite.config.broker import strip_listener_prefix
from kafkalite.config.default_overrides import DEFAULTS_NAMES, IDENTITY
from kafkalite.config.security_protocols import (
    PROTOCOL_MAP_KEY,
    SecurityProtocol,
    parse_protocol_map,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.addresses import (
    DEFAULT_LISTENERS,
    Address,
    AddressError,
    ListenerSpec,
    check_ports,
    parse_listeners,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.security.certificates import CertificateFiles
    from kafkalite.security.sasl.users import User
    from kafkalite.server.declared_data import DeclaredState

_UNSUPPORTED = {
    "remote.log.storage.system.enable": (
        "false",
        "tiered storage is not supported: no storage manager is loaded, and all data is local",
    ),
}
"""Key → its default value, and the consequence of any other value."""


SECRET_KEY_PARTS = ("password", "secret", "jaas.config", "keystore.key")
"""Parts of the names of settings whose values are secret."""

_OF_MACHINE = ("listener", "log.dir", "location", "oauthbearer")
"""Parts of the names of settings with addresses and files."""

_MAX_LISTED_NODES = 5

DEFAULT_MAX_CLUSTERS = 100
"""The number of clusters up to which clients start others."""


class SettingsError(ValueError):
    """Settings that the broker cannot run with; the text is one line."""


class Routed(NamedTuple):
    """The listeners of a cluster whose clients connect to another cluster of this process."""

    specs: Mapping[int, Sequence[ListenerSpec]]
    """The listeners by node id."""
    certificate_files: CertificateFiles | None = None
    """The generated certificates of the other cluster."""


class Settings(NamedTuple):
    """The settings of a broker process: listeners, nodes, data directory, topics.

    `config` holds broker settings by Kafka's names. Its `listeners`, `advertised.listeners` and
    `log.dirs` are used where `listen`, `advertise` and `data_directory` are not given; its
    `node.id` is the id of the first node. `node_config` holds settings of single nodes by node id.
    `as_version` is the Kafka release or the service to emulate; `defaults` selects the default
    values of settings.
    `users` can authenticate on listeners with SASL.
    `tls` is "auto" or "auto:DIRECTORY": certificates are generated; None: they are not.
    `cluster_id` is the id of the cluster; None: a new cluster has a random id.
    `controller_id` is the id of a controller that is no broker; None: a broker is the controller.
    `controller_listen` is the address of a listener for clients of the controller. Without it,
    `controller_advertise` is the address at which others listen for clients of the controller.
    `request_log` is the number of requests that are logged from the start; None: none are logged
    until they are asked for.
    `seed` defines all random values; None: they are different in each run.
    `expected_brokers` is the number of nodes that the cluster will have, with those that join it
    later. `is_relayed` says whether another process listens for the clients of the nodes.
    `is_in_memory` says whether the data is in memory, of which it uses at most `memory_limit`
    bytes; None: half of the memory of the machine or container.
    `clusters` is how clients name one of several clusters of the process, by "client-id" or "sni";
    None: each cluster has ports of its own. Clients start at most `max_clusters`. A cluster without
    connections is stopped after `cluster_idle_timeout` seconds; None: never. Each may have
    `cluster_memory_limit` bytes of its own. `routed` are the listeners of such a cluster.
    `keeps_history` says whether internal topics are not compacted. `pace` is "kafka" for the delays
    of a real Kafka; None: there are none. `state` is what a new cluster contains.
    """

    listen: Sequence[str] = ()
    advertise: Sequence[str] = ()
    controller_listen: str | None = None
    controller_advertise: str | None = None
    brokers: int = 1
    data_directory: str | None = None
    topics: Mapping[str, int] = MappingProxyType({})
    config: Mapping[str, str] = MappingProxyType({})
    node_config: Mapping[int, Mapping[str, str]] = MappingProxyType({})
    as_version: str | None = None
    defaults: str = DEFAULTS_NAMES[0]
    users: Sequence[User] = ()
    tls: str | None = None
    cluster_id: str | None = None
    request_log: int | None = None
    seed: int | None = None
    expected_brokers: int = 1
    is_relayed: bool = False
    is_in_memory: bool = False
    memory_limit: int | None = None
    controller_id: int | None = None
    clusters: str | None = None
    max_clusters: int = DEFAULT_MAX_CLUSTERS
    cluster_idle_timeout: int | None = None
    cluster_memory_limit: int | None = None
    routed: Routed | None = None
    keeps_history: bool = False
    pace: str | None = None
    state: DeclaredState | None = None

    @property
    def node_ids(self) -> range:
        """The ids of the nodes; raises SettingsError if they are invalid."""
        text = self.config.get("node.id", self.config.get("broker.id", "1")).strip()
        if not text.isascii() or not text.isdigit():
            raise SettingsError(f"node.id must be an integer of at least 0, not {text!r}")
        if self.brokers < 1:
            raise SettingsError(f"a cluster needs at least one broker, not {self.brokers}")
        return range(int(text), int(text) + self.brokers)

    @property
    def node_count(self) -> int:
        """The number of nodes, with those that join later."""
        return max(self.brokers, self.expected_brokers)

    def check_node_config(self) -> None:
        """Raise SettingsError if `node_config` has a node that the cluster does not have."""
        node_ids = self.node_ids
        for node_id in self.node_config:
            if node_id not in node_ids:
                known = ", ".join(map(str, node_ids[:_MAX_LISTED_NODES]))
                more = ", …" if len(node_ids) > _MAX_LISTED_NODES else ""
                raise SettingsError(
                    f"--node-config has node {node_id!r}, but the nodes are {known}{more}"
                )

    def check_controller_id(self) -> None:
        """Raise SettingsError if the id of the controller is that of a broker."""
        node_ids = self.node_ids
        if self.controller_id in node_ids:
            brokers = f"{node_ids[0]}" if len(node_ids) == 1 else f"{node_ids[0]} to {node_ids[-1]}"
            raise SettingsError(
                f"--controller-id {self.controller_id} is the id of a broker: use an id other than "
                f"{brokers}, such as 3000"
            )

    def check_storage(self) -> None:
        """Raise SettingsError if the options for data in memory and on disk contradict."""
        if self.is_in_memory and self.data_directory is not None:
            raise SettingsError(
                f"the data cannot be in memory and in the directory {self.data_directory}: use "
                "--memory or --data-dir"
            )
        if self.memory_limit is not None and not self.is_in_memory:
            raise SettingsError("--memory-limit needs --memory, which keeps the data in memory")

    def check_users(self, listeners: Iterable[ListenerSpec]) -> None:
        """Raise SettingsError if there are users, but no listener on which they authenticate."""
        if self.users and not any(spec.protocol.uses_sasl for spec in listeners):
            raise SettingsError(
                "users (--user) need a listener with SASL, such as "
                "--listen SASL_PLAINTEXT://127.0.0.1:9092"
            )

    @property
    def listeners(self) -> tuple[ListenerSpec, ...]:
        """The listeners of each node; raises AddressError or SettingsError."""
        if self.routed is not None:
            return tuple(next(iter(self.routed.specs.values())))
        if not self.listen:
            self._check_listener_names()
        listen = self.listen or self._client_listeners("listeners")
        advertise = self.advertise or self._client_listeners("advertised.listeners")
        specs = parse_listeners(listen, advertise)
        if self.is_relayed:
            specs = tuple(spec._replace(is_relayed=True) for spec in specs)
        controller = self.controller_listen or self.controller_advertise
        if controller is not None:
            specs = (*specs, self._controller_listener(controller, specs))
        check_ports(specs, self.brokers)
        specs = tuple(spec._replace(protocol=self._protocol_of(spec.name)) for spec in specs)
        self._check_controller_is_secured(specs)
        return specs

    @property
    def listeners_of_nodes(self) -> Mapping[int, Sequence[ListenerSpec]]:
        """The listeners of nodes that have addresses of their own, by node id.

        Raises AddressError or SettingsError.
        """
        specs = self.listeners if self.node_config else ()
        return {
            node_id: self._own_listeners(node_id, specs, index)
            for index, node_id in enumerate(self.node_ids)
            if specs and self.routed is None and _has_addresses(self.node_config.get(node_id, {}))
        }

    def _own_listeners(
        self, node_id: int, specs: Sequence[ListenerSpec], index: int
    ) -> Sequence[ListenerSpec]:
        listen, advertised = (
            self._own_addresses(node_id, key, specs)
            for key in ("listeners", "advertised.listeners")
        )
        own = []
        for spec in specs:
            if listen and spec.name not in listen and not spec.is_for_controllers:
                raise SettingsError(
                    f"node {node_id}: listeners lacks {spec.name}, but all nodes have the same "
                    "listeners"
                )
            address = listen.get(spec.name) or spec.listen_address.with_port_offset(index)
            of_all = None if listen else spec.advertised
            if of_all is not None:
                of_all = of_all.with_port_offset(index)
            advertised_address = advertised.get(spec.name, of_all)
            own.append(spec._replace(listen_address=address, advertised=advertised_address))
        return own

    def _own_addresses(
        self, node_id: int, key: str, specs: Sequence[ListenerSpec]
    ) -> Mapping[str, Address]:
        """Return the addresses by the names of listeners that a node has under a key."""
        names = [each.name for each in specs]
        addresses: dict[str, Address] = {}
        for text in self.node_config[node_id].get(key, "").split(","):
            if text.strip():
                address = Address.parse(text.strip())
                if address.listener not in names and address.listener in self._controllers:
                    raise SettingsError(
                        f"node {node_id}: {key} has {text.strip()}, but no node has a listener for "
                        "clients of the controller: add --controller-listen HOST:PORT"
                    )
                if address.listener not in names or address.listener in addresses:
                    raise SettingsError(
                        f"node {node_id}: {key} has {text.strip()}: write each listener once, "
                        f"with its name, such as {names[0]}://{address.host}:{address.port}"
                    )
                addresses[address.listener] = address
        return addresses

    @property
    def _controllers(self) -> Sequence[str]:
        """The names of the listeners of controllers."""
        key = "controller.listener.names"
        return self._items(key) or [IDENTITY[key]]

    def _controller_listener(self, text: str, others: Iterable[ListenerSpec]) -> ListenerSpec:
        """Return the listener for clients of the controller; raises AddressError."""
        address = Address.parse(text)
        name = self._controllers[0].upper()
        if address.listener not in (None, name):
            raise AddressError(
                f"{text!r}: the listener of the controller has the name {name}, the first of "
                "controller.listener.names"
            )
        if name in (other.name for other in others):
            raise AddressError(f"listener {name} is given twice")
        spec = ListenerSpec(name, address, is_for_controllers=True)
        if self.controller_listen is None:
            spec = spec._replace(advertised=address, is_relayed=True)
        return spec

    def _check_controller_is_secured(self, specs: Iterable[ListenerSpec]) -> None:
        """Raise SettingsError if the controller's listener needs a security protocol and has none.

        As in Kafka, it is plain text by default only if no other listener is secured. Otherwise it
        would bypass the authentication of clients.
        """
        named = parse_protocol_map(self.config.get(PROTOCOL_MAP_KEY, ""))
        is_secured = any(spec.protocol is not SecurityProtocol.PLAINTEXT for spec in specs)
        for spec in specs:
            is_chosen = spec.name in named or spec.name in SecurityProtocol.__members__
            if spec.is_for_controllers and is_secured and not is_chosen:
                raise SettingsError(
                    f"No security protocol defined for listener {spec.name}: other listeners are "
                    f"secured, so add {spec.name} to {PROTOCOL_MAP_KEY}"
                )

    def _protocol_of(self, listener: str) -> SecurityProtocol:
        """Return the security protocol of a listener; raises SettingsError.

        A listener that is given by option may have a name without a protocol. It is not secured.
        """
        try:
            protocols = parse_protocol_map(self.config.get(PROTOCOL_MAP_KEY, ""))
        except ValueError as error:
            raise SettingsError(str(error)) from error
        named = SecurityProtocol.__members__.get(listener, SecurityProtocol.PLAINTEXT)
        return protocols.get(listener, named)

    @property
    def log_directory(self) -> str | None:
        """The data directory, None for data in memory and for a private temporary directory.

        It is the first one of `log.dirs`, unless another one is given.
        """
        if self.is_in_memory:
            return None
        if self.data_directory is not None:
            return self.data_directory
        return next(iter(self._log_directories), None)

    @property
    def named_log_directories(self) -> Sequence[str]:
        """The log directories without files: all but the first one, which has all data."""
        is_first_used = not self.is_in_memory and self.data_directory is None
        names = self._log_directories if is_first_used else ()
        return [each for each in names[1:] if each != names[0]]

    @property
    def _log_directories(self) -> Sequence[str]:
        text = self.config.get("log.dirs", self.config.get("log.dir", ""))
        return [path.strip() for path in text.split(",") if path.strip()]

    @property
    def tls_directory(self) -> str | None:
        """The directory for certificates that are made, None for a temporary directory.

        Raises SettingsError.
        """
        directory = (self.tls or "").partition(":")[2]
        return directory or self.log_directory

    @property
    def unsupported(self) -> Mapping[str, str]:
        """Settings that are not supported but do not prevent serving: key → consequence."""
        return {
            key: consequence
            for key, (default, consequence) in _UNSUPPORTED.items()
            if self.config.get(key, default).strip().lower() != default
        }

    def _client_listeners(self, key: str) -> list[str]:
        """Return the addresses under `key`, without those of the controller."""
        controllers = set(self._items("controller.listener.names"))
        return [text for text in self._items(key) if text.partition("://")[0] not in controllers]

    def _items(self, key: str) -> list[str]:
        items = (item.strip() for item in self.config.get(key, "").split(","))
        return [item for item in items if item]

    def _listener_names(self, key: str) -> list[str]:
        """Return the names of the listeners under `key`, in upper case as in Kafka."""
        return [text.partition("://")[0].upper() for text in self._items(key)]

    def _check_listener_names(self) -> None:
        """Check that settings with listener names are consistent, as Kafka does.

        Listeners that are given by option are not checked: they replace the listeners of a file and
        their names.
        """
        controllers = [name.upper() for name in self._items("controller.listener.names")]
        names = self._listener_names("listeners") or [DEFAULT_LISTENERS[0].name]
        if self._items("process.roles") == ["broker"] and not set(names).isdisjoint(controllers):
            raise SettingsError(
                "controller.listener.names must not contain a value appearing in listeners when "
                "process.roles is just broker"
            )
        known_names = {*SecurityProtocol.__members__, *controllers}
        if PROTOCOL_MAP_KEY in self.config:
            known_names = {pair.partition(":")[0].upper() for pair in self._items(PROTOCOL_MAP_KEY)}
        for name in names:
            if name not in known_names:
                raise SettingsError(f"No security protocol defined for listener {name}")
        for name in self._items("early.start.listeners"):
            if name.upper() not in (*names, *controllers):
                raise SettingsError(
                    f"early.start.listeners contains listener {name}, but this is not contained in "
                    "listeners or controller.listener.names"
                )
        advertised = self._listener_names("advertised.listeners") or names
        protocol = self.config.get(
            "security.inter.broker.protocol", SecurityProtocol.PLAINTEXT.value
        )
        inter_broker = self.config.get("inter.broker.listener.name", protocol).strip().upper()
        if inter_broker not in (name for name in advertised if name not in controllers):
            raise SettingsError(
                "inter.broker.listener.name must be a listener name defined in "
                f"advertised.listeners, not {inter_broker!r}: set it to one of "
                f"{', '.join(name for name in advertised if name not in controllers)}"
            )
        addresses = self._client_listeners("advertised.listeners") or self._client_listeners(
            "listeners"
        )
        if any(Address.parse(text).host == "0.0.0.0" for text in addresses):  # noqa: S104 - not bound
            raise SettingsError(
                "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. "
                "Use a routable IP address."
            )


def names_key_store(config: Iterable[str]) -> str | None:
    """Return the first setting of a key store, of all listeners or of one; None without one."""
    return next((key for key in config if _is_of_key_store(strip_listener_prefix(key))), None)


def _is_of_key_store(key: str) -> bool:
    return key.startswith(("ssl.keystore.", "ssl.key.password"))


def shareable_config(config: Mapping[str, str]) -> dict[str, str]:
    """Return settings without secrets, and without those of the machine."""
    return {
        key: value
        for key, value in config.items()
        if not any(part in key for part in (*SECRET_KEY_PARTS, *_OF_MACHINE))
    }


def without_secret(text: str) -> str:
    """Return the text of a setting, even an invalid one, without a secret after its name."""
    for part in SECRET_KEY_PARTS:
        before, found, after = text.partition(part)
        if found and after:
            return f"{before}{found}…"
    return text


def parse_topics(texts: Iterable[str]) -> dict[str, int]:
    """Return partition counts by topic from texts such as `orders:3`; raises SettingsError."""
    topics: dict[str, int] = {}
    for text in texts:
        name, colon, count = text.rpartition(":")
        if not colon or not name or not count.isascii() or not count.isdigit() or not int(count):
            raise SettingsError(
                f"--topic {text!r}: write NAME:PARTITIONS, with at least one partition"
            )
        if topics.setdefault(name, int(count)) != int(count):
            raise SettingsError(f"--topic {text!r}: {name} has {topics[name]} already")
    return topics


def parse_config(texts: Iterable[str]) -> dict[str, str]:
    """Return broker configurations from texts such as `num.partitions=3`; raises SettingsError."""
    config: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SettingsError(f"--config {without_secret(text)!r}: write KEY=VALUE")
        config[key.strip()] = value.strip()
    return config


def _has_addresses(config: Mapping[str, str]) -> bool:
    return not config.keys().isdisjoint(("listeners", "advertised.listeners"))


def parse_node_config(texts: Iterable[str]) -> dict[int, dict[str, str]]:
    """Return configurations by node id from texts such as `2:broker.rack=b`.

    Raises SettingsError.
    """
    by_node: dict[int, dict[str, str]] = {}
    for text in texts:
        node_id, colon, setting = text.partition(":")
        node_id = node_id.strip()
        key, equals, value = setting.partition("=")
        has_id = node_id.isascii() and node_id.isdigit()
        if not colon or not has_id or not equals or not key.strip():
            raise SettingsError(f"--node-config {without_secret(text)!r}: write ID:KEY=VALUE")
        by_node.setdefault(int(node_id), {})[key.strip()] = value.strip()
    return by_node


def parse_users(texts: Iterable[str]) -> list[User]:
    """Return users from texts such as `alice:secret`; raises SettingsError."""
    if not texts:
        return []
    from kafkalite.security.sasl import users  # noqa: PLC0415 - rarely used

    try:
        return users.parse_users(texts)
    except users.UserError as error:
        raise SettingsError(f"--user: {error}") from None
