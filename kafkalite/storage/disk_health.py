"""DiskHealth: the failing, damaged and missing files of a data directory.

The code that uses the disk reports failures and successes. Listeners are called when a failure
begins and when it ends, not for each failed operation. If a disk refuses many paths for one reason,
that is one failure.
"""

from __future__ import annotations

import errno
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class DiskProblem(Enum):
    """Kinds of disk failures."""

    REFUSED = "refused"
    """The system returned an error: the disk is full, access is denied, the device fails."""
    DAMAGED = "damaged"
    """The bytes differ from those that were written."""
    MISSING = "missing"
    """A file or directory in use was deleted or moved away."""


class FileUse(Enum):
    """A use of a path; each use fails and recovers separately."""

    READING = "reading"
    WRITING = "writing"
    DELETING = "deleting"
    CLEANING = "cleaning"


class DamagedFileError(OSError):
    """The bytes of a file differ from those that were written."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(errno.EIO, reason, path)
        self.path = path
        self.reason = reason


class MissingFileError(OSError):
    """A file in use is no longer at its path."""

    def __init__(self, path: str) -> None:
        self.reason = "the file was deleted or moved away while in use"
        super().__init__(errno.ENOENT, self.reason, path)
        self.path = path


FailureCause = tuple[DiskProblem, str]
"""The problem and, for a refusal, the reason; else the path."""


class DiskFailure(NamedTuple):
    """A path that cannot be used, and the reason."""

    problem: DiskProblem
    path: str
    reason: str

    @property
    def cause(self) -> FailureCause:
        """The cause; failures with the same cause are announced as one."""
        is_refused = self.problem is DiskProblem.REFUSED
        return self.problem, self.reason if is_refused else self.path


class DiskListener(Protocol):
    """Receives calls when disk failures begin and end."""

    def failure_began(self, failure: DiskFailure) -> None:
        """Handle a new failure; further paths with the same cause are not announced."""

    def failure_ended(self, failure: DiskFailure) -> None:
        """Handle the end of a failure, for all paths that it affected."""


class _Entry(NamedTuple):
    failure: DiskFailure
    retry: Callable[[], object] | None


def _classify_error(path: str, error: OSError) -> DiskFailure:
    if isinstance(error, DamagedFileError):
        return DiskFailure(DiskProblem.DAMAGED, error.path, error.reason)
    if isinstance(error, MissingFileError):
        return DiskFailure(DiskProblem.MISSING, path, error.reason)
    return DiskFailure(DiskProblem.REFUSED, path, error.strerror or str(error))


class DiskHealth:
    """The current failures of one data directory."""

    __slots__ = ("_causes", "_entries", "_listeners")

    def __init__(self) -> None:
        self._listeners: list[DiskListener] = []
        self._entries: dict[tuple[str, FileUse], _Entry] = {}
        self._causes: dict[FailureCause, tuple[DiskFailure, int]] = {}
        """The failure that was announced, and the number of entries with that cause."""

    def subscribe(self, listener: DiskListener) -> None:
        """Announce failures to `listener`, beginning with the current ones."""
        self._listeners.append(listener)
        for failure, _ in self._causes.values():
            listener.failure_began(failure)

    @property
    def failures(self) -> Sequence[DiskFailure]:
        """The current failures, in the order in which they were reported."""
        return list(dict.fromkeys(entry.failure for entry in self._entries.values()))

    def report_failure(
        self, path: str, error: OSError, use: FileUse, retry: Callable[[], object] | None = None
    ) -> None:
        """Report that a path could not be used.

        The failure ends when `report_success` is called for the same path and use, or when `retry`,
        called by `retry_all`, raises no OSError.
        """
        failure = _classify_error(path, error)
        key = (failure.path, use)
        previous = self._entries.get(key)
        if previous is not None:
            if previous.failure == failure:
                return
            self._remove(key)
        self._entries[key] = _Entry(failure, retry)
        first, count = self._causes.get(failure.cause, (failure, 0))
        self._causes[failure.cause] = first, count + 1
        if not count:
            for listener in self._listeners:
                listener.failure_began(failure)

    def report_success(self, path: str, use: FileUse) -> None:
        """Report that a path can be used; no effect if it had no failure."""
        if (path, use) in self._entries:
            self._remove((path, use))

    def forget(self, directory: str) -> None:
        """End the failures of a directory and its files, because it is not used any more."""
        for path, use in tuple(self._entries):
            if path == directory or path.startswith(f"{directory}/"):
                self._remove((path, use))

    def retry_all(self) -> None:
        """Retry failed operations that can be retried; those that succeed have recovered."""
        for key, entry in tuple(self._entries.items()):
            if entry.retry is None:
                continue
            try:
                entry.retry()
            except OSError:
                continue
            except Exception:  # noqa: BLE001, S110 - the disk did not cause it
                pass
            self._remove(key)

    def _remove(self, key: tuple[str, FileUse]) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        cause = entry.failure.cause
        first, count = self._causes.pop(cause)
        if count > 1:
            self._causes[cause] = first, count - 1
            return
        for listener in self._listeners:
            listener.failure_ended(first)
