"""A finder that imports compiled modules of this package and the standard library in less time.

Half the time of an import is importlib's search: it looks into each entry of `sys.path`, compares
directories with earlier lists of them, and describes what it finds in several objects. A start
imports hundreds of modules whose places are known. This finder reads their compiled files at once,
with the same checks as importlib. It leaves everything unusual to importlib, such as a module that
is not compiled yet.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from _imp import _fix_co_filename  # type: ignore[attr-defined]
from marshal import loads

TYPE_CHECKING = False  # importing typing would load modules by importlib
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

_HEADER_BYTES = 16
_BYTES_OF_FLAGS = bytes(4)
"""No flag is set: the file contains the time of change and the size of its source."""

_LOW_32_BITS = 0xFFFFFFFF


class _Loader(SourceFileLoader):
    """Runs code that was read before; a reload is as importlib's."""

    code: CodeType | None = None

    def exec_module(self, module: ModuleType) -> None:
        code, self.code = self.code, None
        if code is None:
            super().exec_module(module)
        else:
            exec(code, module.__dict__)  # noqa: S102 - the purpose of a loader


class CompiledModuleFinder:
    """Finds modules below one package, and those of the standard library in one directory."""

    def __init__(self, package: str, library: str) -> None:
        self._package = package
        self._library = library
        self._suffix = f".{sys.implementation.cache_tag}.pyc"

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module; None if importlib should look for it."""
        top = name.partition(".")[0]
        if top == self._package and path is not None:
            directory = path[0]
        elif top in sys.stdlib_module_names:
            directory = self._library if path is None else path[0]
        else:
            return None
        try:
            return self._find(name, directory)
        except OSError:
            return None

    def _find(self, name: str, directory: str) -> ModuleSpec | None:
        package, stem = None, name.rpartition(".")[2]
        source = f"{directory}/{stem}.py"
        try:
            status = os.stat(source)  # noqa: PTH116 - as below
        except FileNotFoundError:
            package, stem = f"{directory}/{stem}", "__init__"
            directory, source = package, f"{package}/{stem}.py"
            status = os.stat(source)  # noqa: PTH116 - as below
        compiled = f"{directory}/__pycache__/{stem}{self._suffix}"
        data = _read(compiled)
        if data[:_HEADER_BYTES] != _header(status):
            return None
        loader = _Loader(name, source)
        loader.code = loads(memoryview(data)[_HEADER_BYTES:])  # noqa: S302 - as importlib does
        _fix_co_filename(loader.code, source)
        spec = ModuleSpec(name, loader, origin=source, is_package=package is not None)
        if package is not None:
            spec.submodule_search_locations = [package]
        spec.cached = compiled
        spec.has_location = True
        return spec


def _header(source: os.stat_result) -> bytes:
    modified_s = int(source.st_mtime) & _LOW_32_BITS
    size = source.st_size & _LOW_32_BITS
    source_bytes = modified_s.to_bytes(4, "little") + size.to_bytes(4, "little")
    return MAGIC_NUMBER + _BYTES_OF_FLAGS + source_bytes


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def find_compiled_modules_fast(package: str) -> None:
    """Put a finder before importlib's, unless this interpreter keeps compiled modules elsewhere."""
    is_usual = sys.pycache_prefix is None and not sys.flags.optimize and os.name == "posix"
    if is_usual and sys.implementation.cache_tag is not None:
        library = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib is slow to import
        # Built-in and frozen modules have precedence.
        last = len(sys.meta_path) - 1
        sys.meta_path.insert(last, CompiledModuleFinder(package, library))
