"""CRC-32C, the checksum of everything on disk: the processor's own, by way of the crc32c package.

Only the package's C module is loaded. The package itself reads its own metadata when it is
imported, for a version number and a command line, and so costs ten times as much as all of it that
is needed here; every start would pay for that, because every start writes a record.
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


def _c_module() -> ModuleType | None:
    """Return the package's C module, None where it is not what it was when this was written."""
    package = PathFinder.find_spec("crc32c")
    if package is None or package.submodule_search_locations is None:
        return None
    spec = PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _find_checksum() -> Callable[[Buffer, int], int]:
    # The long way round leads to the same function.
    module = _c_module() or import_module("crc32c")
    found: Callable[[Buffer, int], int] = module.crc32c
    return found


crc32c = _find_checksum()
"""(data, value) → the CRC-32C of `data`, going on from `value`; 0 begins."""
