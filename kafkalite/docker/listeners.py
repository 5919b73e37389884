"""Listeners of a broker from the properties in the environment of a container."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kafkalite.config.security_protocols import (
    PROTOCOL_MAP_KEY,
    SecurityProtocol,
    parse_protocol_map,
)
from kafkalite.docker.properties import Properties, VariableError
from kafkalite.docker.variables import BITNAMI_DEFAULTS, CONFLUENT_LOCAL_DEFAULTS
from kafkalite.server.addresses import Address, AddressError

if TYPE_CHECKING:
    from collections.abc import Mapping

LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
CONTROLLERS: Final = "controller.listener.names"

_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - the container's own network
_UNREACHABLE: Final = frozenset((_EVERY_ADDRESS, "::", "*"))
_ADVERTISED_HOST: Final = "KAFKA_ADVERTISED_HOST_NAME"
_ADVERTISED_PORT: Final = "KAFKA_ADVERTISED_PORT"
_HOST_COMMAND: Final = "HOSTNAME_COMMAND"
_HOST: Final = re.compile(r"[\w.:%-]*")
"""Characters of host names and IP addresses."""
_OWN_LISTENERS: Final = "KAFKALITE_LISTEN"
_DEFAULT_PORT: Final = "9092"
_EXAMPLE: Final = "PLAINTEXT://localhost:9092"


def complete_listeners(
    properties: Properties, environment: Mapping[str, str], hostname: str
) -> None:
    """Set `listeners` and `advertised.listeners` as the scripts of the images do.

    Without either of them, the properties remain without listeners. An address without a host
    gets the name of the container. Raises VariableError for addresses that cannot be served.
    """
    _add_legacy_address(properties, environment)
    has_own = bool(environment.get(_OWN_LISTENERS, "").strip())
    if properties.uses_bitnami and LISTENERS not in properties.values and not has_own:
        _add_bitnami_listeners(properties)
    if properties.uses_bitnami:
        for key in (CONTROLLERS, PROTOCOL_MAP_KEY):
            properties.values.setdefault(key, BITNAMI_DEFAULTS[key])
    _add_confluent_local_names(properties)
    advertised = _addresses(properties, ADVERTISED)
    if advertised and LISTENERS not in properties.values:
        texts = [_text(each._replace(host=_EVERY_ADDRESS)) for each in advertised.values()]
        properties.values[LISTENERS] = ",".join(texts)
    listeners = _addresses(properties, LISTENERS)
    if not listeners and _items(properties, LISTENERS):
        raise VariableError(
            f"{properties.variable_of(LISTENERS)} has only listeners of controllers: add one for "
            f"clients, such as PLAINTEXT://:{_DEFAULT_PORT}"
        )
    if not listeners:
        return
    _check_protocols(properties, listeners)
    _advertise(properties, listeners, advertised, hostname)


def _add_legacy_address(properties: Properties, environment: Mapping[str, str]) -> None:
    """Use the address of wurstmeister/kafka; without a host, it has the container's name."""
    if ADVERTISED in properties.values:
        return
    host = environment.get(_ADVERTISED_HOST, "").strip()
    port = environment.get(_ADVERTISED_PORT, "").strip()
    if not host and environment.get(_HOST_COMMAND, "").strip():
        raise VariableError(
            f"{_HOST_COMMAND} is not run here: set {_ADVERTISED_HOST} to a host that clients reach"
        )
    if not host and not port:
        return
    if port and not (port.isascii() and port.isdigit()):
        raise VariableError(f"{_ADVERTISED_PORT}: {port!r} is not the number of a port")
    variable = _ADVERTISED_HOST if host else _ADVERTISED_PORT
    properties.set(ADVERTISED, f"PLAINTEXT://{host}:{port or _DEFAULT_PORT}", variable)
    if LISTENERS not in properties.values:
        properties.values[LISTENERS] = f"PLAINTEXT://{_EVERY_ADDRESS}:{_DEFAULT_PORT}"


def _add_bitnami_listeners(properties: Properties) -> None:
    """Listen on port 9092 if only PLAINTEXT is advertised; else on the advertised ports."""
    names = {text.partition("://")[0] for text in _items(properties, ADVERTISED)}
    if names <= {"PLAINTEXT"}:
        properties.values[LISTENERS] = BITNAMI_DEFAULTS[LISTENERS]


def _add_confluent_local_names(properties: Properties) -> None:
    """Set the names of confluent-local if a listener CONTROLLER has neither role nor protocol."""
    names = {text.partition("://")[0] for text in _items(properties, LISTENERS)}
    if "CONTROLLER" in names and CONFLUENT_LOCAL_DEFAULTS.keys().isdisjoint(properties.values):
        properties.values.update(CONFLUENT_LOCAL_DEFAULTS)


def _items(properties: Properties, key: str) -> list[str]:
    return [item.strip() for item in properties.values.get(key, "").split(",") if item.strip()]


def _addresses(properties: Properties, key: str) -> dict[str, Address]:
    """Return the client addresses of a property by listener; raises VariableError."""
    variable = properties.variable_of(key)
    controllers = {name.upper() for name in _items(properties, CONTROLLERS)}
    addresses: dict[str, Address] = {}
    for text in _items(properties, key):
        try:
            address = Address.parse(text)
        except AddressError as error:
            raise VariableError(f"{variable}: {error}; valid is NAME://HOST:PORT,…") from None
        if address.listener is None:
            raise VariableError(f"{variable}: {text!r} has no listener name: write {_EXAMPLE}")
        if address.listener in addresses:
            raise VariableError(f"{variable} has two addresses of the listener {address.listener}")
        if address.listener not in controllers:
            addresses[address.listener] = address
    return addresses


def _text(address: Address) -> str:
    return f"{address.listener}://{address}"


def _check_protocols(properties: Properties, listeners: Mapping[str, Address]) -> None:
    variable = properties.variable_of(PROTOCOL_MAP_KEY)
    valid = ", ".join(SecurityProtocol.__members__)
    try:
        protocols = parse_protocol_map(properties.values.get(PROTOCOL_MAP_KEY, ""))
    except ValueError as error:
        raise VariableError(f"{variable}: {error}") from None
    known = protocols if PROTOCOL_MAP_KEY in properties.values else SecurityProtocol.__members__
    for name in listeners:
        if name not in known:
            raise VariableError(
                f"{variable} has no protocol for the listener {name} of "
                f"{properties.variable_of(LISTENERS)}: add {name}:PROTOCOL, one of {valid}"
            )


def _advertise(
    properties: Properties,
    listeners: Mapping[str, Address],
    advertised: Mapping[str, Address],
    hostname: str,
) -> None:
    """Set the advertised addresses; raises VariableError for one that no client can reach."""
    listen_variable = properties.variable_of(LISTENERS)
    variable = properties.variable_of(ADVERTISED if advertised else LISTENERS)
    for name in advertised:
        if name not in listeners:
            raise VariableError(
                f"{variable} has the listener {name}, but {listen_variable} has only "
                f"{', '.join(listeners)}: use the same names in both"
            )
    texts = []
    for address in (advertised or listeners).values():
        check_reachable(address, variable, properties.variable_of(ADVERTISED), hostname)
        texts.append(_text(address if address.host else address._replace(host=hostname)))
    properties.values[ADVERTISED] = ",".join(texts)


def check_reachable(address: Address, variable: str, advertised: str, hostname: str) -> None:
    """Raise VariableError if no client can connect to an advertised address.

    `variable` has the address, and `advertised` is the variable for another one.
    """
    name = "" if address.listener is None else f"{address.listener}://"
    if address.host in _UNREACHABLE:
        raise VariableError(
            f"{variable}: no client can connect to {address.host}: set {advertised} to a host that "
            f"clients reach, such as {name}{hostname}:{address.port}"
        )
    if _HOST.fullmatch(address.host) is None:
        raise VariableError(
            f"{variable}: no client can connect to {address.host}, which is not the name of a "
            "host; shell commands and placeholders in variables are not evaluated"
        )
    if not address.port:
        raise VariableError(f"{variable}: no client can connect to port 0 of {name}{address}")


def security_protocols(properties: Properties) -> dict[str, SecurityProtocol]:
    """Return the security protocol of each client listener, by its name."""
    protocols = parse_protocol_map(properties.values.get(PROTOCOL_MAP_KEY, ""))
    return {
        name: protocols.get(
            name, SecurityProtocol.__members__.get(name, SecurityProtocol.PLAINTEXT)
        )
        for name in _addresses(properties, LISTENERS)
    }


def controller_addresses(properties: Properties) -> tuple[Address, ...]:
    """Return the addresses at which a node listens for controllers; raises VariableError."""
    controllers = {name.upper() for name in _items(properties, CONTROLLERS)}
    found = []
    for text in _items(properties, LISTENERS):
        try:
            address = Address.parse(text)
        except AddressError as error:
            raise VariableError(f"{properties.variable_of(LISTENERS)}: {error}") from None
        if address.listener in controllers:
            found.append(address)
    return tuple(found)
