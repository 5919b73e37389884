"""`kafkalite serve --capture` with real clients; Wireshark reads its files."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kafkalite.capture.formats.tcp_packets import LARGE_PAYLOAD_BYTES
from kafkalite.capture.model import Direction, Frame
from kafkalite.capture.reading.captures import exchanges, read
from tests.oracle.requirements import program, required
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from kafkalite.capture.model import Event, Problem

pytestmark = pytest.mark.client

PRODUCE = 0
COUNT = 200
PAYLOAD = b"the-payload-of-a-record-" * 20
TSHARK_ERRORS = (
    "kafka.unsupported_api_version || kafka.api_key in {11, 14} || kafka.response_key in {11, 14}"
)
"""Errors of tshark 4.0 itself: it does not know newer versions, and misreads the lengths of member
metadata and assignments in JoinGroup and SyncGroup."""

WRONG = (
    "tcp.analysis.flags || ip.checksum.status == 0 "
    f"|| (_ws.malformed && !({TSHARK_ERRORS})) || tcp.segment.error"
)
"""A display filter for invalid packets."""

_CORRECT_CHECKSUM = "1"
"""tshark's number for a correct checksum."""


def produce_and_consume(bootstrap: str) -> None:
    """Produce, and consume as a group."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    for number in range(COUNT):
        producer.produce("native", PAYLOAD, key=f"{number}")
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "native", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["native"])
    count = 0
    while count < COUNT:
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == PAYLOAD
        count += 1
    consumer.commit(asynchronous=False)
    consumer.close()


def produce_large_requests(bootstrap: str, rounds: int) -> None:
    """Produce large requests without acknowledgement in each round; read those of the first."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 100, "acks": 0, "batch.size": 500_000}
    )
    for _ in range(rounds):
        for _ in range(4 * COUNT):
            producer.produce("large", PAYLOAD)
        assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "large"})
    consumer.assign([TopicPartition("large", 0, OFFSET_BEGINNING)])
    for _ in range(4 * COUNT):
        assert consumer.poll(30) is not None
    consumer.close()


def record_clients(
    directory: Path, *options: str, rounds: int = 1, is_killed: bool = False
) -> tuple[int, list[Path]]:
    """Run clients against a recording broker; return its port and its captures."""
    captures = directory / "captures"
    broker = ServedKafkalite(
        directory, {"num.partitions": "1"}, options=("--capture", str(captures), *options)
    )
    broker.start()
    try:
        produce_and_consume(broker.bootstrap)
        produce_large_requests(broker.bootstrap, rounds)
        if not is_killed:
            broker.stop()
    finally:
        broker.kill()
    return broker.port, sorted(captures.iterdir())


def tshark(capture: Path, port: int, *options: str) -> list[str]:
    """Return tshark's output lines for a capture."""
    with required():
        command = [program("tshark"), "-r", str(capture), "-d", f"tcp.port=={port},kafka"]
    command += ["-o", "ip.check_checksum:TRUE"]
    completed = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    return completed.stdout.splitlines()


def events_of(captures: Iterable[Path]) -> list[Event]:
    problems: list[Problem] = []
    events = list(read([str(path) for path in captures], problems.append))
    assert problems == []
    return events


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """Record one client session in one file."""
    port, (capture,) = record_clients(tmp_path_factory.mktemp("whole"))
    return port, capture


@pytest.mark.endurance
def test_wireshark_finds_no_errors(recording: tuple[int, Path]) -> None:
    port, capture = recording
    assert tshark(capture, port, "-Y", WRONG) == []
    rows = tshark(
        capture, port, "-Y", "kafka.request_key", "-T", "fields", "-e", "kafka.request_key",
        "-e", "kafka.correlation_id",
    )  # fmt: skip
    keys_and_ids = [
        (key, correlation_id)
        for line in rows
        for key, correlation_id in zip(
            *(column.split(",") for column in line.split("\t")), strict=True
        )
    ]
    requests = [
        event
        for event in events_of([capture])
        if isinstance(event, Frame) and event.direction is Direction.REQUEST
    ]
    assert len(requests) > 20
    assert [(int(key), int(number)) for key, number in keys_and_ids] == [
        (int.from_bytes(frame.body[:2]), int.from_bytes(frame.body[4:8])) for frame in requests
    ]


@pytest.mark.endurance
def test_checksums_except_those_of_large_segments_are_complete(recording: tuple[int, Path]) -> None:
    port, capture = recording
    check = ("-o", "tcp.check_checksum:TRUE", "-T", "fields", "-e", "tcp.checksum.status")
    small = tshark(capture, port, *check, "-Y", f"tcp.len < {LARGE_PAYLOAD_BYTES}")
    assert len(small) > 20
    assert set(small) == {_CORRECT_CHECKSUM}


@pytest.mark.endurance
def test_wireshark_finds_no_errors_in_rotated_files(tmp_path: Path) -> None:
    # A file ends after the frame that fills it, so each round fills one.
    port, captures = record_clients(tmp_path, "--rotate-bytes", "64k", rounds=5)
    assert len(captures) > 5
    for capture in captures:
        assert tshark(capture, port, "-Y", WRONG) == []
    with required():
        merge = program("mergecap")
    merged = tmp_path / "whole.pcapng"
    subprocess.run([merge, "-w", str(merged), *map(str, captures)], check=True)
    assert tshark(merged, port, "-Y", WRONG) == []
    all_exchanges = list(exchanges(iter(events_of(captures))))
    # A producer with acks=0 gets no responses.
    unanswered = [
        exchange.api_key
        for exchange in all_exchanges
        if exchange.response is None and exchange.api_key != PRODUCE
    ]
    assert len(unanswered) <= 4, "only requests that waited at the end have no response"
    assert sum(exchange.response is not None for exchange in all_exchanges) > 20


@pytest.mark.endurance
def test_truncated_records_are_valid_records(tmp_path: Path) -> None:
    port, (capture,) = record_clients(tmp_path, "--truncate-records", "8")
    assert PAYLOAD[:9] not in capture.read_bytes()
    assert PAYLOAD[:8] in capture.read_bytes()
    assert tshark(capture, port, "-Y", WRONG) == []
    assert len(tshark(capture, port, "-Y", "frame.comment contains snapped")) > 3


def test_killed_broker_leaves_a_valid_capture(tmp_path: Path) -> None:
    _, captures = record_clients(tmp_path, is_killed=True)
    all_exchanges = list(exchanges(iter(events_of(captures))))
    assert sum(exchange.response is not None for exchange in all_exchanges) > 20
