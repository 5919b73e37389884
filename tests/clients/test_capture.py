"""`kafkalite serve --capture` under real clients, and what Wireshark has to say of its files."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kafkalite.capture.model import Direction, Frame
from kafkalite.capture.reading import exchanges, read
from kafkalite.capture.synthetic import LARGE_BYTES
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
NOT_OURS = (
    "kafka.unsupported_api_version || kafka.api_key in {11, 14} || kafka.response_key in {11, 14}"
)
"""What tshark 4.0 stumbles over by itself: versions newer than it, and metadata and assignments
in JoinGroup and SyncGroup whose lengths are not compact."""

WRONG = (
    "tcp.analysis.flags || ip.checksum.status == 0 "
    f"|| (_ws.malformed && !({NOT_OURS})) || tcp.segment.error"
)
"""What is wrong with packets, by a display filter."""

_GOOD = "1"
"""What tshark calls a checksum that is right, by number."""


def visit_with_librdkafka(bootstrap: str) -> None:
    """Produce, and consume as a group."""
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd"})
    for number in range(COUNT):
        producer.produce("native", PAYLOAD, key=f"{number}")
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "native", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["native"])
    seen = 0
    while seen < COUNT:
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == PAYLOAD
        seen += 1
    consumer.commit(asynchronous=False)
    consumer.close()


def visit_with_large_requests(bootstrap: str) -> None:
    """Produce much in a few large requests without acknowledgement, and read it by itself."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 100, "acks": 0, "batch.size": 500_000}
    )
    for _ in range(4 * COUNT):
        producer.produce("large", PAYLOAD)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "large"})
    consumer.assign([TopicPartition("large", 0, OFFSET_BEGINNING)])
    for _ in range(4 * COUNT):
        assert consumer.poll(30) is not None
    consumer.close()


def recorded(directory: Path, *options: str, is_killed: bool = False) -> tuple[int, list[Path]]:
    """Have clients visit a broker that records; return its port and its captures."""
    captures = directory / "captures"
    broker = ServedKafkalite(
        directory, {"num.partitions": "1"}, options=("--capture", str(captures), *options)
    )
    broker.start()
    try:
        visit_with_librdkafka(broker.bootstrap)
        visit_with_large_requests(broker.bootstrap)
        if not is_killed:
            broker.stop()
    finally:
        broker.kill()
    return broker.port, sorted(captures.iterdir())


def tshark(capture: Path, port: int, *options: str) -> list[str]:
    """Return the lines that tshark writes of a capture."""
    with required():
        command = [program("tshark"), "-r", str(capture), "-d", f"tcp.port=={port},kafka"]
    command += ["-o", "ip.check_checksum:TRUE"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def events_of(captures: Iterable[Path]) -> list[Event]:
    problems: list[Problem] = []
    found = list(read([str(each) for each in captures], problems.append))
    assert problems == []
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Path]:
    """Record one visit into one file."""
    port, (capture,) = recorded(tmp_path_factory.mktemp("whole"))
    return port, capture


def test_wireshark_finds_nothing_wrong(whole: tuple[int, Path]) -> None:
    port, capture = whole
    assert tshark(capture, port, "-Y", WRONG) == []
    theirs = tshark(
        capture, port, "-Y", "kafka.request_key", "-T", "fields", "-e", "kafka.request_key",
        "-e", "kafka.correlation_id",
    )  # fmt: skip
    named = [
        (key, correlation_id)
        for line in theirs
        for key, correlation_id in zip(*(part.split(",") for part in line.split("\t")), strict=True)
    ]
    requests = [
        each
        for each in events_of([capture])
        if isinstance(each, Frame) and each.direction is Direction.REQUEST
    ]
    assert len(requests) > 20
    assert [(int(key), int(number)) for key, number in named] == [
        (int.from_bytes(each.body[:2]), int.from_bytes(each.body[4:8])) for each in requests
    ]


def test_checksums_of_all_but_large_segments_are_finished(whole: tuple[int, Path]) -> None:
    port, capture = whole
    check = ("-o", "tcp.check_checksum:TRUE", "-T", "fields", "-e", "tcp.checksum.status")
    small = tshark(capture, port, *check, "-Y", f"tcp.len < {LARGE_BYTES}")
    assert len(small) > 20
    assert set(small) == {_GOOD}


def test_nor_with_rotated_files_one_by_one_and_merged(tmp_path: Path) -> None:
    port, captures = recorded(tmp_path, "--rotate-bytes", "64k")
    assert len(captures) > 5
    for capture in captures:
        assert tshark(capture, port, "-Y", WRONG) == []
    with required():
        merge = program("mergecap")
    whole = tmp_path / "whole.pcapng"
    subprocess.run([merge, "-w", str(whole), *map(str, captures)], check=True)
    assert tshark(whole, port, "-Y", WRONG) == []
    every = list(exchanges(iter(events_of(captures))))
    # Who produces without acknowledgement gets none.
    silent = [each.api_key for each in every if each.response is None and each.api_key != PRODUCE]
    assert len(silent) <= 4, "all but who was waiting at the end"
    assert sum(each.response is not None for each in every) > 20


def test_cut_records_are_still_records(tmp_path: Path) -> None:
    port, (capture,) = recorded(tmp_path, "--snap-records", "8")
    assert PAYLOAD[:9] not in capture.read_bytes()
    assert PAYLOAD[:8] in capture.read_bytes()
    assert tshark(capture, port, "-Y", WRONG) == []
    assert len(tshark(capture, port, "-Y", "frame.comment contains snapped")) > 3


def test_a_broker_that_is_killed_leaves_a_capture_without_a_fault(tmp_path: Path) -> None:
    _, captures = recorded(tmp_path, is_killed=True)
    every = list(exchanges(iter(events_of(captures))))
    assert sum(each.response is not None for each in every) > 20
