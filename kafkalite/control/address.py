"""Where a broker is driven from: `[HOST:]PORT`, this machine alone unless a host is named."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from kafkalite.server.addresses import Address, AddressError

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9097
DEFAULT_CONTROL = f"{DEFAULT_HOST}:{DEFAULT_PORT}"

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised


def control_address(text: str) -> Address:
    """Return the address that `text` writes; without a host, this machine's loopback.

    AddressError when it writes none.
    """
    stripped = text.strip()
    if "/" in stripped:
        raise AddressError(f"{text!r} is not where to listen: write [HOST:]PORT")
    if ":" not in stripped:
        stripped = f":{stripped}"
    try:
        address = Address.parse(stripped)
    except AddressError as error:
        raise AddressError(f"{text!r} is not where to listen: write [HOST:]PORT") from error
    return address if address.host else Address(DEFAULT_HOST, address.port)


def control_url(text: str) -> str:
    """Return the URL by which to drive the broker at `text`: an URL, HOST:PORT or PORT.

    AddressError when it is none of these.
    """
    stripped = text.strip().rstrip("/")
    scheme, found, rest = stripped.partition("://")
    wrong = f"{text!r} is not where a broker is driven: write http://HOST:PORT"
    if found and scheme != "http":
        raise AddressError(wrong)
    try:
        return url_of(control_address(rest if found else stripped))
    except AddressError as error:
        raise AddressError(wrong) from error


def url_of(address: Address) -> str:
    """Return the URL of what listens at `address`, as somebody on this machine reaches it."""
    return f"http://{Address(_EVERYWHERE.get(address.host, address.host), address.port)}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens at `host`."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def hosts_allowed(address: Address) -> Sequence[str] | None:
    """Return the hosts a request may name, None for any.

    A web page can have its own name lead to this machine, and then talk to whatever listens here;
    but the browser tells that name. Where others are let in, names are theirs to choose.
    """
    if not is_loopback(address.host):
        return None
    return ("localhost", "127.0.0.1", "::1", address.host.lower())
