"""The cache directory is used only if no other user can write to it."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from kafkalite.ports.cache import cache_directory, cache_path, is_private, persistent_directory


def test_cache_path_is_below_xdg_cache_home() -> None:
    assert cache_path({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/kafkalite")
    assert cache_path({"HOME": "/h"}) == Path("/h/.cache/kafkalite")


def test_cache_path_is_below_home_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/h"))
    assert cache_path({}) == Path("/h/.cache/kafkalite")


def test_user_without_a_home_has_a_cache_path(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    assert cache_path({}).parts[:-2] == Path(tempfile.gettempdir()).parts


def test_created_directories_are_private(tmp_path: Path) -> None:
    folder = persistent_directory({"HOME": str(tmp_path)})
    assert folder == tmp_path / ".cache" / "kafkalite"
    for each in (folder, folder.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert cache_directory({"HOME": str(tmp_path)}) == folder


@pytest.mark.parametrize("place", [".", ".cache", ".cache/kafkalite"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_directory_writable_by_others_is_refused(tmp_path: Path, place: str, mode: int) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert persistent_directory({"HOME": str(home)})
    (home / place).chmod(mode)
    assert persistent_directory({"HOME": str(home)}) is None
    passing = cache_directory({"HOME": str(home)})
    assert home not in passing.parents
    assert is_private(passing)


def test_only_own_directories_in_a_sticky_directory_are_accepted(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    folder = persistent_directory({"HOME": str(tmp_path)})
    assert folder is not None
    assert not is_private(tmp_path)


def test_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_private(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert not is_private(tmp_path)


def test_no_persistent_directory_if_it_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert persistent_directory({"XDG_CACHE_HOME": str(tmp_path / "file")}) is None
