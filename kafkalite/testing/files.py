"""File systems for tests: one in memory that can lose power, and one that fails at a given step.

`MemoryFiles` are the files of a broker in memory, and track which bytes were synced. `FaultyFiles`
counts every step that changes the disk. At the given step it writes a part of the data and then
either raises ENOSPC (a full disk) or simulates a crash, after which every step fails.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Self

from kafkalite.ports.memory_files import Content, InMemoryFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kafkalite.ports.files import Buffer, DiskSpace
    from kafkalite.ports.memory_files import InMemoryFile, Memory, MemoryLock


class CrashedError(BaseException):
    """A simulated crash of the process; error handlers must not catch it."""


class _DurableContent(Content):
    """The bytes of a file, and those that are durable."""

    __slots__ = ("before_truncation", "synced_size")

    def __init__(self, memory: Memory, owner: object, identity: object | None = None) -> None:
        super().__init__(memory, owner, identity)
        self.synced_size = 0
        self.before_truncation: bytes | None = None
        """The synced bytes before a truncation that was not synced."""

    def copy(self, memory: Memory, owner: object) -> Self:
        """Return a content of another owner with the same bytes."""
        copy = super().copy(memory, owner)
        copy.synced_size, copy.before_truncation = self.synced_size, self.before_truncation
        return copy

    def truncate(self, memory: Memory, size: int) -> None:
        """Remove the bytes from `size` on."""
        if size < self.synced_size and self.before_truncation is None:
            self.before_truncation = self.pread(self.synced_size, 0)
        super().truncate(memory, size)
        self.synced_size = min(self.synced_size, size)

    def sync(self) -> None:
        """Make all bytes and truncations durable."""
        self.synced_size = self.size
        self.before_truncation = None

    def after_power_loss(self, unsynced_size: int, *, restores_removed: bool) -> bytes:
        """Return the synced bytes and the first `unsynced_size` others, or those before."""
        if restores_removed and self.before_truncation is not None:
            return self.before_truncation
        return self.pread(self.synced_size + unsynced_size, 0)


class MemoryFiles(InMemoryFiles):
    """A file system in memory; bytes are durable after a sync, new names at once.

    Removed names and bytes may come back until the removal was synced.
    """

    new_content = _DurableContent

    def __init__(self, memory: Memory | None = None) -> None:
        super().__init__(memory)
        self._removed: dict[str, _DurableContent] = {}
        """Removed files whose directories were not synced afterwards."""
        self._boot = 0
        self.now_ms = 0

    @property
    def paths(self) -> list[str]:
        """The paths of all files, sorted."""
        return sorted(self.paths_below(""))

    def copy(self, memory: Memory | None = None) -> Self:
        """Return another disk with the same files."""
        copy = super().copy(memory)
        copy.become(self)
        return copy

    def become(self, other: MemoryFiles) -> None:
        """Have the files of another disk; files that are open here have them as well."""
        self.share_with(other)
        self._removed, self._boot = other._removed.copy(), other._boot
        self.now_ms = other.now_ms

    def state(self) -> object:
        """Return a value that is equal for disks with equal and equally durable bytes."""
        contents = {path: self._durable(self._existing(path)) for path in self.paths}
        return (
            self._boot,
            frozenset(self._directories),
            *(
                frozenset(
                    (path, each.pread(each.size, 0), each.synced_size, each.before_truncation)
                    for path, each in contents.items()
                )
                for contents in (contents, self._removed)
            ),
        )

    def after_power_loss(
        self, count_surviving: Callable[[int], int], *, restores_removed: bool = False
    ) -> MemoryFiles:
        """Return the disk as it is after a loss of power.

        `count_surviving` is called with the number of unsynced bytes of each file, and returns how
        many of them survive, counted from the first. With `restores_removed`, files and bytes come
        back whose removal was not synced.
        """
        after = MemoryFiles()
        after._boot = self._boot + 1
        for directory in sorted(self._directories):
            after.makedirs(directory)
        contents = {path: self._durable(self._existing(path)) for path in self.paths_below("")}
        removed = self._removed if restores_removed else {}
        for path, content in {**removed, **contents}.items():
            surviving = count_surviving(content.size - content.synced_size)
            data = content.after_power_loss(surviving, restores_removed=restores_removed)
            after.makedirs(path.rpartition("/")[0])
            after.write(path, data)
            after.sync(path)
        return after

    @staticmethod
    def _durable(content: Content) -> _DurableContent:
        assert isinstance(content, _DurableContent)
        return content

    def boot_id(self) -> str | None:
        """Return the number of losses of power."""
        return str(self._boot)

    def modified_ms(self, path: str) -> int:
        """Return `now_ms`: tests set the time of all files."""
        self._existing(path)
        return self.now_ms

    def remove(self, path: str) -> None:
        """Remove the file at `path`; no effect if it is absent."""
        content = self.content_at(path)
        super().remove(path)
        if content is not None:
            self._removed.setdefault(path, self._durable(content))

    def mkdir(self, path: str) -> None:
        """Create the directory at `path` and its parents, which tests need not create."""
        self.makedirs(path)

    def sync(self, path: str) -> None:
        """Make the bytes of the file at `path` durable."""
        super().sync(path)
        self._durable(self.own_content(path)).sync()

    def sync_directory(self, path: str) -> None:
        """Make the removal of names in the directory at `path` durable."""
        for removed in [name for name in self._removed if name.rpartition("/")[0] == path]:
            del self._removed[removed]

    def sync_all(self, directory: str, paths: Collection[str]) -> None:
        """Make the bytes of the files at `paths`, and the names in directories, durable."""
        del directory
        for path in sorted(paths):
            if path in self._directories:
                self.sync_directory(path)
            else:
                self.sync(path)


class FaultyFiles:
    """Forwards to `disk` until the step `fail_at`; steps that change the disk are counted from 0.

    A failing write writes the fraction `part` of its bytes. With `crash`, the failing step and all
    later ones raise CrashedError. Without it, `failing_steps` steps from `fail_at` on raise ENOSPC.
    """

    def __init__(
        self,
        disk: MemoryFiles,
        *,
        fail_at: int | None = None,
        part: float = 0.5,
        crash: bool = True,
        failing_steps: int = 1,
    ) -> None:
        self.disk = disk
        self.steps = 0
        self._fail_at = fail_at
        self._part = part
        self._crash = crash
        self._failing_steps = failing_steps
        self._has_crashed = False

    def fail_from(self, step: int | None, *, failing_steps: int = 1) -> None:
        """Fail `failing_steps` steps from `step` on; None means no step."""
        self._fail_at = step
        self._failing_steps = failing_steps

    def step(self, write_part: Callable[[float], None] | None = None) -> None:
        """Count a step that changes the disk; raise an error if this step must fail."""
        if self._has_crashed:
            raise CrashedError
        step, self.steps = self.steps, self.steps + 1
        if self._fail_at is None or not self._fail_at <= step < self._fail_at + self._failing_steps:
            return
        if write_part is not None:
            write_part(self._part)
        if self._crash:
            self._has_crashed = True
            raise CrashedError
        raise OSError(errno.ENOSPC, "no space left on device")

    def open(self, path: str, *, create: bool = False) -> FaultyFile:
        """Return the file at `path`; creating one is a step."""
        if create and path not in self.disk.paths:
            self.step()
        return FaultyFile(self, self.disk.open(path, create=create))

    def read(self, path: str) -> bytes:
        """Return all bytes of the file at `path`."""
        return self.disk.read(path)

    def write(self, path: str, content: Buffer) -> None:
        """Replace the content of the file at `path`: a step, which may be done in part."""
        self.step(lambda part: self.disk.write(path, content[: int(len(content) * part)]))
        self.disk.write(path, content)

    def boot_id(self) -> str | None:
        """Return the number of losses of power."""
        return self.disk.boot_id()

    def list(self, path: str) -> list[str]:
        """Return the names in the directory at `path`."""
        return self.disk.list(path)

    def modified_ms(self, path: str) -> int:
        """Return the time at which the file at `path` was last changed."""
        return self.disk.modified_ms(path)

    def disk_space(self, path: str) -> DiskSpace:
        """Return the size of the disk."""
        return self.disk.disk_space(path)

    def rename(self, old: str, new: str) -> None:
        """Move the file or directory at `old` to `new`: a step."""
        self.step()
        self.disk.rename(old, new)

    def remove(self, path: str) -> None:
        """Remove the file at `path`: a step if it exists."""
        if path in self.disk.paths:
            self.step()
        self.disk.remove(path)

    def makedirs(self, path: str) -> None:
        """Create the directory at `path`: a step."""
        self.step()
        self.disk.makedirs(path)

    def mkdir(self, path: str) -> None:
        """Create the directory at `path`: a step."""
        self.makedirs(path)

    def remove_directory(self, path: str) -> None:
        """Remove the directory at `path`: a step."""
        self.step()
        self.disk.remove_directory(path)

    def sync(self, path: str) -> None:
        """Make the bytes of the file at `path` durable: a step."""
        self.step()
        self.disk.sync(path)

    def sync_directory(self, path: str) -> None:
        """Make the names in the directory at `path` durable: a step."""
        self.step()
        self.disk.sync_directory(path)

    def sync_all(self, directory: str, paths: Collection[str]) -> None:
        """Make the bytes of the files at `paths` durable: a step for each."""
        for path in sorted(paths):
            self.step()
            self.disk.sync_all(directory, (path,))

    def lock(self, path: str) -> MemoryLock:
        """Return a lock on the file at `path`."""
        return self.disk.lock(path)


class FaultyFile:
    """A file of `FaultyFiles`."""

    __slots__ = ("_file", "_files")

    def __init__(self, files: FaultyFiles, file: InMemoryFile) -> None:
        self._files = files
        self._file = file

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._file.size

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all the buffers at the end: a step, which may be done in part."""
        data = b"".join(buffers)
        self._files.step(lambda part: self._file.append([data[: int(len(data) * part)]]))
        self._file.append([data])

    def pread(self, size: int, position: int) -> bytes:
        """Return up to `size` bytes from `position`."""
        return self._file.pread(size, position)

    def is_in_place(self) -> bool:
        """Whether the file is still at its path."""
        return self._file.is_in_place()

    def truncate(self, size: int) -> None:
        """Cut the file down to `size` bytes: a step."""
        self._files.step()
        self._file.truncate(size)

    def close(self) -> None:
        """Do nothing: there is no descriptor."""
