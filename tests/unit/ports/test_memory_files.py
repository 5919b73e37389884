"""Files in memory: copies share content until one changes it, and memory has a limit."""

from __future__ import annotations

import errno
import gc
import random

import pytest

from kafkalite.ports.files import DiskSpace
from kafkalite.ports.memory_files import InMemoryFiles, Memory

MIB = 1 << 20


def files_with(content: bytes = b"", memory: Memory | None = None) -> InMemoryFiles:
    files = InMemoryFiles(memory)
    files.makedirs("/d/sub")
    files.open("/d/sub/f", create=True).append([content])
    return files


def test_a_copy_and_its_source_do_not_see_each_others_changes() -> None:
    one = files_with(b"abc")
    open_before = one.open("/d/sub/f")
    two = one.copy()
    open_before.append([b"1"])
    two.open("/d/sub/f").append([b"2"])
    two.write("/d/new", b"x")
    one.remove("/d/absent")
    one.makedirs("/d/other")
    assert (one.read("/d/sub/f"), two.read("/d/sub/f")) == (b"abc1", b"abc2")
    assert (one.list("/d"), two.list("/d")) == (["other", "sub"], ["new", "sub"])


def test_open_files_see_what_others_of_the_same_path_write_after_a_copy() -> None:
    files = files_with(b"abc")
    reader, writer = files.open("/d/sub/f"), files.open("/d/sub/f")
    copy = files.copy()
    assert reader.pread(9, 0) == b"abc"
    writer.append([b"d"])
    assert (reader.pread(9, 0), reader.size) == (b"abcd", 4)
    reader.append([b"e"])
    assert writer.pread(9, 0) == files.read("/d/sub/f") == b"abcde"
    assert copy.read("/d/sub/f") == b"abc"


def test_a_removed_file_stays_readable_and_does_not_come_back() -> None:
    files = files_with(b"abc")
    file, copy = files.open("/d/sub/f"), files.copy()
    files.remove("/d/sub/f")
    file.append([b"d"])
    assert file.pread(9, 0) == b"abcd"
    assert not file.is_in_place()
    assert files.list("/d/sub") == []
    assert copy.read("/d/sub/f") == b"abc"


def test_directories_are_renamed_with_their_files() -> None:
    files = files_with(b"abc")
    copy = files.copy()
    files.rename("/d", "/e")
    assert (files.list(""), files.read("/e/sub/f")) == (["e"], b"abc")
    assert (copy.list(""), copy.read("/d/sub/f")) == (["d"], b"abc")
    assert sorted(copy.paths_below("")) == ["/d/sub/f"]


def test_large_contents_are_not_copied() -> None:
    memory = Memory()
    files = files_with(bytes(MIB), memory)
    files.open("/d/sub/f").append([bytes(3 * MIB)])
    copies = [files.copy() for _ in range(10)]
    for copy in copies:
        copy.open("/d/sub/f").append([b"own"])
    assert memory.used_bytes == 4 * MIB + 10 * len(b"own")
    copies.clear()
    del copy
    gc.collect()
    assert memory.used_bytes == 4 * MIB


def test_memory_of_removed_and_truncated_content_is_free() -> None:
    memory = Memory()
    files = files_with(bytes(MIB), memory)
    files.open("/d/sub/f").truncate(1000)
    assert memory.used_bytes == 1000
    files.write("/d/sub/f", b"x")
    assert memory.used_bytes == 1
    files.remove("/d/sub/f")
    assert memory.used_bytes == 0


def test_more_than_the_limit_is_refused_in_one_sentence() -> None:
    memory = Memory(2 * MIB)
    files = files_with(bytes(MIB), memory)
    file = files.open("/d/sub/f")
    with pytest.raises(OSError, match="the data in memory has 1 MiB, and its limit is 2 MiB") as it:
        file.append([bytes(MIB + 1)])
    assert it.value.errno == errno.ENOSPC
    assert files.disk_space("/d") == DiskSpace(2 * MIB, MIB)
    file.append([bytes(MIB)])
    assert files_with().disk_space("/d") == DiskSpace()
    with pytest.raises(OSError, match="limit is 2 MiB"):
        files.copy().open("/d/sub/f").append([b"x"])


def test_a_parent_must_exist_and_a_removed_directory_be_empty() -> None:
    files = files_with()
    with pytest.raises(FileNotFoundError):
        files.open("/absent/f", create=True)
    with pytest.raises(FileNotFoundError):
        files.mkdir("/absent/d")
    with pytest.raises(OSError, match="not empty"):
        files.remove_directory("/d")
    files.mkdir("/d/empty")
    files.remove_directory("/d/empty")
    files.remove_directory("/d/empty")
    assert files.list("/d") == ["sub"]


def test_a_file_can_grow_while_another_thread_reads_it() -> None:
    files = files_with(b"abc")
    content = files.content_at("/d/sub/f")
    assert content is not None
    with memoryview(content.chunks[-1].data):
        files.open("/d/sub/f").append([b"d", b"e"])
    assert files.read("/d/sub/f") == b"abcde"
    assert files.memory.used_bytes == 5


@pytest.mark.parametrize("seed", range(5))
def test_random_work_on_copies_equals_that_on_bytes(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkalite.ports.memory_files._CHUNK_BYTES", 50)
    monkeypatch.setattr("kafkalite.ports.memory_files._MAX_COPIED_BYTES", 10)
    dice = random.Random(seed)  # noqa: S311 - repeatable
    files = files_with()
    disks = [(files, files.open("/d/sub/f"), b"")]
    for _ in range(400):
        index = dice.randrange(len(disks))
        files, file, content = disks[index]
        size = dice.randrange(60)
        match dice.randrange(5):
            case 0 | 1:
                data = dice.randbytes(size)
                file.append([data[:7], data[7:]])
                content += data
            case 2:
                end = dice.randrange(len(content) + 1)
                file.truncate(end)
                content = content[:end]
            case 3 if len(disks) < 8:
                copy = files.copy()
                disks.append((copy, copy.open("/d/sub/f"), content))
            case _:
                start = dice.randrange(len(content) + 5)
                assert file.pread(size, start) == content[start : start + size]
        disks[index] = files, file, content
    for files, file, content in disks:
        assert files.read("/d/sub/f") == content
        assert file.size == len(content)
    used_bytes = disks[0][0].memory.used_bytes
    assert used_bytes <= sum(len(content) for _, _, content in disks) + 8 * 50


def test_cleared_and_closed_files_free_their_memory() -> None:
    memory = Memory()
    files = files_with(bytes(MIB), memory)
    file, copy = files.open("/d/sub/f"), files.copy()
    copied = copy.open("/d/sub/f")
    copied.append([b"own"])
    copied.close()
    assert (copied.size, copied.is_in_place()) == (MIB + 3, True)
    copied.close()
    copy.clear()
    assert memory.used_bytes == MIB
    with pytest.raises(FileNotFoundError):
        copied.pread(1, 0)
    assert not copied.is_in_place()
    file.close()
    files.clear()
    assert memory.used_bytes == 0


def test_a_part_of_a_memory_has_a_limit_of_its_own_and_counts_for_the_whole() -> None:
    whole = Memory(1000)
    part = Memory(600, whole)
    files = InMemoryFiles(whole)
    files.write("a", bytes(300))
    copy = files.copy(part)
    copy.write("b", bytes(500))
    assert (part.used_bytes, whole.used_bytes) == (500, 800)
    with pytest.raises(OSError, match=r"--cluster-memory-limit"):
        copy.write("c", bytes(200))
    with pytest.raises(OSError, match=r"\(--memory-limit\)"):
        files.write("c", bytes(300))
    copy.clear()
    assert (part.used_bytes, whole.used_bytes) == (0, 300)
