"""The start of a broker that the environment of another Kafka image describes.

The translation is pure: files and mount points are read by functions of the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.docker.credentials import (
    Credential,
    add_key_stores,
    add_logins,
    with_secret_files,
)
from kafkalite.docker.listeners import (
    LISTENERS,
    complete_listeners,
    controller_addresses,
    security_protocols,
)
from kafkalite.docker.membership import BROKERS, Membership, membership_of, roles_of
from kafkalite.docker.properties import ALONE, Properties, VariableError, read_properties
from kafkalite.docker.topics import TopicToCreate, topics_to_create
from kafkalite.docker.variables import (
    AUTHORIZER,
    DATA_DIRECTORIES,
    REPLICATION_PROPERTIES,
    ZOOKEEPER_AUTHORIZERS,
)
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.uuids import is_cluster_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafkalite.server.addresses import Address

_LISTEN: Final = "KAFKALITE_LISTEN"
_CLUSTER_ID_VARIABLES: Final = ("CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID", "KAFKA_CLUSTER_ID")
_LEVELS: Final = {
    "TRACE": "debug",
    "DEBUG": "debug",
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
    "FATAL": "error",
    "OFF": "error",
}
"""Level of Log4j → the value of `--log-level`."""
_LEVEL_VARIABLE: Final = "KAFKA_LOG4J_ROOT_LOGLEVEL"
_AUTHORIZER_KEY: Final = "authorizer.class.name"


class Container(NamedTuple):
    """Everything that a translation reads.

    `mounted` has the properties of a mounted file, and `formatted` the users that
    `kafka-storage format` added. `read_text` returns the content of a file, None if it does not
    exist. `is_mounted` returns whether a volume is mounted at a path. `real_path` returns the path
    at which the broker finds a file of the image.
    """

    environment: Mapping[str, str]
    hostname: str
    read_text: Callable[[str], str | None]
    is_mounted: Callable[[str], bool]
    mounted: Mapping[str, str] = {}
    formatted: Sequence[Credential] = ()
    real_path: Callable[[str], str] = str


class Translation(NamedTuple):
    """The start of a broker: its settings, and one line for each variable without effect."""

    config: Mapping[str, str]
    variables: Mapping[str, str]
    """Property → the variable that sets it."""
    users: tuple[Credential, ...] = ()
    topics: tuple[TopicToCreate, ...] = ()
    cluster_id: str | None = None
    data_directory: str | None = None
    log_level: str | None = None
    notices: tuple[str, ...] = ()
    is_controller_only: bool = False
    """Whether the node of the environment is no broker, so that no client connects to it."""
    controllers: tuple[Address, ...] = ()
    """The addresses at which a node of several containers listens for controllers."""
    membership: Membership | None = None
    """The cluster of several containers to which this one belongs; None if it is a cluster."""

    @property
    def has_listeners(self) -> bool:
        """Whether the environment has listeners."""
        return LISTENERS in self.config


def translate(container: Container) -> Translation:
    """Return the start that an environment describes; raises VariableError if it is invalid."""
    environment = with_secret_files(container.environment, container.read_text)
    nodes = _node_count(environment)
    properties = read_properties(environment, container.mounted)
    _set_node_id(properties)
    membership = membership_of(properties, environment, container.hostname)
    if roles_of(properties) == {"controller"}:
        return _controller(properties, environment, container, membership)
    if membership is None:
        _check_size(properties, nodes)
    _replace_authorizer(properties)
    complete_listeners(properties, environment, container.hostname)
    if properties.values.get(LISTENERS) and environment.get(_LISTEN, "").strip():
        raise VariableError(
            f"{_LISTEN} and {properties.variable_of(LISTENERS)} both set the listeners: remove one"
        )
    add_key_stores(properties, environment, container.read_text, container.real_path)
    users = add_logins(properties, environment, container.read_text)
    formatted, user_notices = _formatted_users(properties, container)
    cluster_id, notices = _cluster_id(environment)
    return Translation(
        properties.values,
        properties.variables,
        tuple(_distinct((*users, *formatted))),
        tuple(topics_to_create(environment, nodes if membership is None else None)),
        cluster_id,
        _data_directory(properties, container),
        _log_level(environment),
        (*_notices(properties, membership), *notices, *user_notices),
        controllers=() if membership is None else controller_addresses(properties),
        membership=membership,
    )


def _controller(
    properties: Properties,
    environment: Mapping[str, str],
    container: Container,
    membership: Membership | None,
) -> Translation:
    """Return the start of a container with a controller, but without a broker."""
    cluster_id, notices = _cluster_id(environment)
    controllers = () if membership is None else controller_addresses(properties)
    # A primary is no broker, but serves clients of the controller.
    prefixes = tuple(f"listener.name.{(each.listener or '').lower()}." for each in controllers)
    return Translation(
        {key: text for key, text in properties.values.items() if key.startswith(prefixes)},
        properties.variables,
        cluster_id=cluster_id,
        data_directory=None if membership is None else _data_directory(properties, container),
        log_level=_log_level(environment),
        notices=(*_notices(properties, membership), *notices),
        is_controller_only=True,
        controllers=controllers,
        membership=membership,
    )


def _notices(properties: Properties, membership: Membership | None) -> Sequence[str]:
    """Return the notices; one says that a container is a cluster of its own if it is one."""
    if membership is None:
        return properties.notices
    return [text.replace(ALONE, "") for text in properties.notices]


def _node_count(environment: Mapping[str, str]) -> int:
    text = environment.get(BROKERS, "").strip()
    return int(text) if text.isascii() and text.isdigit() else 1


def _set_node_id(properties: Properties) -> None:
    """Use `broker.id` as `node.id`; -1 lets Kafka choose an id.

    Raises VariableError if both are set to different values.
    """
    broker_id = properties.values.pop("broker.id", "-1").strip()
    node_id = properties.values.get("node.id", broker_id).strip()
    if broker_id not in ("-1", node_id):
        raise VariableError(
            f"{properties.variable_of('broker.id')} is {broker_id}, but "
            f"{properties.variable_of('node.id')} is {node_id}: give both the same value"
        )
    if node_id != "-1":
        properties.values["node.id"] = node_id
        properties.variables.setdefault("node.id", properties.variable_of("broker.id"))


def _check_size(properties: Properties, nodes: int) -> None:
    """Refuse more replicas than this container has nodes, if it is the whole cluster."""
    for key in REPLICATION_PROPERTIES:
        value = properties.values.get(key, "").strip()
        if value.isascii() and value.isdigit() and int(value) > nodes:
            raise VariableError(
                f"{properties.variable_of(key)}={value} needs {value} nodes, but there are "
                f"{nodes}: set it to {nodes}, or set {BROKERS} to the number of nodes"
            )


def _replace_authorizer(properties: Properties) -> None:
    if properties.values.get(_AUTHORIZER_KEY) in ZOOKEEPER_AUTHORIZERS:
        properties.values[_AUTHORIZER_KEY] = AUTHORIZER


def _distinct(users: Sequence[Credential]) -> Iterator[Credential]:
    """Yield each user once: one for all mechanisms includes one for a single mechanism."""
    general = {user.name: user.password for user in users if user.mechanism is None}
    for user in dict.fromkeys(users):
        if user.mechanism is None or general.get(user.name) != user.password:
            yield user


def _formatted_users(
    properties: Properties, container: Container
) -> tuple[Sequence[Credential], list[str]]:
    """Return the users that `kafka-storage format` added, and a notice if none can log in."""
    protocols = security_protocols(properties).values()
    if not container.formatted or not protocols or any(each.uses_sasl for each in protocols):
        return container.formatted, []
    return (), ["the users of kafka-storage format have no effect: no listener has SASL"]


def _cluster_id(environment: Mapping[str, str]) -> tuple[str | None, list[str]]:
    """Return the id of the cluster, and a notice if it cannot be used."""
    given = {
        name: environment[name].strip()
        for name in _CLUSTER_ID_VARIABLES
        if environment.get(name, "").strip()
    }
    if environment.get("KAFKALITE_CLUSTER_ID", "").strip() or not given:
        return None, []
    if len(set(given.values())) > 1:
        raise VariableError(f"{' and '.join(given)} are different: remove all but one")
    name, text = next(iter(given.items()))
    # Some programs write the id in standard base64, with padding.
    cluster_id = text.rstrip("=").translate(str.maketrans("+/", "-_"))
    if is_cluster_id(cluster_id):
        return cluster_id, []
    return None, [
        f"{name} has no effect: {text!r} is not a UUID in base64, such as 5L6g3nShT-eMCtK--X86sw"
    ]


def _data_directory(properties: Properties, container: Container) -> str | None:
    """Return the data directory of an image whose volume is mounted; None if others apply."""
    if {"log.dirs", "log.dir"} & properties.values.keys():
        return None
    given = ("KAFKALITE_DATA_DIR", "KAFKALITE_SNAPSHOT")
    if any(container.environment.get(name, "").strip() for name in given):
        return None
    return next((path for mount, path in DATA_DIRECTORIES if container.is_mounted(mount)), None)


def _log_level(environment: Mapping[str, str]) -> str | None:
    text = environment.get(_LEVEL_VARIABLE, "").strip().upper()
    if text and text not in _LEVELS:
        raise VariableError(f"{_LEVEL_VARIABLE} is one of {', '.join(_LEVELS)}, not {text!r}")
    return _LEVELS.get(text)
