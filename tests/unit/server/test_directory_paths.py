"""Paths that cannot be the log directories of one node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.definitions import ConfigError
from kafkalite.server.directory_paths import offline_log_directories

if TYPE_CHECKING:
    from pathlib import Path


def test_directories_and_names_are_accepted(tmp_path: Path) -> None:
    paths = [str(tmp_path), "/no/such/directory", str(tmp_path / "other")]
    assert offline_log_directories(paths) == []


def test_a_node_is_without_files_but_not_without_any_directory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    assert offline_log_directories([str(tmp_path), str(path)]) == [str(path)]
    with pytest.raises(ConfigError, match=r"^log\.dirs has .*/file, which is not a directory$"):
        offline_log_directories([str(path)])


def test_two_paths_of_one_directory_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(
        ConfigError, match=r"^log\.dirs has .* and .*/link, which are one directory"
    ):
        offline_log_directories([str(tmp_path), str(tmp_path / "link")])


def test_paths_that_cannot_be_followed_are_names(tmp_path: Path) -> None:
    (tmp_path / "cycle").symlink_to(tmp_path / "cycle")
    paths = [str(tmp_path / "cycle"), str(tmp_path / ("x" * 5000))]
    assert offline_log_directories(paths) == []
