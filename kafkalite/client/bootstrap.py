"""The addresses with which a client finds its cluster, as the text `host:port,…`."""

from __future__ import annotations

from typing import Final

from kafkalite.server.addresses import Address, AddressError

_LOCAL_HOST: Final = "localhost"


def bootstrap_addresses(text: str) -> list[Address]:
    """Return the addresses in a list; raises AddressError.

    As with clients in Java, `:9092` is a port of this host, and `NAME://` has no effect.
    """
    return [_address(item.strip()) for item in text.split(",")]


def _address(text: str) -> Address:
    address = Address.parse(text)
    if not address.port:
        raise AddressError(f"{text!r} is not the address of a broker: write HOST:PORT")
    return Address(address.host or _LOCAL_HOST, address.port)
