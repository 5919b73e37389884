"""Commands about snapshots: make, list, restore, save, load and delete them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from os.path import abspath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About, quote
from kafkalite.control.command_table import (
    CommandError,
    Family,
    Row,
    Words,
    one_line,
    write_answers,
)
from kafkalite.ports.texts import count_text
from kafkalite.ports.times import iso_of
from kafkalite.server.snapshot import Snapshot, UnknownSnapshotError

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker

_ID: Final = About("id that `snapshot list` prints", metavar="ID")


_FILE: Final = About(
    "absolute path of the file, on the machine of the broker",
    help="file, on the machine of the broker",
    parse=abspath,
    metavar="FILE",
)


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """A snapshot of the broker."""

    id: Annotated[str, About("Id of the snapshot.")]
    created_ms: Annotated[
        int, About("When it was made or loaded, in milliseconds since the Unix epoch by the clock.")
    ]
    topics: Annotated[int, About("Number of topics, without internal ones.")]


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """Snapshots, in the order in which they were made."""

    snapshots: Annotated[tuple[SnapshotStatus, ...], About("All snapshots.")]


@dataclass(frozen=True, slots=True)
class CreateSnapshot:
    """Make a snapshot of the whole broker; data on disk is copied to memory.

    It has topics with records, groups, transactions, configurations, ACLs, quotas, users, clock,
    faults, links and random values. It shares its data with the broker.
    """

    async def perform(self, broker: Broker) -> SnapshotStatus:
        """Make the snapshot; raises CommandError if that is impossible."""
        broker.snapshots.check_room()
        try:
            snapshot = broker.snapshot()
        except OSError as error:
            raise CommandError(f"no snapshot can be made: {error.strerror}") from error
        created_ms = broker.clock.now_ms()
        return _status(broker.snapshots.add(snapshot, created_ms), snapshot, created_ms)


@dataclass(frozen=True, slots=True)
class ListSnapshots:
    """List all snapshots."""

    async def perform(self, broker: Broker) -> SnapshotList:
        """Return all snapshots."""
        return SnapshotList(tuple(_status(*each) for each in broker.snapshots.items()))


@dataclass(frozen=True, slots=True)
class RestoreSnapshot:
    """Let the broker have the state of a snapshot again.

    Clients stay connected: members and producers get the answers that a Kafka with this state
    gives. Requests that wait are answered first.
    """

    snapshot_id: Annotated[str, _ID]
    disconnect: Annotated[bool, About("close the connections of all clients")] = False

    async def perform(self, broker: Broker) -> SnapshotStatus:
        """Restore the snapshot; raises UnknownSnapshotError for an unknown id."""
        snapshot = broker.snapshots.find(self.snapshot_id)
        try:
            await broker.restore(snapshot, disconnects=self.disconnect)
        except OSError as error:
            raise CommandError(f"the snapshot cannot be restored: {error.strerror}") from error
        await write_answers()
        return _found(broker, self.snapshot_id)


@dataclass(frozen=True, slots=True)
class DeleteSnapshot:
    """Delete a snapshot, and return it; its data is freed when no cluster uses it."""

    snapshot_id: Annotated[str, _ID]

    async def perform(self, broker: Broker) -> SnapshotStatus:
        """Delete the snapshot; raises UnknownSnapshotError for an unknown id."""
        broker.snapshots.find(self.snapshot_id)
        status = _found(broker, self.snapshot_id)
        broker.snapshots.remove(self.snapshot_id)
        return status


@dataclass(frozen=True, slots=True)
class SaveSnapshot:
    """Write a snapshot to a file, on the machine of the broker.

    A snapshot that the file has is replaced; another file is not.
    """

    snapshot_id: Annotated[str, _ID]
    path: Annotated[str, _FILE]

    async def perform(self, broker: Broker) -> SnapshotStatus:
        """Save the snapshot; raises UnknownSnapshotError for an unknown id."""
        path = _absolute(self.path)
        snapshot = broker.snapshots.find(self.snapshot_id)
        status = _found(broker, self.snapshot_id)
        await asyncio.to_thread(snapshot.save, path)
        return status


@dataclass(frozen=True, slots=True)
class LoadSnapshot:
    """Read a snapshot from a file, on the machine of the broker; it gets a new id.

    The snapshot can be restored if it is one of this cluster. Other clusters can begin with it.
    """

    path: Annotated[str, _FILE]

    async def perform(self, broker: Broker) -> SnapshotStatus:
        """Load the snapshot; raises SnapshotError for a file that cannot be read."""
        path = _absolute(self.path)
        broker.snapshots.check_room()
        snapshot = await asyncio.to_thread(Snapshot.load, path, broker.memory)
        created_ms = broker.clock.now_ms()
        return _status(broker.snapshots.add(snapshot, created_ms), snapshot, created_ms)


def _absolute(path: str) -> str:
    """Return a path; raises CommandError for a relative one, or one that no file can have."""
    if not Path(path).is_absolute() or "\0" in path:
        raise CommandError(f"path must be an absolute path, such as /tmp/s1.zip, not {quote(path)}")
    return path


def _found(broker: Broker, snapshot_id: str) -> SnapshotStatus:
    return next(_status(*each) for each in broker.snapshots.items() if each[0] == snapshot_id)


def _status(snapshot_id: str, snapshot: Snapshot, created_ms: int) -> SnapshotStatus:
    topics = sum(not each.is_internal for each in snapshot.cluster.image.topics.values())
    return SnapshotStatus(snapshot_id, created_ms, topics)


def line_of(status: SnapshotStatus) -> str:
    """Return a snapshot as one line."""
    return f"{status.id}: {count_text(status.topics, 'topic')}, of {iso_of(status.created_ms)}"


def _lines(listed: SnapshotList, _: object) -> list[str]:
    return list(map(line_of, listed.snapshots)) or ["there are no snapshots"]


_PATH, _PATH_OF_ONE = "/v1/snapshots", "/v1/snapshots/{snapshot_id}"

COMMANDS = Family(
    (
        Row(
            ListSnapshots,
            SnapshotList,
            "GET",
            _PATH,
            (Words("snapshot list", "Print the snapshots."),),
            _lines,
        ),
        Row(
            CreateSnapshot,
            SnapshotStatus,
            "POST",
            _PATH,
            (Words("snapshot create", "Make a snapshot of the whole broker."),),
            one_line(line_of),
            {},
            201,
        ),
        Row(
            RestoreSnapshot,
            SnapshotStatus,
            "POST",
            f"{_PATH_OF_ONE}/restore",
            (
                Words(
                    "snapshot restore",
                    "Let the broker have the state of a snapshot again.",
                    ("snapshot_id",),
                ),
            ),
            one_line(lambda status: f"restored {line_of(status)}"),
            {"disconnect": True},
            not_found=UnknownSnapshotError,
        ),
        Row(
            SaveSnapshot,
            SnapshotStatus,
            "POST",
            f"{_PATH_OF_ONE}/save",
            (Words("snapshot save", "Write a snapshot to a file.", ("snapshot_id", "path")),),
            one_line(lambda status: f"saved {line_of(status)}"),
            {"path": "/tmp/s1.zip"},  # noqa: S108 - an example
            not_found=UnknownSnapshotError,
        ),
        Row(
            LoadSnapshot,
            SnapshotStatus,
            "POST",
            f"{_PATH}/load",
            (Words("snapshot load", "Read a snapshot from a file.", ("path",)),),
            one_line(lambda status: f"loaded {line_of(status)}"),
            {"path": "/tmp/s1.zip"},  # noqa: S108 - an example
            201,
        ),
        Row(
            DeleteSnapshot,
            SnapshotStatus,
            "DELETE",
            _PATH_OF_ONE,
            (Words("snapshot delete", "Delete a snapshot.", ("snapshot_id",)),),
            one_line(lambda status: f"deleted {line_of(status)}"),
            not_found=UnknownSnapshotError,
        ),
    ),
    {"snapshot": "Make, restore and delete snapshots of a running broker."},
)
