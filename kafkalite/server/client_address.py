"""Addresses of clients in the form of Java, which ACLs, quotas and answers contain."""

from __future__ import annotations


def java_address(host: str) -> str:
    """Return an address as Java's getHostAddress does; a text that is no IPv6 is returned as it is.

    IPv6 has all eight groups, without leading zeros. A socket for both families names the address
    of an IPv4 client as `::ffff:10.0.0.1`, which is `10.0.0.1` here: an ACL for that host applies.
    """
    if ":" not in host:
        return host
    from ipaddress import AddressValueError, IPv6Address  # noqa: PLC0415 - not on the start path

    text, percent, zone = host.partition("%")
    try:
        address = IPv6Address(text)
    except AddressValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = address.exploded.split(":")
    return ":".join(f"{int(group, 16):x}" for group in groups) + percent + zone
