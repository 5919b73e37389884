"""Commands about snapshots: make, list, restore and delete them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

from kafkalite.config.typed_json import About
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
from kafkalite.server.snapshot import UnknownSnapshotError

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker
    from kafkalite.server.snapshot import Snapshot

_ID: Final = About("id that `snapshot list` prints", metavar="ID")


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """A snapshot of the broker."""

    id: Annotated[str, About("Id of the snapshot.")]
    created_ms: Annotated[
        int, About("When it was made, in milliseconds since the Unix epoch by the broker's clock.")
    ]
    topics: Annotated[int, About("Number of topics, without internal ones.")]


@dataclass(frozen=True, slots=True)
class SnapshotList:
    """Snapshots, in the order in which they were made."""

    snapshots: Annotated[tuple[SnapshotStatus, ...], About("All snapshots.")]


@dataclass(frozen=True, slots=True)
class CreateSnapshot:
    """Make a snapshot of the whole broker, whose data must be in memory.

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
