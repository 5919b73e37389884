"""Free ports for brokers that need ports in a row."""

from __future__ import annotations

import os
import socket

_FIRST_PORT, _LAST_PORT = 12_000, 32_000
"""Below the ports that Linux gives to sockets that need any port."""
_PORTS_OF_A_PROCESS = 100


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive free ports."""
    first = _FIRST_PORT + os.getpid() % 150 * _PORTS_OF_A_PROCESS
    for port in range(first, _LAST_PORT, count):
        try:
            for offset in range(count):
                socket.create_server(("127.0.0.1", port + offset)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no free ports")
