"""Compilation and caching of kernels: loops over bytes and numbers.

A kernel is a function of numbers and arrays. numba compiles it at the first call and caches it on
disk. For small captures, kernels are interpreted instead.

Kernels call kernels of other modules and contain constants of other packages. So the cache key is a
hash of all these sources. The sources of this package are copied to a directory with the hash in
its name, and numba writes its files there. This works if the package is read-only or in a zip file,
as on Spark executors. One process compiles a kernel, while others on the same machine wait for it.

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
from contextlib import contextmanager, suppress
from functools import cache, cached_property, update_wrapper
from importlib.resources import files
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import numpy as np

from kafkalite.ports.cache import is_private, persistent_directory
from kafkalite.ports.locks import lock_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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

F = TypeVar("F", bound="Callable[..., object]")


class Kernel:
    """A function that is compiled at its first call, or interpreted in `interpreted_kernels`."""

    is_interpreted = False
    """Whether kernels are interpreted in this process."""

    def __init__(self, function: Callable[..., object], *, is_inlined: bool) -> None:
        update_wrapper(self, function)
        self._function = self._alternative = function
        self._is_inlined = is_inlined
        self._is_loaded = False

    def __call__(self, *arguments: object) -> object:
        """Call the function, compiled or interpreted."""
        if Kernel.is_interpreted:
            return self.interpreted(*arguments)
        if self._is_loaded:
            return self.compiled(*arguments)
        with _locked_cache():
            result = self.compiled(*arguments)
        self._is_loaded = True
        return result

    @cached_property
    def compiled(self) -> Any:  # noqa: ANN401 - numba has no types
        """The function that numba compiles. It calls other kernels compiled."""
        # Without numba, kernels are interpreted. Its import takes as long as a small capture.
        from kafkalite.lab.columnar.compilation import compiled_function  # noqa: PLC0415

        function = _calling_kernels(self._function, lambda each: each.compiled)
        return compiled_function(
            function, _cached_path(self._function), is_inlined=self._is_inlined
        )

    @cached_property
    def interpreted(self) -> Callable[..., object]:
        """The function that is interpreted. It calls other kernels interpreted."""
        return _calling_kernels(self._alternative, lambda each: each.interpreted)

    def interpreted_as(self, function: F) -> F:
        """Let another function, which does the same faster, be interpreted in place of this one."""
        self._alternative = function
        return function


@contextmanager
def interpreted_kernels() -> Iterator[None]:
    """Interpret kernels within this block, in all threads, instead of compiling them.

    That is 500 times slower, but needs no numba. To load it and its cached code takes 0.8 s of CPU
    time, and to compile kernels 25 s.
    """
    with np.errstate(over="ignore"):  # as in compiled code
        Kernel.is_interpreted = True
        try:
            yield
        finally:
            Kernel.is_interpreted = False


@contextmanager
def _locked_cache() -> Iterator[None]:
    """Lock the cache directory, so that only one process compiles and the others load."""
    directory, lock = kernel_directory(), None
    with suppress(OSError):
        if directory is not None:
            path = directory / "lock"
            path.touch()
            lock = lock_file(str(path), waits=True)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def kernel(function: F) -> F:
    """Return a function that is compiled at its first call."""
    return cast("F", Kernel(function, is_inlined=False))


def inlined(function: F) -> F:
    """Return a function that is compiled into each kernel that calls it, because a call is slow."""
    return cast("F", Kernel(function, is_inlined=True))


def interpreted_as(compiled: Callable[..., object]) -> Callable[[F], F]:
    """Return a decorator for a function that is interpreted in place of a kernel."""
    assert isinstance(compiled, Kernel)
    return compiled.interpreted_as


def _names(code: CodeType) -> set[str]:
    """Return the names of global variables that a function may use."""
    nested = (each for each in code.co_consts if isinstance(each, CodeType))
    return {*code.co_names}.union(*map(_names, nested))


def _calling_kernels(
    function: Callable[..., object], select: Callable[[Kernel], object]
) -> FunctionType:
    """Return a copy of a function that calls functions of kernels directly."""
    unknown = object()
    values = ((name, function.__globals__.get(name, unknown)) for name in _names(function.__code__))
    variables = {
        name: select(value) if isinstance(value, Kernel) else value
        for name, value in values
        if value is not unknown
    }
    copied = FunctionType(
        function.__code__, {"__name__": function.__module__, **variables}, function.__name__
    )
    return cast("FunctionType", update_wrapper(copied, function))


def _cached_path(function: Callable[..., object]) -> Path | None:
    """Return the path of a function's source in the cache directory of the kernels."""
    directory = kernel_directory()
    if directory is None:
        return None
    return directory.joinpath(*_path_in_package(function.__module__)).with_suffix(".py")


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


_INT64: Final = [_int64(value) for value in range(256)]

# -- numbers at a position -----------------------------------------------------------------
# An unsigned position avoids numba's check for negative indexes.


@kernel
def peek_u8(data: Bytes, position: int) -> int:
    """Return an unsigned byte."""
    value: int = _int64(data[np.uint64(position)])
    return value


@interpreted_as(peek_u8)
def _peek_u8(data: Bytes, position: int) -> int:
    value: int = _INT64[data[position]]
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
