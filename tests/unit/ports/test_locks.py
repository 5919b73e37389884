"""Locks of files, with fcntl and with the lock library."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports import locks
from kafkalite.ports.locks import lock_data, lock_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafkalite.ports.locks import Lock


LOCK_AND_WAIT = (
    "import sys; from kafkalite.ports.locks import lock_data; lock_data(sys.argv[1]);"
    "print('locked', flush=True); sys.stdin.read()"
)


@pytest.fixture(params=["descriptor", "process", "library"])
def _implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "library":
        monkeypatch.setattr(locks, "fcntl", None)
    if request.param == "process":
        monkeypatch.setattr(locks, "_DESCRIPTOR_LOCK", None)


@pytest.mark.usefixtures("_implementation")
@pytest.mark.parametrize("lock", [lock_data, lock_file])
def test_a_lock_excludes_others_until_it_is_released(
    tmp_path: Path, lock: Callable[[str], Lock]
) -> None:
    path = tmp_path / "lock"
    path.touch()
    held = lock(str(path))
    for _ in range(2):
        with pytest.raises(BlockingIOError):
            lock(str(path))
    held.release()
    held.release()
    path.touch()
    lock(str(path)).release()


@pytest.mark.usefixtures("_implementation")
def test_a_lock_can_wait_for_its_release(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    held = lock_file(str(path))
    steps: list[str] = []

    def wait() -> None:
        other = lock_file(str(path), waits=True)
        steps.append("locked again")
        other.release()

    waiting = threading.Thread(target=wait)
    waiting.start()
    steps.append("released")
    held.release()
    waiting.join(60)
    assert steps == ["released", "locked again"]


@pytest.mark.usefixtures("_implementation")
def test_only_a_data_lock_creates_its_file_by_default(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with pytest.raises(FileNotFoundError):
        lock_file(path)
    lock_data(path).release()
    (tmp_path / "lock").touch()
    with pytest.raises(FileExistsError):
        lock_file(path, create=True)


def test_a_lock_of_the_library_lasts_without_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    path = str(tmp_path / "lock")
    lock_data(path)
    gc.collect()
    with pytest.raises(BlockingIOError):
        lock_data(path)
    for lock in tuple(locks.LibraryLock._held):
        locks.LibraryLock(lock).release()


def test_a_refused_second_lock_of_a_process_keeps_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_DESCRIPTOR_LOCK", None)
    path = str(tmp_path / "lock")
    held = lock_data(path)
    with pytest.raises(BlockingIOError):
        lock_data(path)
    command = [sys.executable, "-c", LOCK_AND_WAIT, path]
    other = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert "BlockingIOError" in other.stderr
    held.release()
    subprocess.run(command, input="", capture_output=True, text=True, check=True)


def test_the_system_releases_a_lock_when_the_process_ends(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    process = subprocess.Popen(
        [sys.executable, "-c", LOCK_AND_WAIT, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        with pytest.raises(BlockingIOError):
            lock_data(path)
        process.kill()
    lock_data(path).release()
