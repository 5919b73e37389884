"""Compilation and caching of kernels: loops over bytes and numbers.

A kernel is a function of numbers and arrays. numba compiles it at the first call and caches it on
disk. Kernels call kernels of other modules and contain constants of other packages. So the cache
key is a hash of all these sources. The sources of this package are copied to a directory with the
hash in its name, and numba writes its files there. This works if the package is read-only or in a
zip file, as on Spark executors. Processes that compile at the same time write the same files.

If the cache cannot be read or written, for example on a full disk, kernels are compiled again.

Machine code does not check bounds. So a kernel checks that a position is within its bytes before it
reads there.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numba
import numpy as np
from numba.core import caching

from kafkalite.ports.cache import is_private, persistent_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.lab.columnar.arrays import Bytes

_PACKAGE: Final = "kafkalite.lab.columnar"
_CONSTANT_PACKAGES: Final = (
    "kafkalite.protocol",
    "kafkalite.capture",
    "kafkalite.capture.formats",
    "kafkalite.capture.reading",
    "kafkalite.ports",
    "kafkalite.wire",
)
"""Other packages whose constants are compiled into kernels."""

_int64: Any = np.int64
_compile: Any = numba.njit

F = TypeVar("F", bound="Callable[..., object]")


def kernel(function: F) -> F:
    """Return a function that is compiled on its first call."""
    directory = kernel_directory()
    if directory is not None:
        path = directory.joinpath(*_path_in_package(function.__module__)).with_suffix(".py")
        function.__code__ = function.__code__.replace(co_filename=str(path))
    # Kernels allocate no arrays, so reference counting is off; it would take most of the time.
    compiled = _compile(function, _nrt=False)
    if directory is not None:
        compiled._cache = _KernelCache(function)  # noqa: SLF001 - as `cache=True` does
    return cast("F", compiled)


def inlined(function: F) -> F:
    """Return a function that is compiled into each kernel that calls it, because a call is slow."""
    return cast("F", _compile(function, _nrt=False, inline="always"))


_FunctionCache: Any = caching.FunctionCache


class _KernelCache(_FunctionCache):  # type: ignore[misc]  # numba has no types
    """The cache of a kernel; after an error the kernel is compiled again."""

    def load_overload(self, sig: object, target_context: object) -> Any:  # noqa: ANN401
        """Return the cached kernel for a signature; None if it cannot be read."""
        try:
            # Without numba's own step before this, which prepares it to compile: 0.5 s.
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except Exception:  # noqa: BLE001 - a broken pickle can raise any exception
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: object, data: object) -> None:
        """Cache a compiled kernel, if possible."""
        with suppress(OSError):
            super().save_overload(sig, data)


@cache
def kernel_directory() -> Path | None:
    """Return the cache directory of the kernels; None if there is no usable one."""
    sources = [*_sources(_PACKAGE)]
    for package in _subpackages(_PACKAGE):
        sources += [
            (f"{package}/{name}", source) for name, source in _sources(f"{_PACKAGE}.{package}")
        ]
    digest = hashlib.sha256()
    for name, source in itertools.chain(sources, *map(_sources, _CONSTANT_PACKAGES)):
        digest.update(f"{name} {len(source)} ".encode() + source)
    cache_root = persistent_directory(os.environ)
    if cache_root is None:
        return None
    directory = cache_root / f"kernels-{digest.hexdigest()[:16]}"
    try:
        if not directory.exists():
            temporary = Path(tempfile.mkdtemp(dir=cache_root))
            _write_sources(temporary, sources, directory)
        return directory if is_private(directory) else None
    except OSError:
        return None


def _path_in_package(module: str) -> list[str]:
    """Return the parts of a module's path in the package of the columnar reader."""
    if module.startswith(f"{_PACKAGE}."):
        return module.removeprefix(f"{_PACKAGE}.").split(".")
    return [module]  # a kernel of a test


def _subpackages(package: str) -> list[str]:
    """Return the names of the packages in a package."""
    return sorted(
        each.name for each in files(package).iterdir() if (each / "__init__.py").is_file()
    )


def _sources(package: str) -> list[tuple[str, bytes]]:
    """Return the names and sources of a package's modules."""
    modules = (each for each in files(package).iterdir() if each.name.endswith(".py"))
    return sorted((each.name, each.read_bytes()) for each in modules)


def _write_sources(temporary: Path, sources: list[tuple[str, bytes]], directory: Path) -> None:
    """Write the sources to a temporary directory and rename it; remove it on failure."""
    try:
        for name, source in sources:
            path = temporary / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(source)
        temporary.rename(directory)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        # Another process may have created the directory.
        if not directory.exists():
            raise


# -- numbers at a position -----------------------------------------------------------------
# An unsigned position avoids numba's check for negative indexes.


@kernel
def peek_u8(data: Bytes, position: int) -> int:
    """Return an unsigned byte."""
    value: int = _int64(data[np.uint64(position)])
    return value


@kernel
def peek_u16(data: Bytes, position: int) -> int:
    """Return a big-endian unsigned 16-bit number."""
    return peek_u8(data, position) << 8 | peek_u8(data, position + 1)


@kernel
def peek_i16(data: Bytes, position: int) -> int:
    """Return a big-endian signed 16-bit number."""
    return (peek_u16(data, position) ^ 0x8000) - 0x8000


@kernel
def peek_u32(data: Bytes, position: int) -> int:
    """Return a big-endian unsigned 32-bit number."""
    return peek_u16(data, position) << 16 | peek_u16(data, position + 2)


@kernel
def peek_u32le(data: Bytes, position: int) -> int:
    """Return a little-endian unsigned 32-bit number."""
    low = peek_u8(data, position) | peek_u8(data, position + 1) << 8
    return low | peek_u8(data, position + 2) << 16 | peek_u8(data, position + 3) << 24


@kernel
def peek_i32(data: Bytes, position: int) -> int:
    """Return a big-endian signed 32-bit number."""
    return (peek_u32(data, position) ^ 0x80000000) - 0x80000000


@kernel
def peek_i64(data: Bytes, position: int) -> int:
    """Return a big-endian signed 64-bit number."""
    return peek_u32(data, position) << 32 | peek_u32(data, position + 4)
