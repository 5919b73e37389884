"""IP packets with more before TCP than the usual headers: where dpkt finds TCP in them."""

# ruff: noqa: ANN401 - dpkt has no types
from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

import dpkt


class NetworkPacket(NamedTuple):
    """What is around a TCP segment, or around a fragment of what may be one."""

    addresses: bytes = b""
    """The sender's, then the receiver's."""
    tcp: int = 0
    """Where the TCP header begins."""
    size: int = 0
    """How long the whole packet was; 0 where it leaves that to the card that splits it."""
    is_fragment: bool = False


_FRAGMENT: Final = NetworkPacket(is_fragment=True)
_TCP: Final = 6
_MORE_FRAGMENTS_OR_OFFSET: Final = 0x3FFF
_IP6_BYTES: Final = 40
_IP6_FRAGMENT: Final = 44


def network_packet(data: bytes) -> NetworkPacket | None:
    """Return what is around the segment of an IP packet, None where it carries none.

    struct.error where its headers are not whole, or are broken.
    """
    try:
        is_ip4 = data[0] >> 4 == 4  # noqa: PLR2004 - of IPv4
        return _of_ip4(dpkt.ip.IP(data)) if is_ip4 else _of_ip6(dpkt.ip6.IP6(data))
    except Exception as error:  # hostile bytes: dpkt does not say what it may raise
        raise struct.error(str(error)) from error


def _of_ip4(network: Any) -> NetworkPacket | None:
    if network.p != _TCP:
        return None
    if network._flags_offset & _MORE_FRAGMENTS_OR_OFFSET:  # noqa: SLF001 - its name for it
        return _FRAGMENT
    addresses = network.src + network.dst
    return NetworkPacket(addresses, network.__hdr_len__ + len(network.opts), network.len)


def _of_ip6(network: Any) -> NetworkPacket | None:
    if network.p != _TCP:
        return None
    fragment = network.extension_hdrs.get(_IP6_FRAGMENT)
    if fragment is not None and (fragment.frag_off or fragment.m_flag):
        return _FRAGMENT
    tcp = _IP6_BYTES + sum(header.length for header in network.all_extension_headers)
    size = network.plen and _IP6_BYTES + network.plen
    return NetworkPacket(network.src + network.dst, tcp, size)
