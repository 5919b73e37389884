"""Files in stores, for DuckDB: it knows local files only, and those of fsspec's file systems."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fsspec.implementations.arrow import ArrowFSWrapper

if TYPE_CHECKING:
    from pyarrow import fs


_UNCHANGED: Final = datetime.fromtimestamp(0, UTC)


class StoreFiles(ArrowFSWrapper):  # type: ignore[misc]  # fsspec has no types
    """A file system of pyarrow, with names of files that begin with `scheme`."""

    cachable = False

    def __init__(self, files: fs.FileSystem, scheme: str) -> None:
        super().__init__(files)
        self._scheme = scheme

    @property
    def protocol(self) -> str:
        return self._scheme

    def modified(self, path: str) -> datetime:
        """Return a constant: files of tables never change, and not all stores know the time."""
        del path
        return _UNCHANGED

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:  # noqa: ANN401 - fsspec has no types
        return path.partition("://")[2] or path
