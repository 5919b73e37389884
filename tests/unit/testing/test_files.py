"""The disks for tests work as documented."""

from __future__ import annotations

import pytest

from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles


def test_unsynced_bytes_may_be_lost_with_the_power() -> None:
    files = MemoryFiles()
    files.makedirs("d")
    file = files.open("d/f", create=True)
    file.append([b"synced"])
    files.sync("d/f")
    file.append([b"not yet"])
    assert files.after_power_loss(lambda _: 0).read("d/f") == b"synced"
    assert files.after_power_loss(lambda size: size - 1).read("d/f") == b"syncednot ye"
    assert files.read("d/f") == b"syncednot yet"


def steps(files: FaultyFiles) -> None:
    files.makedirs("d")
    file = files.open("d/f", create=True)
    file.append([b"12", b"34"])
    files.sync("d/f")
    file.truncate(3)
    files.write("d/f", b"56")
    files.rename("d/f", "d/g")
    files.sync_directory("d")
    files.sync_all("d", ["d/g"])
    files.remove("d/absent")
    files.remove("d/g")
    files.remove_directory("d")


@pytest.mark.parametrize("is_synced", [False, True])
def test_removed_bytes_and_names_may_come_back_until_the_removal_is_synced(
    *, is_synced: bool
) -> None:
    files = MemoryFiles()
    files.makedirs("d")
    for name in ("d/cut", "d/gone", "d/unsynced"):
        files.open(name, create=True).append([b"abcdef"])
    files.sync_all("d", ["d/cut", "d/gone", "d"])
    files.open("d/cut").truncate(4)
    files.open("d/cut").truncate(2)
    files.open("d/cut").append([b"XY"])
    files.remove("d/gone")
    if is_synced:
        files.sync("d/cut")
        files.sync_directory("d")
    after = files.after_power_loss(lambda _: 0, restores_removed=True)
    names = ["d/cut", "d/unsynced"] if is_synced else ["d/cut", "d/gone", "d/unsynced"]
    assert after.paths == names
    assert after.read("d/cut") == (b"abXY" if is_synced else b"abcdef")
    assert after.read("d/unsynced") == b""
    assert files.after_power_loss(lambda _: 0).paths == ["d/cut", "d/unsynced"]


def test_only_calls_that_change_files_count_as_steps() -> None:
    files = FaultyFiles(MemoryFiles())
    steps(files)
    assert files.steps == 11


@pytest.mark.parametrize("fail_at", range(11))
def test_after_a_crash_every_step_fails(fail_at: int) -> None:
    files = FaultyFiles(MemoryFiles(), fail_at=fail_at)
    with pytest.raises(CrashedError):
        steps(files)
    with pytest.raises(CrashedError):
        files.makedirs("e")


def test_a_failed_append_may_write_a_part() -> None:
    for part, content in ((0.0, b""), (0.5, b"12"), (1.0, b"1234")):
        files = FaultyFiles(MemoryFiles(), fail_at=2, part=part)
        with pytest.raises(CrashedError):
            steps(files)
        assert files.disk.read("d/f") == content


def test_a_refused_step_is_followed_by_others() -> None:
    files = FaultyFiles(MemoryFiles(), fail_at=1, crash=False, failing_steps=2)
    files.makedirs("d")
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            files.open("d/f", create=True)
    files.open("d/f", create=True)
