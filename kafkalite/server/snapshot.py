"""Snapshot: the state of a broker at one moment, which it can have again or others begin with.

It has the state of the cluster, and what belongs to the broker: clock, random values, faults and
rules for links. Data is shared with the broker, not copied.
"""

from __future__ import annotations

from os import fspath
from typing import TYPE_CHECKING, Final

from kafkalite.cluster.state import ClusterState, copy_to_memory, state_of
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.memory_files import InMemoryFiles, Memory
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.ports.system import machine_bytes
from kafkalite.server.broker_directory import MEMORY_PATH
from kafkalite.server.settings import SettingsError, shareable_config
from kafkalite.storage.data_directory import DataDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.gateway.faults import FaultsState
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.ports.clock import Clock, ClockState
    from kafkalite.ports.entropy import Entropy
    from kafkalite.server.addresses import ListenerSpec
    from kafkalite.server.broker_directory import BrokerDirectory
    from kafkalite.server.links import LinksState
    from kafkalite.server.settings import Settings
    from kafkalite.storage.data_directory import TopicPartition
    from kafkalite.storage.log import Log


class SnapshotError(ValueError):
    """A snapshot that cannot be made or restored; the text is one sentence."""


class Snapshot(NamedTuple):
    """The state of a broker at one moment."""

    cluster_id: str
    cluster: ClusterState
    initial_image: MetadataImage
    """The metadata after the start of the broker, to which a reset leads."""
    clock: ClockState | None
    """None if the clock cannot be set."""
    random_state: object
    """The state of the random values of a seed; None without a seed."""
    faults: FaultsState | None
    links: LinksState | None
    settings: Settings
    """The settings of the broker."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the snapshot to a file, from which `load` reads it again.

        If this is interrupted, the file has the old or the new content. Raises SnapshotError if the
        path has a file that is no snapshot, or the file cannot be written.
        """
        from kafkalite.server.snapshot_file import save_snapshot  # noqa: PLC0415 - rarely used

        save_snapshot(self, fspath(path))

    @staticmethod
    def load(path: str | PathLike[str], memory: Memory | None = None) -> Snapshot:
        """Return the snapshot in a file; its data is in memory, half of the machine's by default.

        Raises SnapshotError, with the file and the position, for a file that is damaged, of another
        release, or too large.
        """
        from kafkalite.server.snapshot_file import load_snapshot  # noqa: PLC0415 - rarely used

        return load_snapshot(fspath(path), memory)

    def __repr__(self) -> str:
        image = self.cluster.image
        return f"Snapshot({len(image.topics)} topics at offset {image.version} of the metadata)"


class UnknownSnapshotError(SnapshotError):
    """A snapshot id that the broker does not have."""


_ADDRESSES: Final = frozenset(("listeners", "advertised.listeners"))
"""Settings that a fork does not have. Its log directories are names, because it is in memory."""

MAX_SNAPSHOTS: Final = 1_000


class Snapshots:
    """The snapshots of a broker that have ids, in the order in which they were made."""

    __slots__ = ("_by_id", "_number")

    def __init__(self) -> None:
        self._by_id: dict[str, tuple[Snapshot, int]] = {}
        self._number = 0

    def check_room(self) -> None:
        """Raise SnapshotError if there are as many as there may be."""
        if len(self._by_id) >= MAX_SNAPSHOTS:
            raise SnapshotError(f"there are {MAX_SNAPSHOTS} snapshots already: delete one first")

    def add(self, snapshot: Snapshot, created_ms: int) -> str:
        """Store a snapshot that was made at this time, and return its id."""
        self.check_room()
        self._number += 1
        snapshot_id = f"s{self._number}"
        self._by_id[snapshot_id] = snapshot, created_ms
        return snapshot_id

    def find(self, snapshot_id: str) -> Snapshot:
        """Return a snapshot; raises UnknownSnapshotError."""
        found = self._by_id.get(snapshot_id)
        if found is None:
            known = f"they are {', '.join(self._by_id)}" if self._by_id else "there is none"
            raise UnknownSnapshotError(f"there is no snapshot {snapshot_id[:40]!r}; {known}")
        return found[0]

    def items(self) -> Iterator[tuple[str, Snapshot, int]]:
        """Yield the id of each snapshot, the snapshot, and when it was made."""
        for snapshot_id, (snapshot, created_ms) in self._by_id.items():
            yield snapshot_id, snapshot, created_ms

    def remove(self, snapshot_id: str) -> None:
        """Remove a snapshot; its data is freed when no cluster uses it. See `find`."""
        self.find(snapshot_id)
        del self._by_id[snapshot_id]


def cluster_state(cluster: Cluster, directory: BrokerDirectory, memory: Memory) -> ClusterState:
    """Return the state of a cluster; data on disk is copied to `memory`.

    Raises SnapshotError for data on disk that is larger than the memory, UnfitStateError if its
    files have changed meanwhile, and OSError if the memory is not sufficient or a log has failed.
    """
    opened = directory.directory
    files, logs = opened.files, cluster.partitions.logs()
    times = opened.append_times
    times = None if times is None else times.copy()
    if not isinstance(files, InMemoryFiles):
        _check_size(logs, memory)
        copied = copy_to_memory(opened, logs, cluster.metadata.image, memory, MEMORY_PATH)
        return state_of(cluster, copied[0], MEMORY_PATH, copied[1], times)
    opened.write_all(logs)
    copy = files.copy()
    DataDirectory.mark_clean_shutdown(copy, directory.path)
    return state_of(cluster, copy, directory.path, opened.copy_logs(logs, copy), times)


def _check_size(logs: Mapping[TopicPartition, Log], memory: Memory) -> None:
    """Raise SnapshotError if logs on disk do not fit into the memory."""
    size, limit = sum(log.size_bytes for log in logs.values()), memory.limit_bytes
    if limit is not None and memory.used_bytes + size > limit:
        raise SnapshotError(
            f"the data on disk has {size >> 20} MiB, but a snapshot is in memory, where snapshots "
            f"and other clusters may have {limit >> 20} MiB, of which {memory.used_bytes >> 20} "
            "are used"
        )


def clock_state(clock: Clock) -> ClockState | None:
    """Return the state of a clock that can be set."""
    return clock.state() if isinstance(clock, AdjustableClock) else None


def clock_of(snapshot: Snapshot) -> AdjustableClock:
    """Return a new clock for a cluster that begins with a snapshot."""
    clock = AdjustableClock()
    if snapshot.clock is not None:
        clock.restore(snapshot.clock)
    return clock


def random_state(entropy: Entropy) -> object:
    """Return the state of the random values of a seed; None for values without a seed."""
    return entropy.state() if isinstance(entropy, SeededEntropy) else None


def restore_random_state(entropy: Entropy, state: object) -> None:
    """Continue the random values of a seed from a state; no effect without one."""
    if isinstance(entropy, SeededEntropy) and state is not None:
        entropy.restore(state)


def with_memory(
    snapshot: Snapshot | str | PathLike[str], limit_bytes: int | None = None
) -> Snapshot:
    """Return a snapshot, or that in a file, for a broker that begins with it.

    The data of a file may have `limit_bytes`, by default half of the machine's memory. For another
    snapshot, that is the limit of what the broker has in addition. Raises SnapshotError.
    """
    if not isinstance(snapshot, Snapshot):
        return Snapshot.load(snapshot, Memory(limit_bytes or machine_bytes() // 2 or None))
    if limit_bytes is None:
        return snapshot
    state = snapshot.cluster
    files = state.files.copy(Memory(limit_bytes, state.files.memory))
    return snapshot._replace(cluster=state._replace(files=files))


def start_settings(given: Settings, snapshot: Snapshot) -> Settings:
    """Return the settings of a broker that begins with a snapshot.

    Nodes, release, defaults and seed are those of the snapshot; other settings that are given have
    precedence. Raises SettingsError for given settings that the snapshot contradicts.
    """
    if given.data_directory is not None:
        raise SettingsError(
            "the data of a broker that begins with a snapshot is in memory: use either --snapshot "
            "or --data-dir"
        )
    if given.state is not None:
        raise SettingsError("a broker begins with a snapshot or a state: use --snapshot or --state")
    own = snapshot.settings
    for option, value, default, present in (
        ("--brokers", given.brokers, 1, own.brokers),
        ("--controller-id", given.controller_id, None, own.controller_id),
        ("--as-version", given.as_version, None, own.as_version),
        ("--seed", given.seed, None, given.seed if own.seed is None else own.seed),
        ("--cluster-id", given.cluster_id, None, snapshot.cluster_id),
    ):
        if value not in (default, present):
            raise SettingsError(
                f"{option} {value} is not that of the snapshot, which has "
                f"{'none' if present is None else present}: leave the option out"
            )
    node_config = {each: shareable_config(config) for each, config in own.node_config.items()}
    for node_id, config in given.node_config.items():
        node_config[node_id] = {**node_config.get(node_id, {}), **config}
    return given._replace(
        brokers=own.brokers,
        controller_id=own.controller_id,
        as_version=own.as_version,
        defaults=own.defaults,
        seed=given.seed if own.seed is None else own.seed,
        config={**shareable_config(own.config), **given.config},
        node_config=node_config,
        keeps_history=given.keeps_history or own.keeps_history,
        pace=given.pace or own.pace,
        is_in_memory=True,
    )


def fork_settings(settings: Settings, listeners: Sequence[ListenerSpec]) -> Settings:
    """Return the settings of a cluster that begins with a snapshot, from those of its source.

    It listens on free ports of the same hosts. Raises SnapshotError if another process listens for
    the clients of the source.
    """
    if any(each.is_relayed and not each.is_routed for each in listeners):
        raise SnapshotError("a cluster of several containers cannot be forked")
    addresses: dict[bool, list[str]] = {False: [], True: []}
    for each in listeners:
        text = f"{each.name}://{each.listen_address._replace(port=0)}"
        addresses[each.is_for_controllers].append(text)
    config = {key: value for key, value in settings.config.items() if key not in _ADDRESSES}
    return settings._replace(
        listen=addresses[False],
        advertise=(),
        controller_listen=next(iter(addresses[True]), None),
        controller_advertise=None,
        config=config,
        is_in_memory=True,
        data_directory=None,
        clusters=None,
        routed=None,
    )
