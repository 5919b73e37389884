"""Temporary directories: private, locked, and removed when no process has locked them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalite.ports.temporary import (
    LOCK_FILE,
    TemporaryDirectory,
    new_temporary_directory,
    private_directory,
    remove_abandoned,
)

HOLD = """
import os, sys
from kafkalite.ports.temporary import new_temporary_directory
print(new_temporary_directory(os.urandom(16)).path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use the test's own directory for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def filled(number: int) -> TemporaryDirectory:
    directory = new_temporary_directory(bytes([number]) * 16)
    for name in ("a", "b"):
        below = Path(directory.path, name)
        below.mkdir()
        for file in range(120):
            (below / str(file)).touch()
    return directory


def removed() -> list[str]:
    return [path for path in remove_abandoned() if path is not None]


def test_directory_is_private_and_can_be_removed(root: Path) -> None:
    directory = filled(1)
    assert directory.path == str(root / f"kafkalite-{'01' * 16}")
    assert Path(directory.path).stat().st_mode & 0o777 == 0o700
    assert [path.name for path in root.iterdir()] == [f"kafkalite-{'01' * 16}"]
    directory.remove()
    assert list(root.iterdir()) == []


def test_locked_directory_is_not_removed() -> None:
    held, released = filled(1), filled(2)
    released.release()
    assert removed() == [released.path]
    assert not Path(released.path).exists()
    assert len(list(Path(held.path, "a").iterdir())) == 120
    held.remove()


def test_remains_of_a_slow_removal_are_removed_later() -> None:
    directory = filled(1)
    directory.remove(limit_s=0)
    assert Path(directory.path, LOCK_FILE).exists()
    assert removed() == [directory.path]
    assert not Path(directory.path).exists()


def test_interrupted_removal_is_continued_later() -> None:
    directory = filled(1)
    directory.release()
    removal = remove_abandoned()
    assert next(removal) is None
    # Meanwhile no other process removes the same directory.
    assert removed() == []
    removal.close()  # type: ignore[attr-defined]
    assert removed() == [directory.path]


def test_links_are_removed_and_not_followed(root: Path) -> None:
    (root / "precious").mkdir()
    (root / "precious" / "file").touch()
    directory = new_temporary_directory(bytes(16))
    Path(directory.path, "link").symlink_to(root / "precious")
    directory.release()
    assert removed() == [directory.path]
    assert (root / "precious" / "file").exists()


def test_only_own_temporary_directories_are_removed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["kafkalite-mine", f"kafkalite-{'0' * 31}", f"other-{'0' * 32}", f"x{'0' * 32}"]
    for name in names:
        (root / name).mkdir()
        (root / name / LOCK_FILE).touch()
    (root / f"kafkalite-{'a' * 32}").mkdir()
    (root / f"kafkalite-{'b' * 32}").touch()
    (root / f"kafkalite-{'c' * 32}").symlink_to(root / names[0])
    before = sorted(root.rglob("*"))
    assert removed() == []
    assert sorted(root.rglob("*")) == before
    directory = filled(1)
    directory.release()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert removed() == []
    assert Path(directory.path).exists()


def test_failed_creation_leaves_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(OSError, match="no space"):
        new_temporary_directory(bytes(16))
    assert list(root.iterdir()) == []


def test_directory_of_a_killed_process_is_removed(root: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(root)},
    )
    assert process.stdout is not None
    path = process.stdout.readline().strip()
    assert removed() == []
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert removed() == [path]
    assert list(root.iterdir()) == []


def test_a_private_directory_belongs_to_this_user_and_is_used_again(root: Path) -> None:
    path = Path(private_directory("name"))
    assert path.parent == root
    assert path.stat().st_mode & 0o777 == 0o700
    assert private_directory("name") == str(path)
    assert list(remove_abandoned()) == []
    assert path.exists()


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("mode", [0o701, 0o710, 0o1777])
def test_a_directory_that_others_can_use_is_not_private(mode: int) -> None:
    path = Path(private_directory("name"))
    path.chmod(mode)
    with pytest.raises(PermissionError):
        private_directory("name")


def test_a_link_is_not_private(root: Path) -> None:
    path = Path(private_directory("name"))
    path.rename(root / "other")
    path.symlink_to(root / "other")
    with pytest.raises(PermissionError):
        private_directory("name")
