"""Addresses of control endpoints: `[HOST:]PORT`; the default host is the loopback address."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from kafkalite.config.options import DEFAULT_CONTROL_HOST
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.addresses import Address, AddressError

if TYPE_CHECKING:
    from collections.abc import Sequence


_CONNECT_HOSTS = {"0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised
"""A host that means all addresses of this machine → an address to connect to."""


def control_address(text: str) -> Address:
    """Return the address that `text` describes; without a host, the loopback address.

    Raises AddressError for invalid text.
    """
    stripped = text.strip()
    if "/" in stripped:
        raise AddressError(f"{text!r} is not an address to listen on: write [HOST:]PORT")
    if ":" not in stripped:
        stripped = f":{stripped}"
    try:
        address = Address.parse(stripped)
    except AddressError as error:
        raise AddressError(f"{text!r} is not an address to listen on: write [HOST:]PORT") from error
    return address if address.host else Address(DEFAULT_CONTROL_HOST, address.port)


class EndpointAddress(NamedTuple):
    """The address of a control endpoint, as clients reach it."""

    address: Address
    scheme: str | None
    """`http` or `https`; None if the text does not have it."""

    def url(self, default_scheme: str = "http") -> str:
        """Return the URL of the endpoint."""
        return url_of(self.address, self.scheme or default_scheme)


def endpoint_address(text: str) -> EndpointAddress:
    """Return the address of the control endpoint at `text`: a URL, HOST:PORT or PORT.

    Raises AddressError for other text.
    """
    stripped = text.strip().rstrip("/")
    scheme, separator, address = stripped.partition("://")
    message = f"{text!r} is not the address of a control endpoint: write http://HOST:PORT"
    if separator and scheme not in {"http", "https"}:
        raise AddressError(message)
    try:
        parsed = control_address(address if separator else stripped)
    except AddressError as error:
        raise AddressError(message) from error
    host = _CONNECT_HOSTS.get(parsed.host, parsed.host)
    return EndpointAddress(Address(host, parsed.port), scheme if separator else None)


def url_of(address: Address, scheme: str = "http") -> str:
    """Return the URL of a server at `address`, as clients on this machine reach it."""
    host = _CONNECT_HOSTS.get(address.host, address.host)
    return f"{scheme}://{Address(host, address.port)}"


def is_loopback(host: str) -> bool:
    """Return whether a server at `host` can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(address: Address) -> Sequence[str] | None:
    """Return the host names that requests may use, None for any.

    DNS rebinding: a web page can let its own host name resolve to this machine and send requests to
    a local server. The browser then sends that name in the Host header. On an address that other
    machines reach, host names are not restricted, because their DNS defines them.
    """
    if not is_loopback(address.host):
        return None
    return ("localhost", "127.0.0.1", "::1", address.host.lower())
