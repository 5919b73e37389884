"""IP addresses of clients as text: in the form of Java, and in one form that can be compared."""

from __future__ import annotations

from socket import AF_INET, inet_pton


def java_address(host: str) -> str:
    """Return an address as Java's getHostAddress does; a text that is no IPv6 is returned as it is.

    IPv6 has all eight groups, without leading zeros. A socket for both families names the address
    of an IPv4 client as `::ffff:10.0.0.1`, which is `10.0.0.1` here: an ACL for that host applies.
    """
    if ":" not in host:
        return host
    from ipaddress import AddressValueError, IPv6Address  # noqa: PLC0415 - not needed for IPv4

    text, percent, zone = host.partition("%")
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = address.exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone


def canonical_address(text: str) -> str:
    """Return the one form of an IP address; other texts are returned as they are.

    As in Java, an IPv4 address within IPv6 is that IPv4 address, and zones do not matter.
    """
    if text == "localhost":
        return "127.0.0.1"
    if _is_ipv4(text):
        return text
    from ipaddress import ip_address  # noqa: PLC0415 - as above

    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    return str(getattr(address, "ipv4_mapped", None) or address)


def is_address(host: str) -> bool:
    """Return whether a host is an IP address, and not a name."""
    if _is_ipv4(host):
        return True
    from ipaddress import ip_address  # noqa: PLC0415 - as above

    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _is_ipv4(text: str) -> bool:
    try:
        inet_pton(AF_INET, text)
    except (OSError, ValueError):  # ValueError: the text contains a null character
        return False
    return True
