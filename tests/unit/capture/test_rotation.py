"""Files of a capture: one after the other, never over one another, and through a full disk."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.rotation import CaptureError, Rotation

if TYPE_CHECKING:
    from pathlib import Path

HEAD, TAIL = b"HEAD", b"TAIL"
BEGIN_NS = 1_795_328_756_909_164_531
SECOND_NS = 1_000_000_000


class Series:
    """A rotation, what it told, and a disk that can be full."""

    def __init__(
        self,
        directory: Path,
        monkeypatch: pytest.MonkeyPatch | None = None,
        *,
        file_bytes: int = 100,
        file_ns: int | None = None,
    ) -> None:
        self.directory = directory
        self.told: list[str] = []
        self.room: int | None = None
        self.rotation = Rotation(
            str(directory),
            file_bytes=file_bytes,
            file_ns=file_ns,
            head=lambda: HEAD,
            tail=lambda _: TAIL,
            tell=self.told.append,
        )
        if monkeypatch is not None:
            self._write = os.write
            monkeypatch.setattr(os, "write", self.write)
            monkeypatch.setattr(os, "writev", lambda fd, pieces: self.write(fd, b"".join(pieces)))

    def write(self, fd: int, data: bytes) -> int:
        """Take what there is room for, at most three bytes at once, as a disk may."""
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = min(3, len(data)) if self.room is None else min(3, len(data), self.room)
        if self.room is not None:
            self.room -= count
        return self._write(fd, data[:count])

    def add(self, block: bytes, at_ns: int = BEGIN_NS) -> None:
        self.rotation.make_ready(at_ns)
        self.rotation.add((block[:2], memoryview(block)[2:]))
        self.rotation.flush()

    def contents(self) -> list[bytes]:
        return [path.read_bytes() for path in sorted(self.directory.iterdir())]


def test_a_file_is_named_by_its_first_packet(tmp_path: Path) -> None:
    series = Series(tmp_path / "made")
    series.rotation.begin(BEGIN_NS)
    series.add(b"block")
    series.rotation.close()
    (path,) = series.directory.iterdir()
    assert path.name == "kafkalite-20261122T062556.909164531Z-0000.pcapng"
    assert path.read_bytes() == b"HEADblockTAIL"
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_is_followed_when_it_is_large_or_old(tmp_path: Path) -> None:
    series = Series(tmp_path, file_ns=10 * SECOND_NS)
    series.rotation.begin(BEGIN_NS)
    series.add(b"a" * 96)
    series.add(b"b", BEGIN_NS + SECOND_NS)
    series.add(b"c", BEGIN_NS + 10 * SECOND_NS)
    series.add(b"d", BEGIN_NS + 11 * SECOND_NS)
    assert series.rotation.serial == 3
    series.rotation.close()
    assert series.contents() == [b"HEAD" + b"a" * 96 + b"TAIL", b"HEADbcTAIL", b"HEADdTAIL"]


def test_time_that_stands_gives_names_in_order(tmp_path: Path) -> None:
    for block in (b"x", b"y"):  # the second begins where the first was, as a restart does
        series = Series(tmp_path, file_bytes=5)
        series.rotation.begin(0)
        for number in range(6):
            series.add(block + b"%d" % number, 0)
        series.rotation.close()
    found = [each[4:-4] for each in series.contents()]
    assert b"".join(found) == b"x0x1x2x3x4x5y0y1y2y3y4y5"


@pytest.mark.parametrize("at_ns", [-5, 0, 10**30])
def test_any_time_has_a_name(tmp_path: Path, at_ns: int) -> None:
    series = Series(tmp_path)
    series.rotation.begin(at_ns)
    series.rotation.close()
    assert series.contents() == [HEAD + TAIL]


def test_where_nothing_can_be_written_nothing_begins(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match=r"cannot write captures to .*/file/below: not a dir"):
        Series(tmp_path / "file" / "below").rotation.begin(0)


def test_nor_where_there_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = Series(tmp_path, monkeypatch)
    series.room = 2
    with pytest.raises(CaptureError, match=r"cannot write captures to .*: no space"):
        series.rotation.begin(0)
    assert series.contents() == []
    assert series.told == []


def test_a_full_disk_costs_packets_but_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = Series(tmp_path, monkeypatch)
    series.rotation.begin(BEGIN_NS)
    series.add(b"before")
    series.room = 4
    for _ in range(3):
        series.add(b"during")
    assert series.contents() == [b"HEADbefore"]
    assert len(series.told) == 1
    assert "no space left on device" in series.told[0]
    series.room = None
    series.add(b"too soon", BEGIN_NS + SECOND_NS)
    series.add(b"after", BEGIN_NS + 5 * SECOND_NS)
    series.rotation.close()
    assert series.contents() == [b"HEADbefore", b"HEADafterTAIL"]
    assert len(series.told) == 2
    assert "26 bytes of packets are missing" in series.told[1]
    assert series.rotation.serial == 2


def test_a_disk_that_stays_full_is_told_of_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = Series(tmp_path, monkeypatch)
    series.rotation.begin(BEGIN_NS)
    series.room = 0
    for number in range(20):
        series.add(b"lost", BEGIN_NS + number * 5 * SECOND_NS)
    series.rotation.close()
    assert len(series.told) == 1


def test_room_for_no_packet_is_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = Series(tmp_path, monkeypatch)
    series.rotation.begin(BEGIN_NS)
    series.add(b"before")
    series.room = 0
    for number in range(20):
        series.add(b"lost", BEGIN_NS + number * 5 * SECOND_NS)
        series.room = len(HEAD)
    assert series.contents() == [b"HEADbefore"]
    assert len(series.told) == 1
    series.room = None
    series.add(b"after", BEGIN_NS + 100 * SECOND_NS)
    assert series.contents() == [b"HEADbefore", b"HEADafter"]
    assert "bytes of packets are missing" in series.told[1]


def test_a_file_that_is_removed_is_followed(tmp_path: Path) -> None:
    series = Series(tmp_path / "made")
    series.rotation.begin(BEGIN_NS)
    for path in series.directory.iterdir():
        path.unlink()
    series.add(b"went with it")
    series.add(b"kept", BEGIN_NS + SECOND_NS)
    assert series.contents() == [b"HEADkept"]
    assert series.rotation.serial == 2
    assert "0000.pcapng was removed" in series.told[0]
    shutil.rmtree(series.directory)
    series.add(b"went with it", BEGIN_NS + 2 * SECOND_NS)
    series.add(b"kept too", BEGIN_NS + 3 * SECOND_NS)
    series.rotation.close()
    assert series.contents() == [b"HEADkept tooTAIL"]
    assert len(series.told) == 2


def test_a_clock_that_is_set_back_begins_a_file(tmp_path: Path) -> None:
    series = Series(tmp_path, file_ns=10 * SECOND_NS)
    series.rotation.begin(BEGIN_NS)
    series.add(b"now", BEGIN_NS)
    series.add(b"back", BEGIN_NS - 3600 * SECOND_NS)
    series.add(b"on", BEGIN_NS - 3595 * SECOND_NS)
    series.rotation.close()
    assert series.contents() == [b"HEADbackonTAIL", b"HEADnowTAIL"]


def test_a_file_whose_end_cannot_be_written_is_followed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = Series(tmp_path, monkeypatch, file_ns=10 * SECOND_NS)
    series.rotation.begin(BEGIN_NS)
    series.add(b"before")
    series.room = 0
    series.rotation.make_ready(BEGIN_NS + 10 * SECOND_NS)
    series.room = None
    series.add(b"too soon", BEGIN_NS + 11 * SECOND_NS)
    series.add(b"after", BEGIN_NS + 15 * SECOND_NS)
    series.rotation.close()
    assert series.contents() == [b"HEADbefore", b"HEADafterTAIL"]
    assert "no space left on device" in series.told[0]
    assert "12 bytes of packets are missing" in series.told[1]
    assert len(series.told) == 2


def test_more_pieces_than_one_system_call_takes_are_written_in_order(tmp_path: Path) -> None:
    series = Series(tmp_path, file_bytes=10**9)
    series.rotation.begin(0)
    wanted = [b"%d," % number for number in range(5_000)]
    for number in range(0, len(wanted), 2):
        series.rotation.add(wanted[number : number + 2])
    series.rotation.close()
    assert series.contents() == [HEAD + b"".join(wanted) + TAIL]
