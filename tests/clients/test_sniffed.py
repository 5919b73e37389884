"""A network sniffer and our own recording of the same traffic are equal."""

from __future__ import annotations

import os
import subprocess
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer

from kafkalite.capture.model import Direction, Event, Frame, Gap, Problem
from kafkalite.capture.reading.captures import read
from kafkalite.testing import Broker
from tests.clients.observer import wait_until
from tests.oracle.requirements import MissingProgramError, program, required

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.client, pytest.mark.endurance]

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
        # tshark prints its file's name when it captures, and ends if it has no permission.
        if not any(line.startswith("File:") for line in iter(sniffer.stderr.readline, "")):
            sniffer.wait()
            raise MissingProgramError("dumpcap may not capture here")
    try:
        yield
    finally:
        sniffer.terminate()
        sniffer.wait()
        sniffer.stderr.close()


def produce_and_consume(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce("t", key=str(number), value=os.urandom(300))
    producer.flush()
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    count = 0
    while count < RECORDS:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            count += 1
    consumer.commit()
    consumer.close()


def frames_by_lane(events: list[Event]) -> dict[Lane, list[bytes]]:
    frames: dict[Lane, list[bytes]] = defaultdict(list)
    for event in events:
        if isinstance(event, Frame):
            frames[event.connection.client.port, event.direction].append(event.body)
    return frames


def has_left(frames: dict[Lane, list[bytes]]) -> bool:
    """Whether the capture has the consumer's last request, which leaves its group."""
    return any(
        body.startswith(LEAVE_GROUP)
        for (_, direction), bodies in frames.items()
        for body in bodies
        if direction is Direction.REQUEST
    )


def test_sniffed_frames_equal_recorded_frames(tmp_path: Path) -> None:
    sniffed = tmp_path / "sniffed.pcapng"
    problems: list[Problem] = []

    def events_of(path: Path) -> list[Event]:
        return list(read([path], problems.append))

    with Broker(capture=tmp_path / "own") as broker:
        servers = broker.bootstrap_servers
        with sniffing(servers.rpartition(":")[2], sniffed):
            produce_and_consume(servers)
            wait_until(
                lambda: has_left(frames_by_lane(events_of(sniffed))), "the sniffer saw all of it"
            )
    problems.clear()
    recorded = frames_by_lane(events_of(tmp_path / "own"))
    assert problems == []
    events = events_of(sniffed)
    # A slow sniffer loses packets and reports that; all other frames are there.
    gaps = (event for event in events if isinstance(event, Gap))
    incomplete = {(gap.connection.client.port, gap.direction) for gap in gaps}
    frames = frames_by_lane(events)
    assert len(frames) > 4
    assert len(incomplete) < len(frames)
    for lane, bodies in frames.items():
        if lane not in incomplete:
            assert bodies == recorded[lane][: len(bodies)]
