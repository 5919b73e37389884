"""InMemoryFiles: a file system in memory, whose copies share content until one of them changes it.

The content of a file is a sequence of chunks. Only the last chunk of a content grows, and only
while one file system uses the content. A copy of a file system therefore costs what its directories
cost, and not its bytes: both sides then replace a content, or the names of a directory, before they
change it. Chunks that are full are never copied.

`Memory` counts the bytes of all chunks, also those that only a copy still refers to, and refuses
more than its limit with ENOSPC, as a full disk does.
"""

from __future__ import annotations

import errno
import threading
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, Self

from kafkalite.ports.files import DiskSpace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kafkalite.ports.files import Buffer

_CHUNK_BYTES: Final = 1 << 20
"""The size from which a chunk grows no more."""
_MAX_COPIED_BYTES: Final = 1 << 14
"""The size up to which a last chunk is copied, and not shared, when a copy appends to it."""


class Memory:
    """The bytes that the files of one or several file systems use, and their limit.

    A memory may be part of another one, whose limit then holds for both together.
    """

    __slots__ = ("limit_bytes", "used_bytes", "whole")

    def __init__(self, limit_bytes: int | None = None, whole: Memory | None = None) -> None:
        """None means no limit. The bytes count for `whole`, too."""
        self.limit_bytes = limit_bytes
        self.whole = whole
        self.used_bytes = 0

    def take(self, count: int) -> None:
        """Count more bytes; raises OSError with ENOSPC beyond the limit, and counts nothing."""
        limit = self.limit_bytes
        if limit is not None and self.used_bytes + count > limit:
            used_mib, limit_mib = self.used_bytes >> 20, limit >> 20
            option = "--memory-limit" if self.whole is None else "--cluster-memory-limit"
            raise OSError(
                errno.ENOSPC,
                f"the data in memory has {used_mib} MiB, and its limit is {limit_mib} MiB "
                f"({option})",
            )
        if self.whole is not None:
            self.whole.take(count)
        self.used_bytes += count

    def release(self, count: int) -> None:
        """Count fewer bytes. Any thread may call this: none runs between a read and its write."""
        self.used_bytes -= count
        if self.whole is not None:
            self.whole.release(count)


class _Chunk:
    """Consecutive bytes of files; all chunks but the last one of a content are constant."""

    __slots__ = ("_memory", "data")

    def __init__(self, memory: Memory, data: Buffer = b"") -> None:
        memory.take(len(data))
        self.data = bytearray(data)
        self._memory = memory

    def __del__(self) -> None:
        # Missing if the memory was refused.
        if hasattr(self, "_memory"):
            self._memory.release(len(self.data))

    def append(self, buffer: Buffer) -> None:
        """Add bytes at the end."""
        self._memory.take(len(buffer))
        self.data += buffer

    def truncate(self, size: int) -> None:
        """Remove the bytes from `size` on."""
        count = len(self.data) - size
        self._memory.release(count)
        del self.data[size:]


class Content:
    """The bytes of a file, as one file system knows them."""

    __slots__ = ("chunks", "identity", "modified_ns", "owner", "size", "starts")

    def __init__(self, memory: Memory, owner: object, identity: object | None = None) -> None:
        self.owner = owner
        """The token of the file system that may change this content."""
        self.identity = object() if identity is None else identity
        """What the contents of one file have in common: a change replaces a shared content."""
        self.chunks = [_Chunk(memory)]
        self.starts = [0]
        """The position of each chunk."""
        self.size = 0
        self.modified_ns = time.time_ns()

    def copy(self, memory: Memory, owner: object) -> Self:
        """Return a content of another owner that shares the chunks of this one."""
        copy = type(self)(memory, owner, self.identity)
        last = self.chunks[-1]
        if len(last.data) <= _MAX_COPIED_BYTES:
            copy.chunks = [*self.chunks[:-1], _Chunk(memory, last.data)]
            copy.starts = self.starts[:]
        else:
            copy.chunks = [*self.chunks, _Chunk(memory)]
            copy.starts = [*self.starts, self.size]
        copy.size = self.size
        copy.modified_ns = self.modified_ns
        return copy

    def append(self, memory: Memory, buffers: Sequence[Buffer]) -> None:
        """Write the buffers at the end; on OSError some of them may have been written."""
        chunk = self.chunks[-1]
        if len(chunk.data) >= _CHUNK_BYTES:
            chunk = self._add_chunk(memory)
        for buffer in buffers:
            try:
                chunk.append(buffer)
            except BufferError:  # another thread reads this chunk, so it cannot grow
                memory.release(len(buffer))
                chunk = self._add_chunk(memory)
                chunk.append(buffer)
            self.size += len(buffer)
        self.modified_ns = time.time_ns()

    def _add_chunk(self, memory: Memory) -> _Chunk:
        chunk = _Chunk(memory)
        self.chunks.append(chunk)
        self.starts.append(self.size)
        return chunk

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`, fewer only where the file ends."""
        start = self.starts[-1]
        if position >= start:
            return bytes(
                memoryview(self.chunks[-1].data)[position - start : position - start + size]
            )
        index = bisect_right(self.starts, position) - 1
        end = min(position + size, self.size)
        start = position - self.starts[index]
        pieces = [memoryview(self.chunks[index].data)[start : start + size]]
        while self.starts[index] + len(self.chunks[index].data) < end:
            index += 1
            pieces.append(memoryview(self.chunks[index].data)[: end - self.starts[index]])
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def truncate(self, memory: Memory, size: int) -> None:
        """Truncate the file to `size` bytes, or extend it by zeros."""
        if size > self.size:
            self.append(memory, [bytes(size - self.size)])
            return
        count = bisect_right(self.starts, size)
        last = self.chunks[count - 1]
        last_size = size - self.starts[count - 1]
        if count == len(self.chunks):
            last.truncate(last_size)
        else:  # another content may share the chunk
            chunk = _Chunk(memory, memoryview(last.data)[:last_size])
            del self.chunks[count - 1 :], self.starts[count:]
            self.chunks.append(chunk)
        self.size = size
        self.modified_ns = time.time_ns()


class _Directory:
    """The names in a directory: the content of a file, or None for a directory."""

    __slots__ = ("entries", "owner")

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.entries: dict[str, Content | None] = {}

    def copy(self, owner: object) -> _Directory:
        copy = _Directory(owner)
        copy.entries = self.entries.copy()
        return copy


class InMemoryFile:
    """A file in memory."""

    __slots__ = ("_content", "_files", "_path", "_token")

    def __init__(self, files: InMemoryFiles, path: str, content: Content) -> None:
        self._files = files
        self._path = path
        self._content: Content | None = content
        self._token: object = content.owner
        """The token of the file system when this file had the latest content."""

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._latest().size

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all the buffers at the end; on OSError some bytes may have been written."""
        self._own().append(self._files.memory, buffers)

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`, fewer only where the file ends."""
        return self._latest().pread(size, position)

    def is_in_place(self) -> bool:
        """Whether the file is still at its path, not deleted or moved away."""
        content, present = self._files.content_at(self._path), self._content
        return content is not None and (present is None or content.identity is present.identity)

    def truncate(self, size: int) -> None:
        """Truncate the file to `size` bytes."""
        self._own().truncate(self._files.memory, size)

    def close(self) -> None:
        """Release the content; the next use looks for it again."""
        self._content = self._token = None

    def _latest(self) -> Content:
        """Return the content, which another InMemoryFile may have replaced."""
        files, present = self._files, self._content
        if present is None or self._token is not files.token:
            content = files.content_at(self._path)
            if present is None and content is None:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", self._path)
            if content is not None and (present is None or content.identity is present.identity):
                present = self._content = content
            assert present is not None
            self._token = files.token if present.owner is files.token else None
        return present

    def _own(self) -> Content:
        """Return the content, after replacing one that a copy of the file system shares."""
        content, files = self._content, self._files
        if content is None or self._token is not files.token:
            content = self._latest()
            if content.owner is not files.token:
                content = self._content = files.replace_content(self._path, content)
                self._token = files.token
        return content


class MemoryLock:
    """A lock on a file in memory, which no other process can use."""

    def release(self) -> None:
        """Do nothing."""


class InMemoryFiles:
    """A file system in memory. `copy` returns another one with the same files.

    One thread uses it; others may call `read`, `write`, `remove` and the like, but not open files.
    """

    new_content = Content
    """Creates the content of a new file."""

    def __init__(self, memory: Memory | None = None) -> None:
        """Its files and those of its copies use `memory`, which has no limit by default."""
        self.memory = Memory() if memory is None else memory
        self.token = object()
        """The owner of the contents and directories that no copy shares."""
        self._directories: dict[str, _Directory] = {"": _Directory(self.token)}
        self._lock = threading.RLock()

    def copy(self, memory: Memory | None = None) -> Self:
        """Return another file system with the same files; later changes of one are its own.

        Those of the copy count for `memory`, which is the same one by default.
        """
        copy = type(self)(self.memory if memory is None else memory)
        copy.share_with(self)
        return copy

    def share_with(self, other: InMemoryFiles) -> None:
        """Have the files of another file system; neither owns what both share."""
        with other._lock:
            other.token = object()
            directories = other._directories.copy()
        with self._lock:
            self.token = object()
            self._directories = directories

    def clear(self) -> None:
        """Remove everything, because nothing uses the files any more; copies remain."""
        with self._lock:
            self.token = object()
            self._directories = {"": _Directory(self.token)}

    def _own_directory(self, path: str) -> _Directory:
        """Return a directory to change; raises FileNotFoundError if it is absent."""
        directory = self._directories.get(path)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        if directory.owner is not self.token:
            directory = self._directories[path] = directory.copy(self.token)
        return directory

    def content_at(self, path: str) -> Content | None:
        """Return the content of the file at `path`, None if it is absent."""
        parent, _, name = path.rpartition("/")
        directory = self._directories.get(parent)
        return None if directory is None else directory.entries.get(name)

    def own_content(self, path: str) -> Content:
        """Return the content of the file at `path`, which no copy shares."""
        content = self._existing(path)
        is_own = content.owner is self.token
        return content if is_own else self.replace_content(path, content)

    def replace_content(self, path: str, content: Content) -> Content:
        """Return a copy of a shared content; it takes the place of that one if it is at `path`."""
        copy = content.copy(self.memory, self.token)
        with self._lock:
            if self.content_at(path) is content:
                parent, _, name = path.rpartition("/")
                self._own_directory(parent).entries[name] = copy
        return copy

    def _existing(self, path: str) -> Content:
        content = self.content_at(path)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return content

    def open(self, path: str, *, create: bool = False) -> InMemoryFile:
        """Return the file at `path`; raises FileNotFoundError if absent and `create` is not set."""
        content = self.content_at(path)
        if content is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            content = self._create(path)
        return InMemoryFile(self, path, content)

    def _create(self, path: str) -> Content:
        """Put an empty file at `path`, in the place of another one if there is one."""
        parent, _, name = path.rpartition("/")
        with self._lock:
            content = self.new_content(self.memory, self.token)
            self._own_directory(parent).entries[name] = content
        return content

    def read(self, path: str) -> bytes:
        """Return all of the file at `path`; raises FileNotFoundError when absent."""
        content = self._existing(path)
        return content.pread(content.size, 0)

    def write(self, path: str, content: Buffer) -> None:
        """Replace the file at `path`. Any thread may call this."""
        with self._lock:
            file = self.open(path, create=True)
            file.truncate(0)
            file.append([content])

    def boot_id(self) -> str | None:
        """Return one id: nothing is lost as long as the process runs."""
        return "memory"

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path`, sorted; none when it is absent."""
        directory = self._directories.get(path)
        return [] if directory is None else sorted(directory.entries)

    def paths_below(self, path: str) -> Iterator[str]:
        """Yield the paths of all files in the directory at `path` and below it."""
        for directory_path, directory in self._directories.items():
            if not path or directory_path == path or directory_path.startswith(f"{path}/"):
                for name, content in directory.entries.items():
                    if content is not None:
                        yield f"{directory_path}/{name}" if directory_path else name

    def modified_ms(self, path: str) -> int:
        """Return when the file at `path` last changed, in milliseconds since the Unix epoch."""
        return self._existing(path).modified_ns // 1_000_000

    def disk_space(self, path: str) -> DiskSpace:
        """Return the limit of the memory and what is free of it, unknown without a limit."""
        del path
        limit = self.memory.limit_bytes
        if limit is None:
            return DiskSpace()
        return DiskSpace(limit, max(0, limit - self.memory.used_bytes))

    def rename(self, old: str, new: str) -> None:
        """Rename the file or directory `old` to `new` atomically, replacing a file there."""
        with self._lock:
            old_parent, _, old_name = old.rpartition("/")
            new_parent, _, new_name = new.rpartition("/")
            entries = self._own_directory(old_parent).entries
            if old_name not in entries:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", old)
            self._own_directory(new_parent).entries[new_name] = entries.pop(old_name)
            if old in self._directories:
                self._move_directory(old, new)

    def _move_directory(self, old: str, new: str) -> None:
        directory = self._directories.pop(old)
        self._directories[new] = directory
        for name, content in directory.entries.items():
            if content is None:
                self._move_directory(f"{old}/{name}", f"{new}/{name}")

    def remove(self, path: str) -> None:
        """Remove the file at `path`; no effect if it is absent."""
        with self._lock:
            parent, _, name = path.rpartition("/")
            if self.content_at(path) is not None:
                del self._own_directory(parent).entries[name]

    def makedirs(self, path: str) -> None:
        """Create the directory at `path` and its parents; no effect if it exists."""
        with self._lock:
            if path in self._directories:
                return
            parent, _, name = path.rpartition("/")
            self.makedirs(parent)
            self._own_directory(parent).entries[name] = None
            self._directories[path] = _Directory(self.token)

    def mkdir(self, path: str) -> None:
        """Create the directory at `path`; no effect if it exists.

        Raises FileNotFoundError when its parent is absent.
        """
        with self._lock:
            parent = path.rpartition("/")[0]
            if parent not in self._directories:
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
            self.makedirs(path)

    def remove_directory(self, path: str) -> None:
        """Remove the empty directory at `path`; no effect if it is absent."""
        with self._lock:
            directory = self._directories.get(path)
            if directory is None:
                return
            if directory.entries:
                raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
            parent, _, name = path.rpartition("/")
            del self._own_directory(parent).entries[name]
            del self._directories[path]

    def sync(self, path: str) -> None:
        """Raise FileNotFoundError when the file is absent; memory needs no sync."""
        self._existing(path)

    def sync_directory(self, path: str) -> None:
        """Do nothing: memory needs no sync."""

    def sync_all(self, directory: str, paths: Collection[str]) -> None:
        """Raise FileNotFoundError if a path is absent; memory needs no sync."""
        del directory
        for path in paths:
            if path not in self._directories:
                self._existing(path)

    def lock(self, path: str) -> MemoryLock:
        """Lock the file at `path`, created if needed; no other process can have locked it."""
        self.open(path, create=True)
        return MemoryLock()
