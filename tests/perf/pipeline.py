"""Pipelined requests, encoded in advance, and their cost to the broker."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.message import Message

_CLIENT_ID = b"perf"
_TIMEOUT_S = 1.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Rate(NamedTuple):
    """Responses per second, and per second of CPU time of the broker."""

    per_second: float
    per_cpu_second: float


def frame(request: Message, version: int) -> bytes:
    """Return a request with header and length prefix."""
    key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
    out: list[bytes | memoryview] = []
    codec.request_builder(key, version)(request, out)
    header = struct.pack(">hhih", key, version, 1, len(_CLIENT_ID)) + _CLIENT_ID
    body = header + (b"\0" if codec.is_flexible(key, version) else b"") + b"".join(out)
    return struct.pack(">i", len(body)) + body


def pump(port: int, pid: int, frames: list[bytes], seconds: float) -> Rate:
    """Send these frames repeatedly in one connection, and measure for a while.

    All responses must have the same size. A warm-up of a third of the time is not counted.
    """
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    response_bytes = _response_bytes(connection, frames[0])
    chunk = b"".join(frames)
    stop_event = threading.Event()
    sent_count = [0]

    def send() -> None:
        while not stop_event.is_set():
            connection.sendall(chunk)
            sent_count[0] += len(frames)

    received = 0
    buffer = bytearray(1 << 20)

    def receive(until: float) -> None:
        nonlocal received
        while time.perf_counter() < until:
            received += connection.recv_into(buffer)

    with separate_processors(pid):
        sender = threading.Thread(target=send)
        sender.start()
        receive(time.perf_counter() + seconds / 3)
        started, cpu, before = time.perf_counter(), cpu_seconds(pid), received
        receive(started + seconds)
        elapsed_s, cpu = time.perf_counter() - started, cpu_seconds(pid) - cpu
        response_count = (received - before) / response_bytes
        stop_event.set()
        connection.settimeout(_TIMEOUT_S)
        while received < sent_count[0] * response_bytes or sender.is_alive():
            # All may be received before the sender has counted its last chunk.
            with suppress(TimeoutError):
                received += connection.recv_into(buffer)
    sender.join()
    connection.close()
    return Rate(response_count / elapsed_s, response_count / max(cpu, 1 / _TICKS_PER_SECOND))


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def _response_bytes(connection: socket.socket, request: bytes) -> int:
    connection.sendall(request)
    header = connection.recv(4, socket.MSG_WAITALL)
    length: int = struct.unpack(">i", header)[0]
    connection.recv(length, socket.MSG_WAITALL)
    return 4 + length


@contextmanager
def separate_processors(pid: int) -> Iterator[None]:
    """Run a broker on the first processor and this process on the others, if there are any."""
    processors = os.sched_getaffinity(0)
    if len(processors) > 1:
        broker_processor = min(processors)
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {broker_processor})
        os.sched_setaffinity(0, processors - {broker_processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, processors)
