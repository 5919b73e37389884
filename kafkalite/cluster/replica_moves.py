"""ReplicaMoves: replicas that move to another log directory of their node (KIP-113).

As in Kafka, the replica has a future replica in the other directory, which copies the log in
fetches of `replica.fetch.max.bytes` and replaces the replica when it has the whole log. While the
node copies faster than `replica.alter.log.dirs.io.max.bytes.per.second`, it copies nothing. No file
is copied: only the offset of the future replica advances.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.cluster.node import NodeState
from kafkalite.cluster.replication_throttle import UNLIMITED, advance_by_one_fetch, allowed_rate
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.security.quotas import SimpleRate
from kafkalite.storage.checkpoint import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.cluster.log_directories import LogDirectories
    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.clock import Timer
    from kafkalite.storage.data_directory import DataDirectory

MOVES_FILE: Final = ".kafkalite_moves"
"""The file with the moves in progress, while there are any."""
_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_RETRY_MS: Final = 1_000
"""The time after which a node tries again to copy, as Kafka's thread waits for its quota."""


class _Replica(NamedTuple):
    node_id: int
    topic_id: bytes
    partition: int


def _stored_moves(content: bytes) -> Iterator[tuple[_Replica, str, int, int]]:
    """Yield each stored move with its path, end offset and size; none from a damaged file.

    The file is not synced, so it may be damaged after a loss of power.
    """
    with suppress(ValueError, TypeError):
        for row in json.loads(content):
            match row:
                case [int(node_id), str(topic_id), int(index), str(path), int(end), int(size)]:
                    yield _Replica(node_id, bytes.fromhex(topic_id), index), path, end, size


class FutureReplica:
    """A copy of a replica that is not complete."""

    __slots__ = ("end_offset", "path", "size_bytes")

    def __init__(self, path: str, start_offset: int) -> None:
        """Begin an empty copy in the directory `path`."""
        self.path = path
        self.end_offset = start_offset
        self.size_bytes = 0


class ReplicaMoves:
    """The moves in progress of one cluster."""

    __slots__ = (
        "_cluster",
        "_directories",
        "_directory",
        "_has_file",
        "_moves",
        "_rates",
        "_timer",
    )

    def __init__(
        self, cluster: Cluster, directories: LogDirectories, directory: DataDirectory
    ) -> None:
        """`directory` is the data directory, which has the moves from one start to the next."""
        self._directory = directory
        self._has_file = False
        self._cluster = cluster
        self._directories = directories
        self._moves: dict[_Replica, FutureReplica] = {}
        self._rates: dict[int, SimpleRate] = {}
        self._timer: Timer | None = None

    def begin(self, node_id: int, partition: Partition, path: str) -> None:
        """Begin to move a node's replica to another of its directories.

        The move ends at once unless a rate limits it. Another move of the replica ends. `save` lets
        the next start know of it.
        """
        replica = _Replica(node_id, partition.topic_id, partition.index)
        self._moves[replica] = FutureReplica(path, partition.log.start_offset)
        self._advance((replica,))

    def cancel(self, node_id: int, partition: Partition) -> None:
        """End the move of a replica, if there is one; the replica remains where it is.

        `save` lets the next start know of it.
        """
        self._moves.pop(_Replica(node_id, partition.topic_id, partition.index), None)

    def future(self, node_id: int, partition: Partition) -> FutureReplica | None:
        """Return the future replica of a node's replica; None if the replica does not move."""
        return self._moves.get(_Replica(node_id, partition.topic_id, partition.index))

    def targets(self, node_id: int) -> Iterator[str]:
        """Yield the directory of each future replica of a node."""
        return (move.path for replica, move in self._moves.items() if replica.node_id == node_id)

    def stop(self) -> None:
        """Stop all moves; the next start of the cluster continues them."""
        self.save()
        self._moves.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def load(self) -> None:
        """Continue the moves of the last start, as Kafka finds future replicas in directories."""
        try:
            content = self._directory.files.read(self._path)
        except OSError:
            return
        self._has_file = True
        for replica, path, end_offset, size_bytes in _stored_moves(content):
            partition = self._partition(replica)
            node = self._cluster.nodes.get(replica.node_id)
            if partition is None or node is None or path not in self._directories.paths(node.id):
                continue
            move = self._moves[replica] = FutureReplica(path, partition.log.start_offset)
            move.end_offset = min(max(end_offset, move.end_offset), partition.log.end_offset)
            move.size_bytes = size_bytes
        self.advance()
        self.save()

    @property
    def _path(self) -> str:
        return f"{self._directory.path}/{MOVES_FILE}"

    def save(self) -> None:
        """Store the moves for the next start; without a disk, it has none of them."""
        files = self._directory.files
        rows = [
            [
                replica.node_id,
                replica.topic_id.hex(),
                replica.partition,
                move.path,
                move.end_offset,
                move.size_bytes,
            ]
            for replica, move in self._moves.items()
        ]
        with suppress(OSError):
            if rows:
                replace_file(files, self._path, json.dumps(rows).encode())
            elif self._has_file:
                files.remove(self._path)
            self._has_file = bool(rows)

    def advance(self) -> None:
        """Copy as much as the rates of the nodes allow now, and end the moves that are complete."""
        known = len(self._moves)
        self._advance([*self._moves])
        if len(self._moves) != known:
            self.save()

    def _advance(self, replicas: Iterable[_Replica]) -> None:
        assigned: dict[int, dict[tuple[bytes, int], str]] = {}
        for replica in replicas:
            move, partition = self._moves[replica], self._partition(replica)
            if partition is None:
                del self._moves[replica]
            elif self._copy(replica.node_id, partition, move):
                del self._moves[replica]
                of_node = assigned.setdefault(replica.node_id, {})
                of_node[replica.topic_id, replica.partition] = move.path
        if self._moves and self._timer is None:
            clock = self._cluster.clock
            self._timer = clock.call_at(clock.now_ms() + _RETRY_MS, self._continue)
        for node_id, directories in assigned.items():
            self._cluster.metadata.defer(partial(self._directories.assign, node_id, directories))

    def _continue(self) -> None:
        self._timer = None
        self.advance()

    def _partition(self, replica: _Replica) -> Partition | None:
        """Return the partition of a replica; None if the node does not have the replica."""
        topic = self._cluster.partitions.topic_by_id(replica.topic_id)
        partition = None if topic is None else topic.open_partition(replica.partition)
        if partition is None or replica.node_id not in partition.replicas:
            return None
        return partition

    def _copy(self, node_id: int, partition: Partition, move: FutureReplica) -> bool:
        """Copy a replica as far as its node may; return whether the copy is complete."""
        node = self._cluster.nodes.get(node_id)
        if node is None or node.state is NodeState.STOPPED:
            return False
        limit = allowed_rate(self._cluster.metadata.image, node_id, _RATE)
        if limit == UNLIMITED:
            return True
        now_ms, rate = self._cluster.clock.now_ms(), self._rate(node_id, limit)
        max_bytes = self._cluster.config.node_int(node_id, "replica.fetch.max.bytes")
        while move.end_offset < partition.log.end_offset and not rate.is_exceeded(now_ms):
            start = max(move.end_offset, partition.log.start_offset)
            size, move.end_offset = advance_by_one_fetch(partition, start, max_bytes)
            move.size_bytes += size
            rate.add(size, now_ms)
            if not size:
                break
        return move.end_offset >= partition.log.end_offset

    def _rate(self, node_id: int, limit: int) -> SimpleRate:
        rate = self._rates.get(node_id)
        if rate is None:
            config = self._cluster.config.of_node(node_id)
            rate = self._rates[node_id] = SimpleRate(
                limit,
                config.int("alter.log.dirs.replication.quota.window.num"),
                config.int("alter.log.dirs.replication.quota.window.size.seconds") * 1000,
            )
        rate.limit = limit
        return rate
