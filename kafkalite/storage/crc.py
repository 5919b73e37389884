"""CRC-32C, the checksum of all data on disk, from the crc32c package.

Only the package's C module is loaded. On import, the package itself reads its own metadata for a
version number and a command line, which takes ten times as long as loading the C module. Every
start would pay for that, because every start writes a record.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from kafkalite.ports.files import Buffer


def _load_c_module() -> ModuleType | None:
    """Return the package's C module, or None if its layout has changed."""
    package = PathFinder.find_spec("crc32c")
    if package is None or package.submodule_search_locations is None:
        return None
    spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load_crc32c() -> Callable[[Buffer, int], int]:
    # Importing the package takes longer but gives the same function.
    module = _load_c_module() or import_module("crc32c")
    function: Callable[[Buffer, int], int] = module.crc32c
    return function


crc32c = _load_crc32c()
"""(data, value) → the CRC-32C of `data`, continued from `value`, which is 0 for a new checksum."""
