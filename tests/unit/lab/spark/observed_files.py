"""`ObservedFiles`: a file system of this machine that calls a function at each of its steps.

A step is a change of files: one is created, written, closed, moved or deleted. The function sees
the files as a process would leave them that ends then, so it is called before each step. It is also
called within a step: when half of the bytes are written, and when one file of a folder is deleted.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Callable

DISK: Final = fs.LocalFileSystem()


class ObservedFiles(fs.PyFileSystem):  # type: ignore[misc]  # pyarrow has no types
    """The local file system; or an object store, where files appear when they are closed."""

    def __init__(self, observe: Callable[[], None], *, is_object_store: bool = False) -> None:
        super().__init__(_Handler(observe, is_object_store=is_object_store))


class _Handler(fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    def __init__(self, observe: Callable[[], None], *, is_object_store: bool) -> None:
        self._observe = observe
        self._is_object_store = is_object_store

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def get_type_name(self) -> str:
        return "observed"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = DISK.get_file_info(paths)
        return found

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = DISK.get_file_info(selector)
        return found

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return DISK.open_input_stream(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return DISK.open_input_file(path)

    def open_output_stream(self, path: str, metadata: object) -> pa.NativeFile:
        del metadata
        if self._is_object_store:
            DISK.create_dir(path.rpartition("/")[0], recursive=True)
            return pa.PythonFile(_NewObject(self._observe, path), mode="w")
        self._observe()
        return pa.PythonFile(_NewFile(self._observe, path), mode="w")

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: FBT001 - as in pyarrow
        self._observe()
        DISK.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._observe()
        selector = fs.FileSelector(path, recursive=True)
        files = [each.path for each in DISK.get_file_info(selector) if each.is_file]
        if len(files) > 1:
            DISK.delete_file(files[0])
            self._observe()
        DISK.delete_dir(path)

    def delete_file(self, path: str) -> None:
        self._observe()
        DISK.delete_file(path)

    def move(self, source: str, target: str) -> None:
        self._observe()
        DISK.move(source, target)

    def _not_needed(self, *_: object) -> Any:  # noqa: ANN401 - any
        raise NotImplementedError

    copy_file = delete_dir_contents = delete_root_dir_contents = open_append_stream = _not_needed


class _NewFile(io.FileIO):
    def __init__(self, observe: Callable[[], None], path: str) -> None:
        super().__init__(path, "wb")
        self._observe = observe
        self._is_empty = True

    def write(self, data: Any) -> int:  # noqa: ANN401 - a buffer
        content = bytes(data)
        half = len(content) // 2
        super().write(content[:half])
        if self._is_empty:
            self._observe()
            self._is_empty = False
        super().write(content[half:])
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._observe()
            super().close()


class _NewObject(io.BytesIO):
    def __init__(self, observe: Callable[[], None], path: str) -> None:
        super().__init__()
        self._observe = observe
        self._path = path

    def close(self) -> None:
        if not self.closed:
            self._observe()
            with DISK.open_output_stream(self._path) as stream:
                stream.write(self.getvalue())
            super().close()
