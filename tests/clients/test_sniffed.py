"""A sniffer on the wire and our own recording of the same traffic say the same."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer

from kafkalite.capture.model import Direction, Event, Frame, Gap, Problem
from kafkalite.capture.reading import read
from kafkalite.testing import Broker
from tests.clients.observer import wait_until
from tests.oracle.requirements import LackingError, program, required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.client

RECORDS = 500
LEAVE_GROUP = b"\0\x0d"
Lane = tuple[int, Direction]


@contextmanager
def sniffing(port: str, path: Path) -> Iterator[None]:
    """Capture the port on the loopback interface, or skip where that is not allowed."""
    with required():
        command = [program("dumpcap"), "-q", "-i", "lo", "-f", f"tcp port {port}", "-w", str(path)]
        sniffer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert sniffer.stderr is not None
        # It names its file once it captures, and ends where it may not.
        if not any(line.startswith("File:") for line in iter(sniffer.stderr.readline, "")):
            sniffer.wait()
            raise LackingError("dumpcap may not capture here")
    try:
        yield
    finally:
        sniffer.terminate()
        sniffer.wait()
        sniffer.stderr.close()


def work(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce("t", key=str(number), value=os.urandom(300))
    producer.flush()
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    seen = 0
    while seen < RECORDS:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            seen += 1
    consumer.commit()
    consumer.close()


def lanes(events: list[Event]) -> dict[Lane, list[bytes]]:
    found: dict[Lane, list[bytes]] = defaultdict(list)
    for event in events:
        if isinstance(event, Frame):
            found[event.connection.client.port, event.direction].append(event.body)
    return found


def has_left(found: dict[Lane, list[bytes]]) -> bool:
    """Whether the consumer is seen to leave its group, which is the last that is said."""
    return any(
        body.startswith(LEAVE_GROUP)
        for (_, direction), bodies in found.items()
        for body in bodies
        if direction is Direction.REQUEST
    )


def test_a_sniffer_sees_the_frames_that_we_record(tmp_path: Path) -> None:
    sniffed = tmp_path / "sniffed.pcapng"
    problems: list[Problem] = []

    def of(path: Path) -> list[Event]:
        return list(read([path], problems.append))

    with Broker(capture=tmp_path / "own") as broker:
        servers = broker.bootstrap_servers
        with sniffing(servers.rpartition(":")[2], sniffed):
            work(servers)
            wait_until(lambda: has_left(lanes(of(sniffed))), "the sniffer saw all of it")
    problems.clear()
    own = lanes(of(tmp_path / "own"))
    assert problems == []
    events = of(sniffed)
    # A sniffer that is too slow loses packets, which is told; of the others all is there.
    gaps = (each for each in events if isinstance(each, Gap))
    touched = {(each.connection.client.port, each.direction) for each in gaps}
    found = lanes(events)
    assert len(found) > 4
    assert len(touched) < len(found)
    for lane, bodies in found.items():
        if lane not in touched:
            assert bodies == own[lane][: len(bodies)]
