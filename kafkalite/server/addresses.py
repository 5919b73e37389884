"""Addresses as text, `[NAME://]HOST:PORT`, and the listeners of each node.

With several nodes, each node listens on the port after that of the previous node. Advertised ports
increase in the same way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkalite.config.security_protocols import SecurityProtocol
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_PORT = 9092
DEFAULT_LISTENER = "PLAINTEXT"
_MAX_PORT = 65_535
_PLAIN_WORDS = frozenset((
    "PLAIN", "PLAINTEXT", "INTERNAL", "EXTERNAL", "INSIDE", "OUTSIDE", "INT", "EXT", "IN", "OUT",
    "INTER", "BROKER", "BROKERS", "CONTROLLER", "REPLICATION", "CLUSTER", "CLIENT", "CLIENTS",
    "HOST", "LOCALHOST", "LOCAL", "DOCKER", "CONTAINER", "CONTAINERS", "KUBERNETES", "NETWORK",
    "LAN", "PUBLIC", "PRIVATE", "DEFAULT", "LISTENER", "KAFKA", "TC", "OTHER",
))  # fmt: skip
"""Words of names that say where clients are, or that the listener is plaintext."""
_DIVIDER = r"[^A-Z]+"
_WILDCARD_HOSTS = frozenset(("", "0.0.0.0", "::", "*"))  # noqa: S104 - recognised, not bound to


class AddressError(ValueError):
    """An address that is invalid or unusable; the text is one line."""


class Address(NamedTuple):
    """A host and a port, optionally with a listener's name; port 0 lets the system choose."""

    host: str
    port: int
    listener: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Return the address that `text` describes; raises AddressError if it is invalid."""
        listener, separator, address = text.rpartition("://")
        host, colon, port_text = address.rpartition(":")
        if not colon or not port_text.isascii() or not port_text.isdigit():
            raise AddressError(f"{text!r} is not an address: write [NAME://]HOST:PORT")
        port = int(port_text)
        if port > _MAX_PORT:
            raise AddressError(f"{text!r} has a port above {_MAX_PORT}")
        if separator and not listener:
            raise AddressError(f"{text!r} has an empty listener name")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise AddressError(f"{text!r}: an IPv6 address is written in brackets")
        return cls(host, port, listener.upper() if separator else None)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def overlaps(self, other: Address) -> bool:
        """Return whether only one socket can listen on both addresses, if their ports are equal."""
        return self.host == other.host or bool({self.host, other.host} & _WILDCARD_HOSTS)

    def with_port_offset(self, offset: int) -> Address:
        """Return the address with the port number increased by `offset`; port 0 remains 0."""
        if not self.port:
            return self
        if self.port + offset > _MAX_PORT:
            raise AddressError(f"{self} has too few ports after it for {offset + 1} nodes")
        return Address(self.host, self.port + offset, self.listener)


class ListenerSpec(NamedTuple):
    """One listener: its name, its addresses to listen on and to advertise, and its protocol.

    Without an advertised address, clients get the one it listens on; a wildcard address is then
    advertised as `localhost`.
    """

    name: str
    listen_address: Address
    advertised: Address | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    is_for_controllers: bool = False
    """Whether clients of this listener are served by the controller, not by a broker."""
    is_relayed: bool = False
    """Whether another process listens on the address, and passes the bytes of its clients on."""
    is_routed: bool = False
    """Whether it is relayed by another cluster of this process, which decrypts the bytes."""

    @property
    def has_misleading_name(self) -> bool:
        """Whether a listener without security has a name that may stand for a protocol.

        Kafka refuses a name that no setting maps to a protocol; kafkalite serves it as plaintext.
        """
        if self.protocol is not SecurityProtocol.PLAINTEXT:
            return False
        return not _PLAIN_WORDS.issuperset(filter(None, re.split(_DIVIDER, self.name)))

    @property
    def advertises_localhost_to_others(self) -> bool:
        """Whether other machines can connect, but are given the address `localhost`."""
        is_open = self.listen_address.host in _WILDCARD_HOSTS and self.advertised is None
        return is_open and not self.is_for_controllers

    def advertised_address(self, bound_port: int, node_index: int) -> Address:
        """Return the address that a node advertises for this listener.

        `bound_port` is the port on which the node listens.
        """
        if self.advertised is None:
            host = (
                "localhost"
                if self.listen_address.host in _WILDCARD_HOSTS
                else self.listen_address.host
            )
            return Address(host, bound_port)
        advertised = self.advertised.with_port_offset(node_index)
        return Address(advertised.host, advertised.port or bound_port)


DEFAULT_LISTENERS = (ListenerSpec(DEFAULT_LISTENER, Address("localhost", DEFAULT_PORT)),)


def parse_listeners(listen: Sequence[str], advertise: Sequence[str]) -> tuple[ListenerSpec, ...]:
    """Return the listeners that these texts describe; raises AddressError if they are invalid.

    An advertised address belongs to the listener it names, otherwise to the first one without an
    advertised address.
    """
    addresses = [Address.parse(text) for text in listen] or [DEFAULT_LISTENERS[0].listen_address]
    names: list[str] = []
    for address in addresses:
        name = address.listener or _unused_name(names)
        if name in names:
            raise AddressError(f"listener {name} is given twice")
        names.append(name)
    advertised: dict[str, Address] = {}
    for text in advertise:
        address = Address.parse(text)
        name = address.listener or next((n for n in names if n not in advertised), "")
        if name not in names or name in advertised:
            raise AddressError(f"{text!r} matches no listener without an advertised address")
        advertised[name] = address
    return tuple(
        ListenerSpec(name, address, advertised.get(name))
        for name, address in zip(names, addresses, strict=True)
    )


def check_ports(specs: Sequence[ListenerSpec], node_count: int) -> None:
    """Raise AddressError if two listeners of a cluster of `node_count` nodes need the same port."""
    for position, spec in enumerate(specs):
        for other in specs[:position]:
            address, other_address = spec.listen_address, other.listen_address
            distance = abs(address.port - other_address.port)
            if (
                address.port
                and other_address.port
                and address.overlaps(other_address)
                and distance < node_count
            ):
                advice = (
                    "give one of them another port"
                    if node_count == 1
                    else f"give them ports that are at least {node_count} apart, one per node"
                )
                raise AddressError(
                    f"listeners {other.listen_address} and {spec.listen_address} would use the "
                    f"same port: {advice}"
                )


def _unused_name(used_names: Sequence[str]) -> str:
    if not used_names:
        return DEFAULT_LISTENER
    return f"{DEFAULT_LISTENER}_{len(used_names) + 1}"
