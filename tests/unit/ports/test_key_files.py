"""Files with keys: private, and replaced as a whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kafkalite.ports.key_files import (
    is_open_to_others,
    modification_time_ns,
    read_key_file,
    read_small_file,
    read_store_file,
    remove_key_file,
    temporary_key_file,
    write_key_file,
)


def test_written_files_are_private_and_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "key.pem")
    (tmp_path / "key.pem.new").write_bytes(b"of a killed process")
    write_key_file(path, b"first")
    write_key_file(path, b"second")
    assert read_key_file(path) == b"second"
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["key.pem"]


def test_the_time_of_a_missing_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    assert modification_time_ns(str(path)) is None
    path.write_bytes(b"")
    assert modification_time_ns(str(path)) == path.stat().st_mtime_ns
    with pytest.raises(FileNotFoundError):
        read_key_file(str(tmp_path / "missing"))


def test_a_temporary_file_is_private_and_removed() -> None:
    with temporary_key_file(b"content") as path:
        assert Path(path).read_bytes() == b"content"
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    assert not Path(path).exists()


def test_a_file_is_removed_if_it_exists(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(b"")
    remove_key_file(str(path))
    remove_key_file(str(path))
    assert not path.exists()


def test_a_small_file_is_regular_and_within_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(b"12345")
    assert read_small_file(str(path), 5) == b"12345"
    with pytest.raises(OSError, match="is larger than 4 bytes"):
        read_small_file(str(path), 4)
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    for other in (pipe, str(tmp_path), "/dev/zero"):
        with pytest.raises(OSError, match="is not a regular file"):
            read_small_file(other, 5)
        with pytest.raises(OSError, match="is not a regular file"):
            read_store_file(other)
    assert read_store_file(str(path)) == b"12345"


def test_a_file_is_open_to_others_if_they_read_or_write_it(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_bytes(b"")
    for mode, is_open in ((0o600, False), (0o660, False), (0o604, True), (0o602, True)):
        path.chmod(mode)
        assert is_open_to_others(str(path)) is is_open
