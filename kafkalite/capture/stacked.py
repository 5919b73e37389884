"""IP packets with more before TCP than the usual headers: what dpkt makes of them."""

# ruff: noqa: ANN401 - dpkt has no types
from __future__ import annotations

from typing import Any, Final, NamedTuple

import dpkt


class NetworkPacket(NamedTuple):
    """A TCP segment out of a stack of headers, or a fragment of what may be one."""

    flow: bytes = b""
    seq: int = 0
    ack: int = 0
    flags: int = 0
    payload: bytes = b""
    missing: int = 0
    is_fragment: bool = False


_FRAGMENT: Final = NetworkPacket(is_fragment=True)
_TCP: Final = 6
_MORE_FRAGMENTS_OR_OFFSET: Final = 0x3FFF
_IP6_FRAGMENT: Final = 44


def network_packet(data: bytes) -> NetworkPacket | None:
    """Return the segment that an IP packet carries, None where it carries none or is broken."""
    try:
        is_ip4 = data[0] >> 4 == 4  # noqa: PLR2004 - of IPv4
        return _segment(dpkt.ip.IP(data) if is_ip4 else dpkt.ip6.IP6(data))
    except Exception:  # noqa: BLE001 - hostile bytes: dpkt does not say what it may raise
        return None


def _segment(network: Any) -> NetworkPacket | None:
    is_ip4 = isinstance(network, dpkt.ip.IP)
    if network.p != _TCP:
        return None
    if is_ip4:
        if network._flags_offset & _MORE_FRAGMENTS_OR_OFFSET:  # noqa: SLF001 - its name for it
            return _FRAGMENT
        headers, total = (network._v_hl & 0xF) * 4, network.len  # noqa: SLF001
    else:
        fragment = network.extension_hdrs.get(_IP6_FRAGMENT)
        if fragment is not None and (fragment.frag_off or fragment.m_flag):
            return _FRAGMENT
        headers = sum(header.length for header in network.all_extension_headers)
        total = network.plen
    tcp = network.data
    if not isinstance(tcp, dpkt.tcp.TCP):
        return None
    size = tcp.__hdr_len__ + len(tcp.opts) + len(tcp.data)
    missing = total - headers - size if total else 0
    ports = tcp.sport.to_bytes(2) + tcp.dport.to_bytes(2)
    flow = network.src + network.dst + ports
    return NetworkPacket(flow, tcp.seq, tcp.ack, tcp.flags & 0xFF, bytes(tcp.data), max(0, missing))
