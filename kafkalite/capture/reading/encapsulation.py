"""Parsing of IP packets with options or extension headers, with dpkt."""

# ruff: noqa: ANN401 - dpkt has no types
from __future__ import annotations

import struct
from typing import Any, Final

import dpkt

from kafkalite.ports.named_tuples import NamedTuple


class NetworkPacket(NamedTuple):
    """The IP headers of a TCP segment, or of a fragment."""

    addresses: bytes = b""
    """The sender's address, then the receiver's."""
    tcp_start: int = 0
    """Offset of the TCP header."""
    size: int = 0
    """Size of the packet in its IP header; 0 if a network card sets it later."""
    is_fragment: bool = False


_FRAGMENT: Final = NetworkPacket(is_fragment=True)
_TCP: Final = 6
_MORE_FRAGMENTS_OR_OFFSET: Final = 0x3FFF
_IP6_BYTES: Final = 40
_IP6_FRAGMENT: Final = 44


def parse_network_packet(data: bytes) -> NetworkPacket | None:
    """Return the IP headers of a packet; None if it does not carry TCP.

    Raises struct.error if the headers are truncated or malformed.
    """
    try:
        is_ip4 = data[0] >> 4 == 4  # noqa: PLR2004 - of IPv4
        return _parse_ip4(dpkt.ip.IP(data)) if is_ip4 else _parse_ip6(dpkt.ip6.IP6(data))
    except Exception as error:  # malformed bytes: dpkt raises many types of exceptions
        raise struct.error(str(error)) from error


def _parse_ip4(network: Any) -> NetworkPacket | None:
    if network.p != _TCP:
        return None
    if network._flags_offset & _MORE_FRAGMENTS_OR_OFFSET:  # noqa: SLF001 - dpkt's name of it
        return _FRAGMENT
    addresses = network.src + network.dst
    return NetworkPacket(addresses, network.__hdr_len__ + len(network.opts), network.len)


def _parse_ip6(network: Any) -> NetworkPacket | None:
    if network.p != _TCP:
        return None
    fragment = network.extension_hdrs.get(_IP6_FRAGMENT)
    if fragment is not None and (fragment.frag_off or fragment.m_flag):
        return _FRAGMENT
    tcp = _IP6_BYTES + sum(header.length for header in network.all_extension_headers)
    size = network.plen and _IP6_BYTES + network.plen
    return NetworkPacket(network.src + network.dst, tcp, size)
