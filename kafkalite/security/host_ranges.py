"""Ranges of addresses in ACLs, such as 10.0.0.0/8 and fd00::/8."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

HostRange: TypeAlias = "IPv4Network | IPv6Network"

_IPV4_RANGE: Final = r"([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})\.([0-9]{1,3})/([0-9]{1,2})"
_MAX_OCTET: Final = 255
_IPV4_BITS: Final = 32
_IPV6_BITS: Final = 128


def is_range(host: str) -> bool:
    """Return whether the host of an ACL is meant as a range."""
    return "/" in host


def parse_range(host: str) -> HostRange:
    """Return a range; raises ValueError if the text is none.

    As in Kafka, the address may have bits after the prefix, which do not count.
    """
    if ":" in host:
        return _parse_ipv6_range(host)
    match = re.fullmatch(_IPV4_RANGE, host)
    if match is None:
        raise ValueError(f"{host} is not an address, a slash and the length of a prefix")
    *octets, prefix = map(int, match.groups())
    if max(octets) > _MAX_OCTET:
        raise ValueError(f"{max(octets)} is greater than {_MAX_OCTET}")
    _check_prefix(prefix, _IPV4_BITS)
    from ipaddress import IPv4Network  # noqa: PLC0415 - a start needs no ranges

    return IPv4Network((bytes(octets), prefix), strict=False)


def _parse_ipv6_range(host: str) -> HostRange:
    text, _, prefix_text = host.partition("/")
    if not re.fullmatch(r"[+-]?[0-9]+", prefix_text):
        raise ValueError(f"{prefix_text} is not the length of a prefix")
    prefix = int(prefix_text)
    _check_prefix(prefix, _IPV6_BITS)
    from ipaddress import AddressValueError, IPv6Address, IPv6Network  # noqa: PLC0415 - as above

    try:
        address = IPv6Address(text)
    except AddressValueError as error:
        raise ValueError(f"{text} is not an IPv6 address") from error
    return IPv6Network((address.packed, prefix), strict=False)


def _check_prefix(prefix: int, bits: int) -> None:
    if not 0 <= prefix <= bits:
        raise ValueError(f"the length of a prefix is {prefix}, not between 0 and {bits}")


def contains(host_range: HostRange, host: str) -> bool:
    """Return whether a range contains the address of a client.

    As in Kafka, 0.0.0.0 is in no range.
    """
    from ipaddress import ip_address  # noqa: PLC0415 - as above

    try:
        address = ip_address(host)
    except ValueError:
        return False
    if address.version != host_range.version:
        return False
    return address in host_range and not (address.version == 4 and int(address) == 0)  # noqa: PLR2004 - IPv4
