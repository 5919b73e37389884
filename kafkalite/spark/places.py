"""Where files are, here or elsewhere: paths and URLs → files to list, read, write and move.

Python's workers cannot use Hadoop's file systems, so these are pyarrow's: what the machine has
mounted, S3, Google, Azure, HDFS; and whatever fsspec knows, where that is installed. Spark opens
the same URLs by Hadoop's, so they are named in its words.

What a store needs beside a name, its endpoint and credentials, it takes from the environment, as
all its clients do: a name goes into tables and reports.
"""

from __future__ import annotations

import os
import re
import stat
import textwrap
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)(.*)", re.DOTALL)
_FILE: Final = re.compile(r"file:(//)?(?=/)")
_HADOOPS: Final = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}
"""What Hadoop calls a store that has other names."""
_ARROWS: Final = {"s3a": "s3"}
"""What pyarrow calls otherwise than Hadoop."""
_PRIVATE: Final = re.compile(r"://[^/@]*:[^/]*@|[^/]\?\w+=")
"""Passwords and settings, as some write them into URLs."""
_OBJECTS: Final = ("s3a://", "gs://")
"""Stores of objects: they have no folders, and what is written is there at once and whole."""
_LINE: Final = 160
_PATTERN: Final = re.compile(r"[*?\[]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""What Python has in the place of bytes of an argument that are no UTF-8."""


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
    """The URL of the file system, up to where paths begin; empty for this machine's files."""
    base: str = ""
    """What paths begin with that is told by `root` already: a bucket."""

    @property
    def url(self) -> str:
        """The place as users and Spark name it."""
        return f"{self.root}{self.path.removeprefix(self.base)}"

    def __truediv__(self, name: str) -> Place:
        """Return what is called `name`, which may have slashes, below here."""
        return self.at(f"{self.path.rstrip('/')}/{name}")

    def at(self, path: str) -> Place:
        """Return what has another path in the same file system."""
        return replace(self, path=path)

    def exists(self) -> bool:
        """Whether something is here."""
        return bool(self.files.get_file_info(self.path).type != fs.FileType.NotFound)

    def read_text(self) -> str | None:
        """Return what the file says; None where there is none, PlaceError where it is no text."""
        if not self.exists():
            return None
        with self.files.open_input_stream(self.path) as stream:
            content = bytes(stream.read())
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise PlaceError(f"{self.url}: not a text: {error}") from error

    def write_text(self, text: str) -> None:
        """Put `text` in the place of what the file says, all of it or nothing."""
        draft = self if self._is_object else self.at(f"{self.path}.draft")
        with draft.create() as stream:
            stream.write(text.encode("utf-8"))
        if draft != self:
            draft.move_to(self)

    def create(self) -> pa.NativeFile:
        """Return a stream into a new file; its folder comes to be."""
        self._lie_in_a_folder()
        return self.files.open_output_stream(self.path)

    def move_to(self, other: Place) -> None:
        """Let the file be `other`, in place of what is there."""
        other._lie_in_a_folder()
        if self.root and not self._is_object and other.exists():
            # HDFS moves nothing to where something is; between the two the journal knows of both.
            self.files.delete_file(other.path)
        self.files.move(self.path, other.path)

    def delete(self) -> None:
        """Delete the file or folder with all below it; no harm where nothing is."""
        kind = self.files.get_file_info(self.path).type
        if kind == fs.FileType.Directory:
            self.files.delete_dir(self.path)
        elif kind != fs.FileType.NotFound:
            self.files.delete_file(self.path)

    @property
    def _is_object(self) -> bool:
        return self.root.startswith(_OBJECTS)

    def _lie_in_a_folder(self) -> None:
        if not self._is_object:
            self.files.create_dir(self.path.rpartition("/")[0], recursive=True)

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
    """Return what a path or URL names; PlaceError for one in no UTF-8, or of an unknown scheme."""
    if _SURROGATE.search(url):
        raise PlaceError(f"{os.fsencode(url)!r} is no name in UTF-8")
    parts = None if _FILE.match(url) else _URL.match(url)
    if parts is None:
        path = str(Path(_FILE.sub("", url)).expanduser().absolute())
        return Place(fs.LocalFileSystem(), path)
    if _PRIVATE.search(url):
        raise PlaceError(
            f"{_PRIVATE.split(url)[0]}…: settings and passwords of a store belong in the"
            " environment, not in its URL: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and the like"
        )
    root = _root(hadoops(f"{parts[1]}://{parts[2]}"))
    # What follows is taken as it is: a URL's own rules know neither patterns nor blanks.
    return root.at(f"{root.base}{parts[3]}".rstrip("/") or "/")


def hadoops(url: str) -> str:
    """Return a path or URL in Hadoop's words, as Spark understands it."""
    scheme, colon, rest = url.partition("://")
    return f"{_HADOOPS.get(scheme, scheme)}{colon}{rest}"


@cache
def _root(url: str) -> Place:
    """Return where all paths of a file system begin; it is connected to only once."""
    scheme, _, rest = url.partition("://")
    try:
        files, base = fs.FileSystem.from_uri(f"{_ARROWS.get(scheme, scheme)}://{rest}/")
    except (pa.ArrowException, OSError, ValueError) as error:
        files, base = _by_fsspec(url, error)
    base = base.rstrip("/")
    return Place(files, base, url, base)


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
        except UnicodeDecodeError as error:
            raise PlaceError(f"{url}: {error.object!r} there is no name in UTF-8") from error
        for info in listed:
            if without is None or not info.path.startswith(f"{without.path.rstrip('/')}/"):
                name = here.at(info.path).url
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
    if info.type == fs.FileType.Unknown:
        raise PlaceError(f"{here.url}: neither a file nor a folder")
    first = _PATTERN.search(here.path)
    if first is None:
        raise PlaceError(f"{here.url}: there is no such file or folder")
    folder = here.path[: first.start()].rpartition("/")[0]
    wanted = re.compile(_expression(here.path), re.DOTALL)
    below = _below(here, folder, with_hidden=with_hidden)
    matching = [info for info in below if wanted.fullmatch(info.path)]
    if not matching:
        raise PlaceError(f"{here.url}: no file matches")
    return matching


def _below(here: Place, folder: str, *, with_hidden: bool) -> list[fs.FileInfo]:
    if isinstance(here.files, fs.LocalFileSystem):
        listed = list(_walked(folder))
    else:
        selector = fs.FileSelector(folder, recursive=True, allow_not_found=True)
        listed = here.files.get_file_info(selector)
    return [
        info
        for info in listed
        if info.type == fs.FileType.File
        and (
            with_hidden
            or not any(
                part.startswith((".", "_"))
                for part in info.path[len(folder.rstrip("/")) + 1 :].split("/")
            )
        )
    ]


def _walked(top: str) -> Iterator[fs.FileInfo]:
    """Yield the files below a folder of this machine, each folder by one of the links to it.

    Arrow's own walk follows links to folders above until names are too long, which two of them
    put off for ever.
    """
    seen = {os.path.realpath(top)}
    for at, folders, names in os.walk(top, followlinks=True, onerror=_refuse):
        here = Path(at)
        real = {os.path.realpath(here / name): name for name in sorted(folders, reverse=True)}
        folders[:] = sorted(name for path, name in real.items() if path not in seen)
        seen.update(real)
        for path in (here / name for name in names):
            try:
                told = path.stat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(told.st_mode):
                name = os.fsencode(path).decode()  # as Arrow would: UnicodeDecodeError
                yield fs.FileInfo(
                    name, fs.FileType.File, size=told.st_size, mtime_ns=told.st_mtime_ns
                )


def _refuse(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _expression(pattern: str) -> str:
    """Return what a shell's pattern is as a regular expression; `**` goes through folders."""
    return "".join(
        _PIECES.get(piece, f"[{'^' + piece[2:-1] if piece[1:2] == '!' else piece[1:-1]}]")
        if piece in _PIECES or piece.startswith("[")
        else re.escape(piece)
        for piece in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|.", pattern, re.DOTALL)
    )


_PIECES: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _by_fsspec(url: str, refused: Exception) -> tuple[fs.FileSystem, str]:
    try:
        import fsspec  # noqa: PLC0415 - used where pyarrow has no file system, if it is there
    except ImportError:
        raise PlaceError(
            f"{url}: {_brief(refused)}: pip install fsspec, which knows more, and for HDFS"
            " hdfs-native"
        ) from refused
    try:
        files, base = fsspec.core.url_to_fs(f"{url}/")
    except (ImportError, OSError, ValueError) as error:
        raise PlaceError(f"{url}: {_brief(error)}") from error
    return fs.PyFileSystem(_Dated(files)), base


class _Dated(fs.FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """fsspec's file systems, which say in many words when a file was modified."""

    @staticmethod
    def _create_file_info(path: str, info: Mapping[str, Any]) -> fs.FileInfo:
        for word, unit in _MODIFIED.items():
            if info.get(word):
                when = info[word] if unit == 1 else info[word] / unit
                info = {**info, "mtime": when}
        return fs.FSSpecHandler._create_file_info(path, info)  # noqa: SLF001 - no other way


_MODIFIED: Final = {
    "mtime": 1,
    "LastModified": 1,
    "last_modified": 1,
    "modification_time": 1_000,
    "modificationTime": 1_000,
}
"""Words for it, and how many of its units are a second where it is a number."""


def _brief(error: Exception) -> str:
    """Return what an error says in one line; of libraries that were not found, not everywhere."""
    return textwrap.shorten(str(error), _LINE, placeholder="…")
