"""The operating system's files, and the same behaviour in memory."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kafkalite.ports import files as files_module
from kafkalite.ports.files import DiskSpace, Files, OsFiles, disk_space, join
from kafkalite.ports.memory_files import InMemoryFiles
from kafkalite.testing.files import MemoryFiles


@pytest.fixture(params=["operating system", "memory", "memory that can lose power"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """Return a disk and an existing directory on it."""
    if request.param != "operating system":
        files = InMemoryFiles() if request.param == "memory" else MemoryFiles()
        files.makedirs("root")
        return files, "root"
    return OsFiles(), str(tmp_path)


def test_appended_bytes_are_read_back(disk: tuple[Files, str]) -> None:
    files, root = disk
    path = join(root, "file")
    file = files.open(path, create=True)
    file.append([b"abc", memoryview(b"defg")[1:], bytearray(b"h")])
    file.append([])
    file.append([b""])
    assert file.size == 7
    assert file.pread(3, 2) == b"cef"
    assert file.pread(100, 5) == b"gh"
    assert file.pread(100, 50) == b""
    assert files.read(path) == b"abcefgh"
    file.truncate(2)
    file.append([b"z"])
    files.sync(path)
    file.close()
    file.append([b"!"])
    assert files.open(path).size == 4
    assert files.open(path, create=True).pread(9, 0) == b"abz!"
    file.close()


def test_more_buffers_than_one_call_takes(disk: tuple[Files, str]) -> None:
    files, root = disk
    file = files.open(join(root, "file"), create=True)
    buffers = [b"%d," % number for number in range(3000)]
    file.append(buffers)
    assert files.read(join(root, "file")) == b"".join(buffers)
    assert file.size == len(b"".join(buffers))
    file.close()


def test_opening_and_renaming_absent_files_raises_and_removing_does_not(
    disk: tuple[Files, str],
) -> None:
    files, root = disk
    for ask in (files.open, files.read, files.modified_ms):
        with pytest.raises(FileNotFoundError):
            ask(join(root, "absent"))
    with pytest.raises(FileNotFoundError):
        files.open(join(root, "absent", "file"), create=True)
    with pytest.raises(FileNotFoundError):
        files.rename(join(root, "absent"), join(root, "other"))
    files.remove(join(root, "absent"))
    files.remove_directory(join(root, "absent"))
    assert files.list(join(root, "absent")) == []


def test_files_are_listed_renamed_and_removed_by_name(disk: tuple[Files, str]) -> None:
    files, root = disk
    files.makedirs(join(root, "a", "b"))
    files.makedirs(join(root, "a", "b"))
    files.open(join(root, "a", "one"), create=True).append([b"1"])
    files.open(join(root, "a", "two"), create=True).append([b"2"])
    files.sync_directory(join(root, "a"))
    assert files.list(join(root, "a")) == ["b", "one", "two"]
    files.rename(join(root, "a", "one"), join(root, "a", "two"))
    assert files.list(join(root, "a")) == ["b", "two"]
    assert files.read(join(root, "a", "two")) == b"1"
    files.rename(join(root, "a"), join(root, "c"))
    assert files.list(root) == ["c"]
    assert files.read(join(root, "c", "two")) == b"1"
    with pytest.raises(OSError, match="not empty"):
        files.remove_directory(join(root, "c"))
    files.remove_directory(join(root, "c", "b"))
    files.remove(join(root, "c", "two"))
    files.remove_directory(join(root, "c"))
    assert files.list(root) == []


def test_few_descriptors_are_open_at_a_time(tmp_path: Path) -> None:
    files = OsFiles(max_open=4)
    opened = [files.open(str(tmp_path / str(number)), create=True) for number in range(20)]
    before = len(list(Path("/proc/self/fd").iterdir())) if sys.platform == "linux" else 0
    for _ in range(3):
        for number, file in enumerate(opened):
            file.append([b"%d" % (number % 10)])
    if sys.platform == "linux":
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 4
    for number, file in enumerate(opened):
        assert file.pread(10, 0) == b"%d" % (number % 10) * 3
        file.close()


def test_recently_used_files_stay_open(tmp_path: Path) -> None:
    files = OsFiles(max_open=3)
    busy = files.open(str(tmp_path / "busy"), create=True)
    busy.append([b"x"])
    descriptor = busy._fd
    for number in range(10):
        other = files.open(str(tmp_path / str(number)), create=True)
        other.append([b"x"])
        busy.append([b"x"])
    assert busy._fd == descriptor


def test_a_file_that_could_not_be_opened_is_not_counted(tmp_path: Path) -> None:
    """A counted one could never be closed, so making room would never end."""
    files = OsFiles(max_open=1)
    gone = files.open(str(tmp_path / "gone"), create=True)
    files.remove(str(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        gone.append([b"x"])
    other = files.open(str(tmp_path / "other"), create=True)
    other.append([b"x"])
    assert other.pread(9, 0) == b"x"
    other.close()


def test_files_are_closed_when_there_are_no_more_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OsFiles()
    idle, busy = (files.open(str(tmp_path / name), create=True) for name in ("idle", "busy"))
    for file in (idle, busy):
        file.append([b"x"])
    whole = os.open

    def refuse(path: str, flags: int, mode: int) -> int:
        if idle._fd >= 0 or busy._fd >= 0:
            raise OSError(errno.EMFILE, "too many")
        return whole(path, flags, mode)

    monkeypatch.setattr(os, "open", refuse)
    assert files.read(str(tmp_path / "busy")) == b"x"
    monkeypatch.undo()
    busy.append([b"y"])
    assert busy.pread(9, 0) == b"xy"
    busy.close()


def test_lack_of_descriptors_is_reported_without_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="too many"):
        OsFiles().open(str(tmp_path / "file"), create=True)


def test_partial_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    write = os.write
    monkeypatch.setattr(files_module, "_writev", lambda fd, buffers: write(fd, buffers[0][:2]))
    file.append([b"abc", b"def", b"ghi"])
    assert (file.size, file.pread(99, 0)) == (9, b"abcdefghi")
    file.close()


def test_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    write = os.write

    def refuse(_fd: int, _data: object) -> int:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(files_module, "_writev", lambda fd, buffers: write(fd, buffers[0][:2]))
    monkeypatch.setattr(os, "write", refuse)
    with pytest.raises(OSError, match="no space"):
        file.append([b"abc"])
    assert file.size == 2
    monkeypatch.setattr(os, "write", lambda _fd, _data: 0)
    with pytest.raises(OSError, match="progress"):
        file.append([b"abc"])
    file.close()


def test_open_files_are_closed_before_they_are_renamed_or_removed(tmp_path: Path) -> None:
    files, root = OsFiles(closes_renamed=True), str(tmp_path)
    files.makedirs(join(root, "old"))
    paths = [join(root, "old", name) for name in ("a", "b")]
    opened = [files.open(path, create=True) for path in (*paths, join(root, "older"))]
    for file in opened:
        file.append([b"x"])
    before = len(list(Path("/proc/self/fd").iterdir()))
    files.remove(paths[0])
    files.rename(join(root, "old"), join(root, "new"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before - 2
    assert files.read(join(root, "new", "b")) == b"x"
    opened[2].close()


def test_another_process_cannot_take_the_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    program = "import sys; from kafkalite.ports.files import OsFiles; OsFiles().lock(sys.argv[1])"
    command = [sys.executable, "-c", program, path]
    lock = OsFiles().lock(path)
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "BlockingIOError" in refused.stderr
    lock.release()
    lock.release()
    assert subprocess.run(command, check=False).returncode == 0


def test_write_replaces_the_content(disk: tuple[Files, str]) -> None:
    files, root = disk
    path = join(root, "file")
    files.write(path, b"longer")
    files.write(path, b"new")
    assert files.read(path) == b"new"
    files.sync(path)
    with pytest.raises(FileNotFoundError):
        files.sync(join(root, "absent"))


@pytest.mark.parametrize("count", [3, 200])
def test_all_paths_are_synced(disk: tuple[Files, str], count: int) -> None:
    files, root = disk
    paths = [join(root, str(number)) for number in range(count)]
    for path in paths:
        files.write(path, b"content")
    files.sync_all(root, [*paths, root])
    if isinstance(files, MemoryFiles):
        assert files.after_power_loss(lambda _: 0).read(paths[-1]) == b"content"
    elif count < 64:
        with pytest.raises(FileNotFoundError):
            files.sync_all(root, [join(root, "absent")])


@pytest.mark.parametrize("release", ["5.7.19-generic", "6.1.0", "unknown"])
def test_many_paths_are_synced_each_or_with_their_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str
) -> None:
    """Before Linux 5.8, syncfs(2) does not report data that could not be written."""
    synced: list[int] = []
    names = os.uname()
    monkeypatch.setattr(
        os, "uname", lambda: os.uname_result(("Linux", names[1], release, names[3], names[4]))
    )
    monkeypatch.setattr(os, "fsync", synced.append)
    files = OsFiles()
    paths = [join(str(tmp_path), str(number)) for number in range(100)]
    for path in paths:
        files.write(path, b"content")
    files.sync_all(str(tmp_path), paths)
    has_syncfs = release == "6.1.0" and sys.platform == "linux"
    assert len(synced) == (0 if has_syncfs else 100)


def test_nothing_is_synced_unless_files_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    files = OsFiles(is_durable=False)
    files.write(join(str(tmp_path), "file"), b"content")
    files.sync(join(str(tmp_path), "file"))
    files.sync_directory(str(tmp_path))
    files.sync_all(str(tmp_path), [str(tmp_path)])
    assert synced == []


def test_another_thread_does_not_close_files_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = OsFiles()
    file = files.open(join(str(tmp_path), "file"), create=True)
    file.append([b"1"])

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    failures: list[OSError] = []

    def sync() -> None:
        try:
            files.sync(join(str(tmp_path), "file"))
        except OSError as failure:
            failures.append(failure)

    monkeypatch.setattr(os, "open", refuse)
    thread = threading.Thread(target=sync)
    thread.start()
    thread.join()
    file.append([b"2"])
    assert [failure.errno for failure in failures] == [errno.EMFILE]


@pytest.mark.parametrize("is_open", [True, False])
def test_a_file_is_in_place_until_it_is_deleted_or_moved(
    tmp_path: Path,
    is_open: bool,  # noqa: FBT001
) -> None:
    path = tmp_path / "t-0" / "log"
    path.parent.mkdir()
    file = OsFiles().open(str(path), create=True)
    if is_open:
        file.append([b"abc"])
    assert file.is_in_place()
    path.parent.rename(tmp_path / "elsewhere")
    assert not file.is_in_place()
    (tmp_path / "elsewhere").rename(path.parent)
    assert file.is_in_place()
    path.unlink()
    assert not file.is_in_place()
    path.write_bytes(b"another")
    assert file.is_in_place() is not is_open
    file.close()


def test_the_free_space_of_a_disk_is_at_most_its_size(tmp_path: Path) -> None:
    space = disk_space(str(tmp_path))
    assert 0 < space.usable_bytes <= space.total_bytes


def test_the_space_of_a_missing_directory_is_unknown(tmp_path: Path) -> None:
    assert disk_space(str(tmp_path / "nowhere")) == DiskSpace(-1, -1)


def test_the_free_space_is_known_without_statvfs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", {str(tmp_path): usage}.__getitem__)
    monkeypatch.delattr(os, "statvfs")
    assert disk_space(str(tmp_path)) == DiskSpace(usage.total, usage.free)
