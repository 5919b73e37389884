"""The room on a disk is asked for, and unknown where there is no disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.space import DiskSpace, disk_space

if TYPE_CHECKING:
    from pathlib import Path


def test_a_directory_has_room(tmp_path: Path) -> None:
    space = disk_space(str(tmp_path))
    assert 0 < space.usable_bytes <= space.total_bytes


def test_where_nothing_is_nothing_is_known(tmp_path: Path) -> None:
    assert disk_space(str(tmp_path / "nowhere")) == DiskSpace(-1, -1)
