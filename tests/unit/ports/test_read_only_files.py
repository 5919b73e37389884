"""Files that are only read: changes have an effect for the reader alone."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.read_only_files import ReadOnlyFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "a.log").write_bytes(b"0123456789")
    (tmp_path / "b.log").write_bytes(b"b")
    return tmp_path


def test_a_truncated_file_ends_earlier(directory: Path) -> None:
    file = ReadOnlyFiles().open(f"{directory}/a.log")
    assert file.pread(100, 2) == b"23456789"
    file.truncate(4)
    assert (file.size, file.pread(100, 2), file.pread(9, 9)) == (4, b"23", b"")
    file.truncate(8)
    assert file.size == 4
    file.close()
    assert (directory / "a.log").read_bytes() == b"0123456789"


def test_removed_renamed_and_written_files_are_known(directory: Path) -> None:
    files = ReadOnlyFiles()
    a, b, c = (f"{directory}/{name}.log" for name in "abc")
    files.rename(a, c)
    files.write(b, b"other")
    assert files.list(f"{directory}") == ["c.log"]
    assert files.read(c) == b"0123456789"
    assert files.modified_ms(c) == ReadOnlyFiles().modified_ms(a)
    for path in (a, b):
        with pytest.raises(FileNotFoundError):
            files.read(path)
    files.rename(c, a)
    assert files.list(f"{directory}") == ["a.log"]
    files.remove(a)
    assert files.list(f"{directory}") == []
    assert sorted(each.name for each in directory.iterdir()) == ["a.log", "b.log"]
    assert files.list(f"{directory}/none") == []


@pytest.mark.parametrize(
    "change",
    [
        lambda files, path: files.open(path).append([b"x"]),
        lambda files, path: files.descriptor(f"{path}.new", 0o1 | 0o100),
        lambda files, path: files.mkdir(f"{path}.directory"),
    ],
)
def test_changes_are_refused(
    directory: Path, change: Callable[[ReadOnlyFiles, str], object]
) -> None:
    with pytest.raises(OSError, match="Read-only") as caught:
        change(ReadOnlyFiles(), f"{directory}/a.log")
    assert caught.value.errno == errno.EROFS
    assert len(list(directory.iterdir())) == 2


def test_what_leaves_no_trace_does_nothing(directory: Path) -> None:
    files = ReadOnlyFiles()
    files.lock(f"{directory}/.lock").release()
    files.makedirs(f"{directory}/new")
    files.remove_directory(f"{directory}")
    files.sync_all(f"{directory}", [])
    assert sorted(each.name for each in directory.iterdir()) == ["a.log", "b.log"]
