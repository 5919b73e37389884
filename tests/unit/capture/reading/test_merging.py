"""Unit tests of merging files by time."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

from kafkalite.capture.formats.capture_files import Window
from kafkalite.capture.model import Endpoint, Problem, ProblemKind
from kafkalite.capture.reading.merging import segments
from tests.captures import damage
from tests.captures.damage import ACK, TcpPacket

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MS = 1_000_000


def packet(at_ms: int) -> TcpPacket:
    return TcpPacket(
        at_ns=at_ms * MS,
        source=Endpoint("10.0.0.1", 1),
        target=Endpoint("10.0.0.2", 2),
        seq=at_ms,
        ack=0,
        flags=ACK,
        payload=b"x",
    )


def read(*paths: Path) -> tuple[list[int], list[Problem]]:
    found: list[Problem] = []
    return [each.seq for each in segments(paths, found.append)], found


def write(path: Path, *times: int, container: str = "pcapng") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(damage.capture_file(map(packet, times), container=container))
    return path


def test_rotated_files_are_read_in_time_order_with_any_names(tmp_path: Path) -> None:
    write(tmp_path / "trace.pcap10", 1, 2, container="pcap")
    write(tmp_path / "trace.pcap11", 3, 4, container="pcap ns")
    write(tmp_path / "trace.pcap0", 5, 6)
    assert read(tmp_path) == ([1, 2, 3, 4, 5, 6], [])


def test_overlapping_files_are_merged_by_time(tmp_path: Path) -> None:
    write(tmp_path / "a" / "one.pcapng", 1, 4, 5, 9)
    write(tmp_path / "b" / "two.pcapng", 2, 5, 8)
    write(tmp_path / "b" / "c" / "three.pcapng", 3, 6, 7, 10)
    assert read(tmp_path) == ([1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10], [])


def test_file_is_read_once_and_hidden_files_are_skipped(tmp_path: Path) -> None:
    one = write(tmp_path / "one.pcapng", 1)
    write(tmp_path / ".two.pcapng", 2)
    write(tmp_path / ".git" / "three.pcapng", 3)
    assert read(one, tmp_path, one) == ([1], [])


def test_gzipped_files_are_read(tmp_path: Path) -> None:
    one = write(tmp_path / "one.pcapng.gz", 1, 3, container="pcapng gz")
    write(tmp_path / "two.pcap", 2, container="pcap")
    assert gzip.decompress(one.read_bytes()) == damage.capture_file(map(packet, (1, 3)))
    assert read(tmp_path) == ([1, 2, 3], [])


def test_other_files_are_reported_and_captures_are_read(tmp_path: Path) -> None:
    write(tmp_path / "one.pcapng", 1)
    (tmp_path / "README").write_text("look at one.pcapng")
    (tmp_path / "empty.pcap").write_bytes(b"")
    found, problems = read(tmp_path, tmp_path / "gone.pcap")
    assert found == [1]
    assert [(os.path.basename(each.file), each.kind, each.detail) for each in problems] == [  # noqa: PTH119
        ("README", ProblemKind.NOT_A_CAPTURE, "neither pcap nor pcapng: begins with 6c6f6f6b"),
        ("empty.pcap", ProblemKind.NOT_A_CAPTURE, "an empty file"),
        ("gone.pcap", ProblemKind.UNREADABLE, "No such file or directory"),
    ]


def test_capture_without_packets_is_no_problem(tmp_path: Path) -> None:
    write(tmp_path / "idle.pcap", container="pcap")
    write(tmp_path / "idle.pcapng")
    assert read(tmp_path) == ([], [])


def test_problem_at_the_start_of_a_file_is_reported_once(tmp_path: Path) -> None:
    path = write(tmp_path / "one.pcapng", 1, 2)
    data = path.read_bytes()
    path.write_bytes(data[:48] + b"\xff" * 16 + data[48:])
    found, problems = read(path)
    assert found == [1, 2]
    assert [each.kind for each in problems] == [ProblemKind.CORRUPT_BLOCK]


def test_few_of_many_files_are_open_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        write(tmp_path / f"{number:03}.pcap", number * 2, number * 2 + 1, container="pcap")
    alive: list[int] = []
    buffer_bytes = Window.buffer_bytes

    def counting(view: Window, size: int) -> bool:
        alive.append(len(os.listdir("/proc/self/fd")))  # noqa: PTH208
        return buffer_bytes(view, size)

    if os.path.isdir("/proc/self/fd"):  # noqa: PTH112
        monkeypatch.setattr(Window, "buffer_bytes", counting)
    assert read(tmp_path) == (list(range(100)), [])
    assert max(alive, default=0) - min(alive, default=0) <= 3


def test_pipes_and_loops_are_reported_without_waiting(tmp_path: Path) -> None:
    write(tmp_path / "one.pcapng", 1)
    os.mkfifo(tmp_path / "pipe.pcapng")
    (tmp_path / "loop.pcapng").symlink_to(tmp_path / "loop.pcapng")
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    found, problems = read(tmp_path)
    assert found == [1]
    assert {os.path.basename(each.file) for each in problems} == {"pipe.pcapng", "loop.pcapng"}  # noqa: PTH119
    assert {each.kind for each in problems} == {ProblemKind.UNREADABLE}


def test_unreadable_directory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "one.pcapng", 1)
    closed = tmp_path / "closed"
    closed.mkdir()
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path == str(closed):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found, problems = read(tmp_path)
    assert found == [1]
    assert [(each.kind, each.file, each.detail) for each in problems] == [
        (ProblemKind.UNREADABLE, str(closed), "Permission denied")
    ]
