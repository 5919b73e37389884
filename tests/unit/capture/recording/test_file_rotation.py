"""Unit tests of capture files: rotation, unique names, full disks."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.recording.file_rotation import CaptureError, FileRotation, started_ms_of

if TYPE_CHECKING:
    from pathlib import Path

HEAD, TAIL = b"HEAD", b"TAIL"
BEGIN_NS = 1_795_328_756_909_164_531
SECOND_NS = 1_000_000_000


class Series:
    """A rotation, its warnings, and a disk that can be full."""

    def __init__(
        self,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch | None = None,
        *,
        file_bytes: int = 100,
        file_ns: int | None = None,
    ) -> None:
        self.directory = directory
        self.warnings: list[str] = []
        self.free_bytes: int | None = None
        self.rotation = FileRotation(
            str(directory),
            file_bytes=file_bytes,
            file_ns=file_ns,
            header=lambda: HEAD,
            trailer=lambda _: TAIL,
            warn=self.warnings.append,
        )
        if monkeypatch is not None:
            self._write = os.write
            monkeypatch.setattr(os, "write", self.write)
            monkeypatch.setattr(
                "kafkalite.capture.recording.file_rotation.writev",
                lambda fd, pieces: self.write(fd, b"".join(pieces)),
            )

    def write(self, fd: int, data: bytes) -> int:
        """Write at most three bytes per call, up to the free space."""
        if self.free_bytes == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = min(3, len(data)) if self.free_bytes is None else min(3, len(data), self.free_bytes)
        if self.free_bytes is not None:
            self.free_bytes -= count
        return self._write(fd, data[:count])

    def add(self, block: bytes, at_ns: int = BEGIN_NS) -> None:
        self.rotation.rotate_if_due(at_ns)
        self.rotation.add((block[:2], memoryview(block)[2:]))
        self.rotation.flush()

    def contents(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted(self.directory.iterdir())]


def test_file_name_has_the_time_of_the_first_packet(tmp_path: Path) -> None:
    series = Series(tmp_path / "made")
    series.rotation.begin(BEGIN_NS)
    series.add(b"block")
    series.rotation.close()
    (path,) = series.directory.iterdir()
    assert path.name == "kafkalite-20261122T062556.909164531Z-0000.pcapng"
    assert path.read_bytes() == b"HEADblockTAIL"
    assert path.stat().st_mode & 0o077 == 0


def test_new_file_begins_by_size_or_age(tmp_path: Path) -> None:
    series = Series(tmp_path, file_ns=10 * SECOND_NS)
    series.rotation.begin(BEGIN_NS)
    series.add(b"a" * 96)
    series.add(b"b", BEGIN_NS + SECOND_NS)
    series.add(b"c", BEGIN_NS + 10 * SECOND_NS)
    series.add(b"d", BEGIN_NS + 11 * SECOND_NS)
    assert series.rotation.file_number == 3
    series.rotation.close()
    assert series.contents() == [b"HEAD" + b"a" * 96 + b"TAIL", b"HEADbcTAIL", b"HEADdTAIL"]


def test_constant_time_gives_sorted_names(tmp_path: Path) -> None:
    for block in (b"x", b"y"):  # the second rotation begins at the same time, as after a restart
        series = Series(tmp_path, file_bytes=5)
        series.rotation.begin(0)
        for number in range(6):
            series.add(block + b"%d" % number, 0)
        series.rotation.close()
    found = [each[4:-4] for each in series.contents()]
    assert b"".join(found) == b"x0x1x2x3x4x5y0y1y2y3y4y5"


@pytest.mark.parametrize("at_ns", [-5, 0, 10**30])
def test_any_time_gives_a_valid_name(tmp_path: Path, at_ns: int) -> None:
    series = Series(tmp_path)
    series.rotation.begin(at_ns)
    series.rotation.close()
    assert series.contents() == [HEAD + TAIL]


def test_unusable_directory_raises_capture_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match=r"cannot write captures to .*/file/below: not a dir"):
        Series(tmp_path / "file" / "below").rotation.begin(0)


def test_full_disk_at_the_start_raises_capture_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = Series(tmp_path, monkeypatch)
    series.free_bytes = 2
    with pytest.raises(CaptureError, match=r"cannot write captures to .*: no space"):
        series.rotation.begin(0)
    assert series.contents() == []
    assert series.warnings == []


def test_full_disk_loses_packets_but_leaves_valid_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = Series(tmp_path, monkeypatch)
    series.rotation.begin(BEGIN_NS)
    series.add(b"before")
    series.free_bytes = 4
    for _ in range(3):
        series.add(b"during")
    assert series.contents() == [b"HEADbefore"]
    assert len(series.warnings) == 1
    assert "no space left on device" in series.warnings[0]
    series.free_bytes = None
    series.add(b"too soon", BEGIN_NS + SECOND_NS)
    series.add(b"after", BEGIN_NS + 5 * SECOND_NS)
    series.rotation.close()
    assert series.contents() == [b"HEADbefore", b"HEADafterTAIL"]
    assert len(series.warnings) == 2
    assert "26 bytes of packets were lost" in series.warnings[1]
    assert series.rotation.file_number == 2


def test_disk_that_stays_full_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = Series(tmp_path, monkeypatch)
    series.rotation.begin(BEGIN_NS)
    series.free_bytes = 0
    for number in range(20):
        series.add(b"lost", BEGIN_NS + number * 5 * SECOND_NS)
    series.rotation.close()
    assert len(series.warnings) == 1


def test_file_without_packets_is_removed_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = Series(tmp_path, monkeypatch)
    series.rotation.begin(BEGIN_NS)
    series.add(b"before")
    series.free_bytes = 0
    for number in range(20):
        series.add(b"lost", BEGIN_NS + number * 5 * SECOND_NS)
        series.free_bytes = len(HEAD)
    assert series.contents() == [b"HEADbefore"]
    assert len(series.warnings) == 1
    series.free_bytes = None
    series.add(b"after", BEGIN_NS + 100 * SECOND_NS)
    assert series.contents() == [b"HEADbefore", b"HEADafter"]
    assert "bytes of packets were lost" in series.warnings[1]


def test_removed_file_is_followed_by_a_new_one(tmp_path: Path) -> None:
    series = Series(tmp_path / "made")
    series.rotation.begin(BEGIN_NS)
    for path in series.directory.iterdir():
        path.unlink()
    series.add(b"lost")
    series.add(b"written", BEGIN_NS + SECOND_NS)
    assert series.contents() == [b"HEADwritten"]
    assert series.rotation.file_number == 2
    assert "0000.pcapng was removed" in series.warnings[0]
    shutil.rmtree(series.directory)
    series.add(b"lost", BEGIN_NS + 2 * SECOND_NS)
    series.add(b"written too", BEGIN_NS + 3 * SECOND_NS)
    series.rotation.close()
    assert series.contents() == [b"HEADwritten tooTAIL"]
    assert len(series.warnings) == 2


def test_clock_set_back_begins_a_new_file(tmp_path: Path) -> None:
    series = Series(tmp_path, file_ns=10 * SECOND_NS)
    series.rotation.begin(BEGIN_NS)
    series.add(b"now", BEGIN_NS)
    series.add(b"back", BEGIN_NS - 3600 * SECOND_NS)
    series.add(b"on", BEGIN_NS - 3595 * SECOND_NS)
    series.rotation.close()
    assert series.contents() == [b"HEADbackonTAIL", b"HEADnowTAIL"]


def test_file_with_unwritten_end_is_followed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = Series(tmp_path, monkeypatch, file_ns=10 * SECOND_NS)
    series.rotation.begin(BEGIN_NS)
    series.add(b"before")
    series.free_bytes = 0
    series.rotation.rotate_if_due(BEGIN_NS + 10 * SECOND_NS)
    series.free_bytes = None
    series.add(b"too soon", BEGIN_NS + 11 * SECOND_NS)
    series.add(b"after", BEGIN_NS + 15 * SECOND_NS)
    series.rotation.close()
    assert series.contents() == [b"HEADbefore", b"HEADafterTAIL"]
    assert "no space left on device" in series.warnings[0]
    assert "12 bytes of packets were lost" in series.warnings[1]
    assert len(series.warnings) == 2


def test_more_pieces_than_one_writev_call_are_written_in_order(tmp_path: Path) -> None:
    series = Series(tmp_path, file_bytes=10**9)
    series.rotation.begin(0)
    expected = [b"%d," % number for number in range(5_000)]
    for number in range(0, len(expected), 2):
        series.rotation.add(expected[number : number + 2])
    series.rotation.close()
    assert series.contents() == [HEAD + b"".join(expected) + TAIL]


def test_the_name_of_a_file_says_when_it_was_begun(tmp_path: Path) -> None:
    Series(tmp_path).rotation.begin(BEGIN_NS)
    (path,) = tmp_path.iterdir()
    assert started_ms_of(path.name) == BEGIN_NS // 1_000_000


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a.pcapng",
        "kafkalite-20261322T064802.412000000Z-0000.pcapng",
        "kafkalite-20261122T064802.412000000Z-0000.pcapng.gz",
    ],
)
def test_another_name_says_nothing_about_time(name: str) -> None:
    assert started_ms_of(name) is None
