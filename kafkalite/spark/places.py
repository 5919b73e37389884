"""Where files are, here or elsewhere: paths and URLs → files to list, read, write and move.

Python's workers cannot use Hadoop's file systems, so these are pyarrow's: what the machine has
mounted, S3, Google, Azure, HDFS; and whatever fsspec knows, where that is installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_SAME_AS: Final = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's words for what pyarrow calls otherwise."""
_PATTERN: Final = re.compile(r"[*?\[]")


class PlaceError(Exception):
    """A place that cannot be used; the text is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class InputFile:
    """A file to be read, as it was when it was listed."""

    url: str
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder: its file system, and its path there."""

    files: fs.FileSystem
    path: str
    root: str = ""
    """What stands before a path of this file system in a URL."""

    @property
    def url(self) -> str:
        """The place as users name it."""
        return f"{self.root}{self.path}"

    def __truediv__(self, name: str) -> Place:
        """Return what is called `name`, which may have slashes, below here."""
        return Place(self.files, f"{self.path.rstrip('/')}/{name}", self.root)

    def exists(self) -> bool:
        """Whether something is here."""
        return bool(self.files.get_file_info(self.path).type != fs.FileType.NotFound)

    def read_text(self) -> str | None:
        """Return what the file says; None where there is none."""
        if not self.exists():
            return None
        with self.files.open_input_stream(self.path) as stream:
            return bytes(stream.read()).decode("utf-8")

    def write_text(self, text: str) -> None:
        """Put `text` in the place of what the file says, all of it or nothing."""
        draft = Place(self.files, f"{self.path}.draft", self.root)
        with draft.create() as stream:
            stream.write(text.encode("utf-8"))
        self.files.move(draft.path, self.path)

    def create(self) -> pa.NativeFile:
        """Return a stream into a new file; its folder comes to be."""
        self.files.create_dir(self.path.rpartition("/")[0], recursive=True)
        return self.files.open_output_stream(self.path)

    def move_to(self, other: Place) -> None:
        """Let the file be `other`, in place of what is there."""
        self.files.create_dir(other.path.rpartition("/")[0], recursive=True)
        self.files.move(self.path, other.path)

    def delete(self) -> None:
        """Delete the file or folder with all below it; no harm where nothing is."""
        kind = self.files.get_file_info(self.path).type
        if kind == fs.FileType.Directory:
            self.files.delete_dir(self.path)
        elif kind != fs.FileType.NotFound:
            self.files.delete_file(self.path)

    def walk(self) -> Iterator[str]:
        """Yield the files below here, by what stands between; nothing where nothing is."""
        below = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        start = len(self.path.rstrip("/")) + 1
        yield from sorted(
            info.path[start:]
            for info in self.files.get_file_info(below)
            if info.type == fs.FileType.File
        )


@cache
def place(url: str) -> Place:
    """Return what a path or URL names; PlaceError for a scheme that nothing here knows."""
    scheme = _SCHEME.match(url)
    if scheme is None or scheme[1] == "file":
        path = re.sub(r"^file:(//)?(?=/)", "", url)
        return Place(fs.LocalFileSystem(), str(Path(path).expanduser().absolute()))
    known = _SAME_AS.get(scheme[1], scheme[1])
    try:
        files, path = fs.FileSystem.from_uri(known + url[len(scheme[1]) :])
    except (pa.ArrowException, OSError, ValueError) as error:
        return _by_fsspec(url, error)
    return Place(files, path, url[: len(url) - len(path)] if url.endswith(path) else "")


def find(
    urls: Iterable[str], without: Place | None = None, *, with_hidden: bool = False
) -> list[InputFile]:
    """List the files that paths, folders and patterns name, each once, ordered by name.

    A folder stands for all files below it whose names, and whose folders' names, begin with
    neither `.` nor `_` unless `with_hidden`, but for what is below `without`. PlaceError where a
    name leads nowhere.
    """
    found: dict[str, InputFile] = {}
    for url in urls:
        here = place(url)
        try:
            listed = _listed(here, with_hidden=with_hidden)
        except OSError as error:
            raise PlaceError(f"{url}: {error.strerror or error}") from error
        for info in listed:
            if without is None or not info.path.startswith(f"{without.path.rstrip('/')}/"):
                name = here.root + info.path
                found[name] = InputFile(
                    url=name, size=info.size, modified_ns=int(info.mtime_ns or 0)
                )
    return sorted(found.values())


def _listed(here: Place, *, with_hidden: bool) -> list[fs.FileInfo]:
    info = here.files.get_file_info(here.path)
    if info.type == fs.FileType.File:
        return [info]
    if info.type == fs.FileType.Directory:
        return _below(here, here.path, with_hidden=with_hidden)
    first = _PATTERN.search(here.path)
    if first is None:
        raise PlaceError(f"{here.url}: there is no such file or folder")
    folder = here.path[: first.start()].rpartition("/")[0]
    wanted = re.compile(_expression(here.path))
    below = _below(here, folder, with_hidden=with_hidden)
    matching = [info for info in below if wanted.fullmatch(info.path)]
    if not matching:
        raise PlaceError(f"{here.url}: no file matches")
    return matching


def _below(here: Place, folder: str, *, with_hidden: bool) -> list[fs.FileInfo]:
    selector = fs.FileSelector(folder, recursive=True, allow_not_found=True)
    return [
        info
        for info in here.files.get_file_info(selector)
        if info.type == fs.FileType.File
        and (
            with_hidden
            or not any(
                part.startswith((".", "_"))
                for part in info.path[len(folder.rstrip("/")) + 1 :].split("/")
            )
        )
    ]


def _expression(pattern: str) -> str:
    """Return what a shell's pattern is as a regular expression; `**` goes through folders."""
    return "".join(
        _PIECES.get(piece, f"[{'^' + piece[2:-1] if piece[1:2] == '!' else piece[1:-1]}]")
        if piece in _PIECES or piece.startswith("[")
        else re.escape(piece)
        for piece in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|.", pattern)
    )


_PIECES: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _by_fsspec(url: str, refused: Exception) -> Place:
    try:
        import fsspec  # noqa: PLC0415 - used where pyarrow has no file system, if it is there
    except ImportError:
        reason = " ".join(str(refused).split())
        raise PlaceError(f"{url}: {reason}; with fsspec installed more are known") from refused
    try:
        files, path = fsspec.core.url_to_fs(url)
    except (ImportError, OSError, ValueError) as error:
        raise PlaceError(f"{url}: {' '.join(str(error).split())}") from error
    wrapped = fs.PyFileSystem(fs.FSSpecHandler(files))
    return Place(wrapped, path, url[: len(url) - len(path)] if url.endswith(path) else "")
