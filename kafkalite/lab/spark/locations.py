"""Locations of files, local or remote: paths and URLs → files to list, read, write and move.

Python workers cannot use Hadoop's file systems, so pyarrow's are used: local, S3, Google, Azure and
HDFS; and fsspec's if it is installed. Spark opens the same URLs with Hadoop's file systems, so
URLs use Hadoop's schemes.

Endpoints and credentials of stores come from the environment, not from URLs, because URLs are
written into tables and reports.
"""

from __future__ import annotations

import os
import re
import stat
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)(.*)", re.DOTALL)
_FILE: Final = re.compile(r"file:(//)?(?=/)")
_HADOOP_SCHEMES: Final = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}
"""Other schemes → Hadoop's schemes."""
_ARROW_SCHEMES: Final = {"s3a": "s3"}
"""Hadoop's schemes → pyarrow's schemes."""
_CREDENTIALS: Final = re.compile(r"://[^/@]*:[^/@]*@|[^/]\?\w+=")
"""Matches passwords and settings in URLs."""
_OBJECT_STORES: Final = ("s3a://", "gs://")
"""Object stores: they have no folders, and a written object appears atomically."""
_THREADS: Final = 32
"""Number of requests to a store at once."""
_MAX_ERROR_LENGTH: Final = 160
_PATTERN: Final = re.compile(r"[*?\[]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Matches Python's replacement for bytes of an argument that are not valid UTF-8."""


class LocationError(Exception):
    """A location cannot be used; the text is one line for users."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class InputFile:
    """An input file as it was when listed."""

    url: str
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Location:
    """A file or folder: its file system, and its path there."""

    files: fs.FileSystem
    path: str
    root: str = ""
    """URL of the file system without its paths; empty for local files."""
    base: str = ""
    """Prefix of paths that `root` contains already, such as a bucket."""

    @property
    def url(self) -> str:
        """The location as a path or URL, as users and Spark write it."""
        return f"{self.root}{self.path.removeprefix(self.base)}"

    def __truediv__(self, name: str) -> Location:
        """Return the location `name`, which may contain slashes, below this one."""
        return self.with_path(f"{self.path.rstrip('/')}/{name}")

    def with_path(self, path: str) -> Location:
        """Return another path in the same file system."""
        return replace(self, path=path)

    def exists(self) -> bool:
        """Whether there is a file or folder at this location."""
        return bool(self.files.get_file_info(self.path).type != fs.FileType.NotFound)

    def read_text(self) -> str | None:
        """Return the file's text; None if there is no file, LocationError if it is not UTF-8."""
        if not self.exists():
            return None
        with self.files.open_input_stream(self.path) as stream:
            content = bytes(stream.read())
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise LocationError(f"{self.url}: not a UTF-8 text: {error}") from error

    def write_text(self, text: str) -> None:
        """Replace the file's content atomically."""
        draft = self if self.is_object else self.with_path(f"{self.path}.draft")
        with draft.create() as stream:
            stream.write(text.encode("utf-8"))
        if draft != self:
            draft.move_to(self)

    def create(self) -> pa.NativeFile:
        """Return a stream into a new file; creates its folder."""
        self._create_folder()
        return self.files.open_output_stream(self.path)

    def move_to(self, target: Location) -> None:
        """Move the file to `target`, which is replaced."""
        target._create_folder()
        if self.root and not self.is_object and target.exists():
            # HDFS does not replace files. The journal covers a crash between the two steps.
            self.files.delete_file(target.path)
        self.files.move(self.path, target.path)

    def delete(self) -> None:
        """Delete the file, or the folder with its content; does nothing if there is none."""
        kind = self.files.get_file_info(self.path).type
        if kind == fs.FileType.Directory:
            self.files.delete_dir(self.path)
        elif kind != fs.FileType.NotFound:
            self.files.delete_file(self.path)

    def move_below(self, target: Location, names: Collection[str]) -> None:
        """Move files from this folder to another one, in parallel; no file may be there."""
        if not self.is_object:
            for folder in {name.rpartition("/")[0] for name in names}:
                target.files.create_dir((target / folder).path, recursive=True)
        in_parallel(lambda name: self.files.move((self / name).path, (target / name).path), names)

    def delete_below(self, names: Collection[str]) -> None:
        """Delete files below this folder, in parallel."""
        in_parallel(lambda name: self.files.delete_file((self / name).path), names)

    def delete_if_empty(self) -> bool:
        """Delete the folder if it is empty; returns whether it is gone."""
        if self.files.get_file_info(fs.FileSelector(self.path, allow_not_found=True)):
            return False
        self.delete()
        return True

    @property
    def is_object(self) -> bool:
        """Whether this is in an object store, where a move is a copy."""
        return self.root.startswith(_OBJECT_STORES)

    def _create_folder(self) -> None:
        if not self.is_object:
            self.files.create_dir(self.path.rpartition("/")[0], recursive=True)

    def folders(self) -> list[str]:
        """Return the names of the folders in this one."""
        within = self.files.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(each.base_name for each in within if each.type == fs.FileType.Directory)

    def walk(self) -> Iterator[str]:
        """Yield the paths of all files below this folder, relative to it; none if it is missing."""
        below = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        start = len(self.path.rstrip("/")) + 1
        yield from sorted(
            info.path[start:]
            for info in self.files.get_file_info(below)
            if info.type == fs.FileType.File
        )

    def has_files(self) -> bool:
        """Whether a file is anywhere below this folder."""
        return next(self.walk(), None) is not None


def in_parallel(work: Callable[[T], object], items: Collection[T]) -> None:
    """Call `work` with each item in threads; raises the first error."""
    with ThreadPoolExecutor(max(1, min(_THREADS, len(items)))) as pool:
        for _ in pool.map(work, items):
            pass


@cache
def location(url: str) -> Location:
    """Parse a path or URL; raises LocationError if it is not UTF-8 or the scheme is unknown."""
    if _SURROGATE.search(url):
        raise LocationError(f"{os.fsencode(url)!r} is not valid UTF-8")
    parts = None if _FILE.match(url) else _URL.match(url)
    if parts is None:
        path = str(Path(_FILE.sub("", url)).expanduser().absolute())
        return Location(fs.LocalFileSystem(), without_parent_steps(path))
    if _CREDENTIALS.search(url):
        raise LocationError(
            f"{_CREDENTIALS.split(url)[0]}…: pass settings and passwords of a store in the"
            " environment, not in its URL: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and the like"
        )
    root = _root(hadoop_url(f"{parts[1]}://{parts[2]}"))
    # The path is not parsed as a URL's, because it may contain patterns and spaces.
    return root.with_path(f"{root.base}{parts[3]}".rstrip("/") or "/")


def without_parent_steps(path: str) -> str:
    """Return an absolute path without `..`, so that a file has one name from all directories."""
    parts = Path(path).parts
    if ".." not in parts:
        return path
    last = len(parts) - parts[::-1].index("..")
    # A step to the parent of a link leads to the parent of its target.
    return str(Path(os.path.realpath(Path(*parts[:last])), *parts[last:]))


def hadoop_url(url: str) -> str:
    """Return a path or URL with Hadoop's scheme, as Spark understands it."""
    scheme, colon, path = url.partition("://")
    return f"{_HADOOP_SCHEMES.get(scheme, scheme)}{colon}{path}"


@cache
def _root(url: str) -> Location:
    """Connect to a file system, once per process."""
    scheme, _, path = url.partition("://")
    try:
        files, base = fs.FileSystem.from_uri(f"{_ARROW_SCHEMES.get(scheme, scheme)}://{path}/")
    except (pa.ArrowException, OSError, ValueError) as error:
        files, base = _open_with_fsspec(url, error)
    base = base.rstrip("/")
    return Location(files, base, url, base)


def find(
    urls: Iterable[str], excluded: Location | None = None, *, with_hidden: bool = False
) -> list[InputFile]:
    """List the files that paths, folders and patterns match, without duplicates, sorted by name.

    A folder stands for all files below it. Files and folders whose names begin with `.` or `_` are
    skipped unless `with_hidden`, and so are files below `excluded`, and links to files that are
    listed as well.
    Raises LocationError for a location that does not exist.
    """
    files: dict[str, InputFile] = {}
    for url in urls:
        root = location(url)
        try:
            listed = _list_matching(root, with_hidden=with_hidden)
        except OSError as error:
            raise LocationError(f"{url}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise LocationError(f"{url}: {error.object!r} is a file name but not UTF-8") from error
        for info in listed:
            if excluded is None or not info.path.startswith(f"{excluded.path.rstrip('/')}/"):
                name = root.with_path(info.path).url
                files[name] = InputFile(
                    url=name, size=info.size, modified_ns=int(info.mtime_ns or 0)
                )
    return _without_second_names(sorted(files.values()))


def _without_second_names(files: Sequence[InputFile]) -> list[InputFile]:
    """Remove names of local files that are listed under their own name or an earlier one."""
    real_path = _RealPaths()
    by_real_path: dict[str, InputFile] = {}
    for file in files:
        path = real_path(file.url)
        if file.url == path or path not in by_real_path:
            by_real_path[path] = file
    return sorted(by_real_path.values())


class _RealPaths:
    """Returns the paths of files without links; the links of each folder are followed once."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, url: str) -> str:
        """Return the path of a local file without links, or the URL of another file."""
        if "://" in url:
            return url
        if Path(url).is_symlink():
            return os.path.realpath(url)
        folder, slash, name = url.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(folder or "/").rstrip("/")
        return f"{self._folders[folder]}{slash}{name}"


def _list_matching(root: Location, *, with_hidden: bool) -> list[fs.FileInfo]:
    info = root.files.get_file_info(root.path)
    if info.type == fs.FileType.File:
        return [info]
    if info.type == fs.FileType.Directory:
        return _list_below(root, root.path, with_hidden=with_hidden)
    if info.type == fs.FileType.Unknown:
        raise LocationError(f"{root.url}: neither a file nor a folder")
    first_wildcard = _PATTERN.search(root.path)
    if first_wildcard is None:
        raise LocationError(f"{root.url}: no such file or folder")
    folder = root.path[: first_wildcard.start()].rpartition("/")[0]
    regex = re.compile(_pattern_to_regex(root.path), re.DOTALL)
    below = _list_below(root, folder, with_hidden=with_hidden)
    matching = [info for info in below if regex.fullmatch(info.path)]
    if not matching:
        raise LocationError(f"{root.url}: no file matches")
    return matching


def _list_below(root: Location, folder: str, *, with_hidden: bool) -> list[fs.FileInfo]:
    if isinstance(root.files, fs.LocalFileSystem):
        listed = list(_walk_local_folder(folder))
    else:
        selector = fs.FileSelector(folder, recursive=True, allow_not_found=True)
        listed = root.files.get_file_info(selector)
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


def _walk_local_folder(top: str) -> Iterator[fs.FileInfo]:
    """Yield the files below a local folder, visiting each folder once even if links lead to it.

    Arrow's own walk follows links to parent folders until paths are too long. With two such links
    it practically never ends.
    """
    seen = {os.path.realpath(top)}
    for at, folders, names in os.walk(top, followlinks=True, onerror=_raise_unless_missing):
        folder = Path(at)
        by_real_path = {
            os.path.realpath(folder / name): name for name in sorted(folders, reverse=True)
        }
        folders[:] = sorted(name for path, name in by_real_path.items() if path not in seen)
        seen.update(by_real_path)
        for path in (folder / name for name in names):
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                name = os.fsencode(path).decode()  # raises UnicodeDecodeError, as Arrow does
                yield fs.FileInfo(
                    name, fs.FileType.File, size=status.st_size, mtime_ns=status.st_mtime_ns
                )


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _pattern_to_regex(pattern: str) -> str:
    """Translate a shell pattern to a regular expression; `**` matches across folders."""
    return "".join(
        _WILDCARDS.get(token, f"[{'^' + token[2:-1] if token[1:2] == '!' else token[1:-1]}]")
        if token in _WILDCARDS or token.startswith("[")
        else re.escape(token)
        for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]+\]|.", pattern, re.DOTALL)
    )


_WILDCARDS: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def _open_with_fsspec(url: str, arrow_error: Exception) -> tuple[fs.FileSystem, str]:
    try:
        import fsspec  # noqa: PLC0415 - optional, used if pyarrow has no file system
    except ImportError:
        raise LocationError(
            f"{url}: {_shorten_error(arrow_error)}; fsspec supports more stores: pip install"
            " fsspec, and for HDFS hdfs-native"
        ) from arrow_error
    try:
        files, base = fsspec.core.url_to_fs(f"{url}/")
    except (ImportError, OSError, ValueError) as error:
        raise LocationError(f"{url}: {_shorten_error(error)}") from error
    return fs.PyFileSystem(_FsspecHandler(files)), base


class _FsspecHandler(fs.FSSpecHandler):  # type: ignore[misc]  # pyarrow has no types
    """fsspec's file systems, which use several names for the time of modification."""

    @staticmethod
    def _create_file_info(path: str, info: Mapping[str, Any]) -> fs.FileInfo:
        for key, unit in _MODIFICATION_TIME_KEYS.items():
            if info.get(key):
                modified_s = info[key] if unit == 1 else info[key] / unit
                info = {**info, "mtime": modified_s}
        return fs.FSSpecHandler._create_file_info(path, info)  # noqa: SLF001 - no other way


_MODIFICATION_TIME_KEYS: Final = {
    "mtime": 1,
    "LastModified": 1,
    "last_modified": 1,
    "modification_time": 1_000,
    "modificationTime": 1_000,
}
"""fsspec's names for the time of modification, with units per second if it is a number."""


def _shorten_error(error: Exception) -> str:
    """Shorten an error to one line; some list all paths where a library was searched."""
    return textwrap.shorten(str(error), _MAX_ERROR_LENGTH, placeholder="…")
