"""Addresses as people write them, `[NAME://]HOST:PORT`, and which a node listens on and tells.

With several nodes each takes the port after its predecessor's, for listening and for telling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_PORT = 9092
DEFAULT_LISTENER = "PLAINTEXT"
_MAX_PORT = 65_535
_ANY_HOST = frozenset(("", "0.0.0.0", "::", "*"))  # noqa: S104 - recognised, not bound to


class AddressError(ValueError):
    """An address that cannot be understood or used; the text is one line for people."""


class Address(NamedTuple):
    """A host and a port, perhaps under a listener's name; port 0 lets the system choose."""

    host: str
    port: int
    listener: str | None = None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Return the address that `text` writes; AddressError when it writes none."""
        listener, found, rest = text.rpartition("://")
        host, colon, port_text = rest.rpartition(":")
        if not colon or not port_text.isascii() or not port_text.isdigit():
            raise AddressError(f"{text!r} is not an address: write [NAME://]HOST:PORT")
        port = int(port_text)
        if port > _MAX_PORT:
            raise AddressError(f"{text!r} has a port above {_MAX_PORT}")
        if found and not listener:
            raise AddressError(f"{text!r} has an empty listener name")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise AddressError(f"{text!r}: an IPv6 address is written in brackets")
        return cls(host, port, listener.upper() if found else None)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def shifted(self, by: int) -> Address:
        """Return the address `by` ports further on; a port the system chooses stays chosen so."""
        if not self.port:
            return self
        if self.port + by > _MAX_PORT:
            raise AddressError(f"{self} leaves no ports for {by + 1} nodes")
        return Address(self.host, self.port + by, self.listener)


class ListenerSpec(NamedTuple):
    """One listener: its name, where it listens, and what address clients are told.

    Without an advertised address clients are told the one it listens on, where `localhost`
    stands for every address of this machine.
    """

    name: str
    listen: Address
    advertised: Address | None = None

    def told(self, bound_port: int, node: int) -> Address:
        """Return what clients are told about the node of this index, bound to `bound_port`."""
        if self.advertised is None:
            host = "localhost" if self.listen.host in _ANY_HOST else self.listen.host
            return Address(host, bound_port)
        told = self.advertised.shifted(node)
        return Address(told.host, told.port or bound_port)


DEFAULT_LISTENERS = (ListenerSpec(DEFAULT_LISTENER, Address("localhost", DEFAULT_PORT)),)


def plan_listeners(listen: Sequence[str], advertise: Sequence[str]) -> tuple[ListenerSpec, ...]:
    """Return the listeners that these texts ask for; AddressError says what is wrong with them.

    An advertised address belongs to the listener it names, else to the first that has none yet.
    """
    addresses = [Address.parse(text) for text in listen] or [DEFAULT_LISTENERS[0].listen]
    names: list[str] = []
    for address in addresses:
        name = address.listener or _free_name(names)
        if name in names:
            raise AddressError(f"listener {name} is given twice")
        names.append(name)
    told: dict[str, Address] = {}
    for text in advertise:
        address = Address.parse(text)
        name = address.listener or next((each for each in names if each not in told), "")
        if name not in names or name in told:
            raise AddressError(f"no listener is left to advertise as {text!r}")
        told[name] = address
    return tuple(
        ListenerSpec(name, address, told.get(name))
        for name, address in zip(names, addresses, strict=True)
    )


def check_ports_suffice(specs: Sequence[ListenerSpec], brokers: int) -> None:
    """Raise AddressError when two listeners of a cluster of that many nodes want the same port."""
    for position, spec in enumerate(specs):
        for other in specs[:position]:
            (host, port, _), (other_host, other_port, _) = spec.listen, other.listen
            same_host = host == other_host or bool({host, other_host} & _ANY_HOST)
            if port and other_port and same_host and abs(port - other_port) < brokers:
                apart = "another port" if brokers == 1 else f"ports {brokers} apart, one a node"
                raise AddressError(
                    f"listeners {other.listen} and {spec.listen} would meet: give them {apart}"
                )


def _free_name(taken: Sequence[str]) -> str:
    if not taken:
        return DEFAULT_LISTENER
    return f"{DEFAULT_LISTENER}_{len(taken) + 1}"
