"""The first request of a client, Metadata, encoded by hand."""

from __future__ import annotations

import socket
import struct
import time

# Metadata v1 without topics: the response has the brokers and the controller.
_BODY = struct.pack(">hhihi", 3, 1, 1, -1, 0)
_REQUEST = struct.pack(">i", len(_BODY)) + _BODY
_RETRY_S = 0.001


def wait_for_answer(port: int, deadline: float) -> bool:
    """Retry until there is a response; `deadline` is a time of `time.perf_counter`."""
    while time.perf_counter() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.sendall(_REQUEST)
                if connection.recv(4):
                    return True
        except OSError:
            pass
        time.sleep(_RETRY_S)
    return False
