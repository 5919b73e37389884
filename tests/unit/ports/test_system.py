"""The replacements of system calls behave as the calls do."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.system import read_at, replace_with_retries, user_id, write_all

if TYPE_CHECKING:
    from pathlib import Path


def test_read_at_reads_from_a_position_up_to_the_end(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT | os.O_APPEND)
    try:
        assert write_all(fd, [b"abc", memoryview(b"de"), bytearray(b"f")]) == 6
        assert read_at(fd, 3, 2) == b"cde"
        assert read_at(fd, 100, 4) == b"ef"
        assert read_at(fd, 100, 50) == b""
        assert read_at(fd, 0, 0) == b""
        # The position that a read leaves does not matter to an append.
        assert read_at(fd, 1, 0) == b"a"
        assert write_all(fd, [b"g"]) == 1
        assert read_at(fd, 1 << 40, 0) == b"abcdefg"
    finally:
        os.close(fd)


def test_read_at_continues_a_short_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"abcdef")
    read = os.read
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    try:
        monkeypatch.setattr(os, "read", lambda fd, size: read(fd, min(size, 2)))
        assert read_at(fd, 5, 1) == b"bcdef"
    finally:
        monkeypatch.undo()
        os.close(fd)


class Scanner:
    """A system that refuses a number of renames, as a virus scanner makes it."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.renames: list[tuple[str, str]] = []
        self.waited_s = 0.0

    def replace(self, old: str, new: str) -> None:
        if self.refusals:
            self.refusals -= 1
            raise PermissionError(13, "access is denied", old)
        self.renames.append((old, new))

    def sleep(self, wait_s: float) -> None:
        self.waited_s += wait_s


@pytest.mark.parametrize("refusals", [0, 1, 8])
def test_a_refused_rename_is_tried_again(refusals: int) -> None:
    scanner = Scanner(refusals)
    replace_with_retries("a", "b", scanner.replace, scanner.sleep)
    assert scanner.renames == [("a", "b")]
    assert (scanner.waited_s > 0) is (refusals > 0)


def test_a_rename_that_is_always_refused_raises_after_less_than_a_second() -> None:
    scanner = Scanner(100)
    with pytest.raises(PermissionError, match="denied"):
        replace_with_retries("a", "b", scanner.replace, scanner.sleep)
    assert scanner.refusals == 91
    assert 0.1 < scanner.waited_s < 1


def test_users_have_no_numbers_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_id() == os.geteuid()
    monkeypatch.delattr(os, "geteuid")
    assert user_id() is None
