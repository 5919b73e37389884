"""A data plane for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    return DataPlane(tmp_path)
