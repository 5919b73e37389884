"""What is run as it is found is kept only where nobody else can put something in its place."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from kafkalite.ports.cache import cache_folder, cache_path, is_ours, lasting_folder


def test_the_environment_says_where_it_is() -> None:
    assert cache_path({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/kafkalite")
    assert cache_path({"HOME": "/h"}) == Path("/h/.cache/kafkalite")


def test_without_a_word_of_it_it_is_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/h"))
    assert cache_path({}) == Path("/h/.cache/kafkalite")


def test_who_has_no_home_has_a_place_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", nobody)
    assert cache_path({}).parts[:-2] == Path(tempfile.gettempdir()).parts


def test_what_is_made_is_for_nobody_else(tmp_path: Path) -> None:
    folder = lasting_folder({"HOME": str(tmp_path)})
    assert folder == tmp_path / ".cache" / "kafkalite"
    for each in (folder, folder.parent):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert cache_folder({"HOME": str(tmp_path)}) == folder


@pytest.mark.parametrize("place", [".", ".cache", ".cache/kafkalite"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_place_that_others_may_write_to_is_not_taken(
    tmp_path: Path, place: str, mode: int
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert lasting_folder({"HOME": str(home)})
    (home / place).chmod(mode)
    assert lasting_folder({"HOME": str(home)}) is None
    passing = cache_folder({"HOME": str(home)})
    assert home not in passing.parents
    assert is_ours(passing)


def test_in_a_folder_for_temporary_files_only_our_own_is_taken(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    folder = lasting_folder({"HOME": str(tmp_path)})
    assert folder is not None
    assert not is_ours(tmp_path)


def test_a_folder_of_another_user_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_ours(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert not is_ours(tmp_path)


def test_where_no_folder_can_be_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert lasting_folder({"XDG_CACHE_HOME": str(tmp_path / "file")}) is None
