"""Loops over bytes and numbers, compiled: what the kernels of this package are made by.

A kernel is a function of numbers and arrays alone. numba compiles it when it is called first, and
keeps it for later processes. What is kept goes by the text of all modules here, for kernels call
kernels, and of those whose constants they have in them; so the sources, wherever they come from,
are copied to a folder that is named after all that, and numba keeps its files there. It does not
matter then whether the package may be written to, or is a zip that executors got, and processes
that compile at the same time write the same.

What cannot be kept, or cannot be read, because a disk is full or a file is broken, is compiled
again.

No kernel trusts what it reads: it makes sure that a position lies within its bytes before it
looks there, as machine code does not.
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

from kafkalite.ports.cache import is_ours, lasting_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.columnar.arrays import Bytes

_CONSTANTS_OF: Final = ("kafkalite.capture", "kafkalite.wire")
"""Other packages of which kernels have constants in them."""

_wide: Any = np.int64
_compile: Any = numba.njit

F = TypeVar("F", bound="Callable[..., object]")


def kernel(function: F) -> F:
    """Compile a function on its first call."""
    folder = kernel_folder()
    if folder is not None:
        path = folder / Path(function.__code__.co_filename).name
        function.__code__ = function.__code__.replace(co_filename=str(path))
    # No kernel makes arrays, or keeps any: counting who refers to one would take most of its time.
    compiled = _compile(function, _nrt=False)
    if folder is not None:
        compiled._cache = _Kept(function)  # noqa: SLF001 - as `cache=True` does
    return cast("F", compiled)


def piece(function: F) -> F:
    """Make a function a piece of each kernel that calls it: a call would take as long as it."""
    return cast("F", _compile(function, _nrt=False, inline="always"))


_FunctionCache: Any = caching.FunctionCache


class _Kept(_FunctionCache):  # type: ignore[misc]  # numba has no types
    """What is kept of a kernel; where that goes wrong, the kernel is merely compiled again."""

    def load_overload(self, sig: object, target_context: object) -> Any:  # noqa: ANN401
        """Return what is kept for a signature; None where nothing is that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001 - a broken pickle raises whatever it likes
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: object, data: object) -> None:
        """Keep what was compiled, if there is room for it."""
        with suppress(OSError):
            super().save_overload(sig, data)


@cache
def kernel_folder() -> Path | None:
    """Return where compiled kernels are kept; None where nothing can be."""
    sources = _sources("kafkalite.columnar")
    digest = hashlib.sha256()
    for name, source in itertools.chain(sources, *map(_sources, _CONSTANTS_OF)):
        digest.update(f"{name} {len(source)} ".encode() + source)
    place = lasting_folder(os.environ)
    if place is None:
        return None
    folder = place / f"kernels-{digest.hexdigest()[:16]}"
    try:
        if not folder.exists():
            draft = Path(tempfile.mkdtemp(dir=place))
            _fill(draft, sources, folder)
        return folder if is_ours(folder) else None
    except OSError:
        return None


def _sources(package: str) -> list[tuple[str, bytes]]:
    """Return the modules of a package, by name, and their text."""
    inside = (each for each in files(package).iterdir() if each.name.endswith(".py"))
    return sorted((each.name, each.read_bytes()) for each in inside)


def _fill(draft: Path, sources: list[tuple[str, bytes]], folder: Path) -> None:
    """Write the sources to a draft that becomes the folder, and leave nothing where it does not."""
    try:
        for name, source in sources:
            (draft / name).write_bytes(source)
        draft.rename(folder)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        # Another process was faster, unless the disk is full.
        if not folder.exists():
            raise


# -- numbers at a position -----------------------------------------------------------------
# A position without a sign spares the question whether it counts from the end.


@kernel
def peek_u8(data: Bytes, at: int) -> int:
    """Return a byte."""
    value: int = _wide(data[np.uint64(at)])
    return value


@kernel
def peek_u16(data: Bytes, at: int) -> int:
    """Return a number of two bytes, as all that follow in the order of networks."""
    return peek_u8(data, at) << 8 | peek_u8(data, at + 1)


@kernel
def peek_i16(data: Bytes, at: int) -> int:
    """Return a signed number of two bytes."""
    return (peek_u16(data, at) ^ 0x8000) - 0x8000


@kernel
def peek_u32(data: Bytes, at: int) -> int:
    """Return a number of four bytes."""
    return peek_u16(data, at) << 16 | peek_u16(data, at + 2)


@kernel
def peek_u32le(data: Bytes, at: int) -> int:
    """Return a number of four bytes, the lowest first."""
    low = peek_u8(data, at) | peek_u8(data, at + 1) << 8
    return low | peek_u8(data, at + 2) << 16 | peek_u8(data, at + 3) << 24


@kernel
def peek_i32(data: Bytes, at: int) -> int:
    """Return a signed number of four bytes."""
    return (peek_u32(data, at) ^ 0x80000000) - 0x80000000


@kernel
def peek_64(data: Bytes, at: int) -> int:
    """Return eight bytes, to be told apart from others only: the sign means nothing."""
    return peek_u32(data, at) << 32 | peek_u32(data, at + 4)
