"""Requests encoded beforehand and sent without waiting, and what each costs the broker."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.protocol.message import Message

_CLIENT_ID = b"perf"
_TICK = os.sysconf("SC_CLK_TCK")


class Rate(NamedTuple):
    """Answers per second of time, and per second of the broker's processor time."""

    per_second: float
    per_cpu_second: float


def frame(request: Message, version: int) -> bytes:
    """Return a request as it goes over the wire, its length before it."""
    key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
    out: list[bytes | memoryview] = []
    codec.request_builder(key, version)(request, out)
    head = struct.pack(">hhih", key, version, 1, len(_CLIENT_ID)) + _CLIENT_ID
    body = head + (b"\0" if codec.is_flexible(key, version) else b"") + b"".join(out)
    return struct.pack(">i", len(body)) + body


def pump(port: int, pid: int, frames: list[bytes], seconds: float) -> Rate:
    """Send these frames over and over in one connection, and measure for a while.

    Their answers must all have one size. The first third of the time is not counted, in which a
    virtual machine gets warm.
    """
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answer_size = _answer_size(connection, frames[0])
    chunk = b"".join(frames)
    over = threading.Event()
    sent = [0]

    def send() -> None:
        while not over.is_set():
            connection.sendall(chunk)
            sent[0] += len(frames)

    received = 0
    buffer = bytearray(1 << 20)

    def receive(until: float) -> None:
        nonlocal received
        while time.perf_counter() < until:
            received += connection.recv_into(buffer)

    with apart(pid):
        sender = threading.Thread(target=send)
        sender.start()
        receive(time.perf_counter() + seconds / 3)
        begin, cpu, before = time.perf_counter(), cpu_seconds(pid), received
        receive(begin + seconds)
        taken, cpu = time.perf_counter() - begin, cpu_seconds(pid) - cpu
        answers = (received - before) / answer_size
        over.set()
        while received < sent[0] * answer_size or sender.is_alive():
            received += connection.recv_into(buffer)
    sender.join()
    connection.close()
    return Rate(answers / taken, answers / max(cpu, 1 / _TICK))


def cpu_seconds(pid: int) -> float:
    """Sum the processor time of a process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def _answer_size(connection: socket.socket, request: bytes) -> int:
    connection.sendall(request)
    head = connection.recv(4, socket.MSG_WAITALL)
    length: int = struct.unpack(">i", head)[0]
    connection.recv(length, socket.MSG_WAITALL)
    return 4 + length


@contextmanager
def apart(pid: int) -> Iterator[None]:
    """Keep a broker on the first processor and ourselves on the others, where there are any."""
    ours = os.sched_getaffinity(0)
    if len(ours) > 1:
        first = min(ours)
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), {first})
        os.sched_setaffinity(0, ours - {first})
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)
