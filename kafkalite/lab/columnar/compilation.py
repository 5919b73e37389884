"""Compilation of kernels by numba, with its files in the cache directory of the kernels."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numba
from numba.core import caching

if TYPE_CHECKING:
    from pathlib import Path
    from types import FunctionType

_compile: Any = numba.njit


def compiled_function(function: FunctionType, cached: Path | None, *, is_inlined: bool) -> Any:  # noqa: ANN401 - numba has no types
    """Return a function that numba compiles at its first call.

    `cached` is the path of its source; numba writes its files next to it. None stands for no cache.
    """
    # Kernels allocate no arrays, so reference counting is off; it would take most of the time.
    if is_inlined:
        return _compile(function, _nrt=False, inline="always")
    if cached is not None:
        function.__code__ = function.__code__.replace(co_filename=str(cached))
    compiled = _compile(function, _nrt=False)
    if cached is not None:
        compiled._cache = _KernelCache(function)  # noqa: SLF001 - as `cache=True` does
    return compiled


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
