"""The files of the Docker image, and its entrypoint as a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
ENTRYPOINT = DOCKER / "entrypoint.py"


def load_entrypoint() -> ModuleType:
    """Import the entrypoint, a program outside of any package."""
    spec = importlib.util.spec_from_file_location("kafkalite_entrypoint", ENTRYPOINT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
