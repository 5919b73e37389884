"""Data directories into which a declared state is loaded: empty ones, and only once.

A file marks a load that is not complete; the next start with a state removes what that load wrote,
and loads again. Another file names the state that was loaded.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

from kafkalite.ports.files import join
from kafkalite.server.broker_directory import (
    STATE_LOADING_FILE,
    BrokerDirectoryError,
    directory_error,
)
from kafkalite.storage.checkpoint import write_atomically
from kafkalite.storage.data_directory import LOCK_FILE, META_FILE
from kafkalite.storage.file_names import parse_partition_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.ports.files import Files
    from kafkalite.server.broker import Broker

STATE_FILE: Final = ".kafkalite_state"
"""The file with the digest of the state that was loaded."""
_SHOWN_DIGITS: Final = 12


class DeclaredState(Protocol):
    """What a new cluster contains."""

    @property
    def digest(self) -> str:
        """A hash of everything that it declares."""

    @property
    def brokers(self) -> int:
        """The number of nodes that the cluster must have, at least."""

    @property
    def features(self) -> Mapping[str, int]:
        """The levels of features with which the cluster is formatted."""

    @property
    def topics(self) -> Sequence[str]:
        """The names of the topics."""

    def error(self, path: tuple[str | int, ...], text: str) -> Exception:
        """Return the SettingsError of the value at a path, with its position."""

    async def load(
        self, broker: Broker, topics: str | None = None, groups: str | None = None
    ) -> None:
        """Create it, or only the topics and groups that match a pattern.

        Raises SettingsError if the broker refuses a part.
        """


class DeclaredData:
    """The load of a state into one data directory."""

    def __init__(self, files: Files, path: str, digest: str) -> None:
        """Prepare a load into the directory at `path`, unless it has the state already.

        Raises BrokerDirectoryError for a directory with other data.
        """
        self._files = files
        self._path = path
        self._digest = digest
        self.is_loaded = False
        """Whether an earlier start has loaded the state."""
        try:
            self._prepare()
        except OSError as error:
            raise directory_error(path, error) from error

    def _prepare(self) -> None:
        files, path = self._files, self._path
        self._is_new = not _exists(files, path)
        names = files.list(path)
        if STATE_LOADING_FILE in names:
            self._remove_rest()
        elif STATE_FILE in names:
            self._check_digest()
            self.is_loaded = True
            return
        elif any(_is_data(name) for name in names):
            raise BrokerDirectoryError(
                f"data directory {path} has data already: a state is loaded into an empty directory"
            )
        files.makedirs(path)
        before = [name for name in files.list(path) if name != LOCK_FILE]
        write_atomically(files, join(path, STATE_LOADING_FILE), json.dumps(before).encode())

    def _check_digest(self) -> None:
        loaded = self._files.read(join(self._path, STATE_FILE)).decode(errors="replace").strip()
        if loaded != self._digest:
            raise BrokerDirectoryError(
                f"data directory {self._path} has another state ({loaded[:_SHOWN_DIGITS]}, not "
                f"{self._digest[:_SHOWN_DIGITS]}): use an empty directory for this one"
            )

    def _remove_rest(self) -> None:
        """Remove what an interrupted load wrote."""
        lock = self._files.lock(join(self._path, LOCK_FILE))
        try:
            self.undo()
        finally:
            lock.release()

    def finish(self) -> None:
        """Record that the load is complete; everything has been synced before."""
        files, path = self._files, self._path
        write_atomically(files, join(path, STATE_FILE), self._digest.encode())
        files.remove(join(path, STATE_LOADING_FILE))
        files.sync_directory(path)

    def undo(self) -> None:
        """Remove everything that was written since the load was prepared."""
        if self.is_loaded:
            return
        files, path = self._files, self._path
        try:
            before = json.loads(files.read(join(path, STATE_LOADING_FILE)))
        except FileNotFoundError:
            return
        remaining = {*before, LOCK_FILE, STATE_LOADING_FILE}
        for name in files.list(path):
            if name not in remaining:
                _remove_tree(files, join(path, name))
        files.remove(join(path, STATE_LOADING_FILE))
        files.sync_directory(path)
        if self._is_new and not before:
            files.remove(join(path, LOCK_FILE))
            files.remove_directory(path)


def _exists(files: Files, path: str) -> bool:
    try:
        files.modified_ms(path)
    except OSError:
        return False
    return True


def _is_data(name: str) -> bool:
    return name == META_FILE or parse_partition_directory(name) is not None


def _remove_tree(files: Files, path: str) -> None:
    try:
        names = files.list(path)
    except NotADirectoryError:
        files.remove(path)
        return
    for name in names:
        _remove_tree(files, join(path, name))
    files.remove_directory(path)
