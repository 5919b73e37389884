"""Heartbeats of one real group member, encoded beforehand and pipelined in one connection."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.protocol import codec
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.messages.join_group import JoinGroupRequest
from kafkalite.protocol.messages.sync_group import SyncGroupRequest
from tests.conformance.raw import RawClient

if TYPE_CHECKING:
    from collections.abc import Iterator

_GROUP = "beating"
_VERSION = 4
_KEY = 12
_CHUNK = 500
_TICK = os.sysconf("SC_CLK_TCK")


def join(port: int) -> tuple[str, int]:
    """Become the only member of a group; gives the member id and the generation."""
    client = RawClient(port)
    find = FindCoordinatorRequest(coordinator_keys=[_GROUP])
    while client.call(find, 4).coordinators[0].error_code:
        time.sleep(0.05)
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id=_GROUP,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    while True:
        joined = client.call(request, 9)
        if not joined.error_code:
            break
        request.member_id = joined.member_id
        time.sleep(0.05)
    share = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
    synced = client.call(
        SyncGroupRequest(
            group_id=_GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[share],
        ),
        5,
    )
    assert not synced.error_code, synced
    client.close()
    return joined.member_id, joined.generation_id


def frames(member_id: str, generation: int) -> bytes:
    """Encode a chunk of heartbeats."""
    out: list[bytes | memoryview] = []
    beat = HeartbeatRequest(group_id=_GROUP, generation_id=generation, member_id=member_id)
    codec.request_builder(_KEY, _VERSION)(beat, out)
    body = b"".join(out)
    head = struct.pack(">hhih4s", _KEY, _VERSION, 1, 4, b"perf") + b"\0"
    frame = struct.pack(">i", len(head) + len(body)) + head + body
    return frame * _CHUNK


def rate(port: int, pid: int, seconds: float) -> tuple[float, float]:
    """Pipeline heartbeats for a while; gives answers per second, and per second of broker CPU."""
    chunk = frames(*join(port))
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answer_size = _answer_size(connection, chunk)
    over = threading.Event()
    sent = [0]

    def send() -> None:
        while not over.is_set():
            connection.sendall(chunk)
            sent[0] += _CHUNK

    with _apart(pid):
        sender = threading.Thread(target=send)
        begin, cpu = time.perf_counter(), _cpu_seconds(pid)
        sender.start()
        received = 0
        buffer = bytearray(1 << 20)
        while time.perf_counter() - begin < seconds:
            received += connection.recv_into(buffer)
        taken, cpu = time.perf_counter() - begin, _cpu_seconds(pid) - cpu
        over.set()
        answers = received / answer_size
        while received < sent[0] * answer_size or sender.is_alive():
            received += connection.recv_into(buffer)
    sender.join()
    connection.close()
    return answers / taken, answers / max(cpu, 1 / _TICK)


def _answer_size(connection: socket.socket, chunk: bytes) -> int:
    connection.sendall(chunk[: len(chunk) // _CHUNK])
    head = connection.recv(4, socket.MSG_WAITALL)
    length: int = struct.unpack(">i", head)[0]
    body = connection.recv(length, socket.MSG_WAITALL)
    # Correlation id, no tags, throttle time, then the error.
    assert body[9:11] == b"\0\0", body
    return 4 + length


def _cpu_seconds(pid: int) -> float:
    """Sum the processor time of a process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


@contextmanager
def _apart(pid: int) -> Iterator[None]:
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
