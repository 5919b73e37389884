"""Files of snapshots: zip files with a manifest in JSON, and with the data files of the cluster.

The manifest has everything that no data file has. The metadata is in its log, so the manifest has
only offsets of it.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from os.path import abspath
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from kafkalite import __version__
from kafkalite.cluster.state import (
    ClusterState,
    ImpairedNode,
    LaggingReplica,
    StoppedNode,
    UncommittedRecords,
    read_state,
)
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.options import MAX_BROKERS, MAX_NODE_ID, MAX_SEED, PACE
from kafkalite.config.typed_json import About, JsonError, quote, read, to_json
from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.coordinator.event_history import Entry, EventHistory
from kafkalite.coordinator.member_clients import MemberClient
from kafkalite.gateway.error_messages import printable
from kafkalite.gateway.fault_rules import FaultError, parse_rule
from kafkalite.gateway.faults import MAX_FAULTS, FaultsState
from kafkalite.partitions.former_leader import FormerLeaderState
from kafkalite.partitions.partition import Uncommitted
from kafkalite.ports.clock import LATEST_MS, MAX_RATE, ClockState
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.files import OsFiles, join
from kafkalite.ports.memory_files import InMemoryFiles, Memory
from kafkalite.ports.system import machine_bytes
from kafkalite.server.broker_directory import MEMORY_PATH
from kafkalite.server.link_rules import LinkError, parse_link
from kafkalite.server.links import MAX_LINKS, LinksState
from kafkalite.server.settings import Settings, shareable_config
from kafkalite.server.snapshot import Snapshot, SnapshotError
from kafkalite.server.snapshot_checks import (
    ManifestError,
    check_cluster,
    check_history,
    end_of_metadata,
    producers_of,
    settings_of,
)
from kafkalite.storage.data_directory import (
    BOOT_FILE,
    CLEAN_SHUTDOWN_FILE,
    LOCK_FILE,
    META_FILE,
    DataDirectory,
)
from kafkalite.storage.producer_snapshot import encode_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from zipfile import ZipFile, ZipInfo

    from kafkalite.metadata.image import MetadataImage
    from kafkalite.ports.files import File, Files

T = TypeVar("T")

FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
_DATA: Final = "data/"
_MAX_MANIFEST_BYTES: Final = 16 << 20
"""The size of a manifest without the names of its files; entries of `explain` have up to 8 MiB."""
_MAX_BYTES_PER_FILE: Final = 512
_MAX_MANIFEST_VALUES: Final = 500_000
"""The values in the objects of a manifest, without those for its files."""
_RANDOM_WORDS: Final = 625
_LATEST_OFFSET: Final = 2**63 - 1
_MAX_FILES: Final = 1_000_000
_COMPRESSION_LEVEL: Final = 1
_LOCAL_FILE: Final = b"PK\x03\x04"
"""The first bytes of a zip file with files."""
_MIB: Final = 1 << 20
_MAX_ERROR_CHARACTERS: Final = 400
_MAX_DIGITS: Final = 20
"""Digits of a number that are read, which is more than ids have."""
_OWN_FILES: Final = frozenset((LOCK_FILE, BOOT_FILE, CLEAN_SHUTDOWN_FILE))
"""Files that each start writes."""
_FIXED_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all files in a zip file, so that equal snapshots are equal files."""
_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ZIP_ERRORS: Final = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError,
    ValueError, OverflowError,
)  # fmt: skip
"""What `zipfile` raises for damaged files."""


@dataclass(frozen=True, slots=True)
class SavedSettings:
    """Settings of a broker, without secrets, addresses and files."""

    brokers: Annotated[int, About("number of nodes", minimum=1, maximum=MAX_BROKERS)]
    config: Annotated[dict[str, str], About("settings by Kafka's names")]
    node_config: Annotated[dict[str, dict[str, str]], About("settings of nodes, by node id")]
    as_version: Annotated[str | None, About("release of Kafka, or service, that is emulated")]
    defaults: Annotated[str, About("default values of settings")]
    seed: Annotated[int | None, About("seed of the random values", minimum=0, maximum=MAX_SEED)]
    controller_id: Annotated[
        int | None,
        About("id of a controller that is no broker", minimum=0, maximum=MAX_NODE_ID),
    ]
    keeps_history: Annotated[bool, About("whether internal topics are not compacted")]
    pace: Annotated[str | None, About("pace of a real Kafka", choices=PACE.choices)]
    topics: Annotated[
        dict[str, int],
        About("topics that a reset creates, with their numbers of partitions", minimum=1),
    ]


@dataclass(frozen=True, slots=True)
class SavedClock:
    """The time and the speed of a clock."""

    now_ms: Annotated[
        int | None,
        About(
            "milliseconds since the Unix epoch; null: the machine's", minimum=0, maximum=LATEST_MS
        ),
    ]
    rate: Annotated[float, About("speed", minimum=0, maximum=MAX_RATE)]
    skip_rate: Annotated[float, About("speed while all clients wait", minimum=0, maximum=MAX_RATE)]


@dataclass(frozen=True, slots=True)
class SavedFault:
    """A fault with its counts."""

    id: Annotated[str, About("id")]
    rule: Annotated[object, About("the rule")]
    matches: Annotated[int, About("number of selected requests", minimum=0, maximum=_LATEST_OFFSET)]
    firings: Annotated[int, About("number of firings", minimum=0, maximum=_LATEST_OFFSET)]


@dataclass(frozen=True, slots=True)
class SavedLink:
    """A disturbed link."""

    id: Annotated[str, About("id")]
    rule: Annotated[object, About("the rule")]


@dataclass(frozen=True, slots=True)
class SavedNode:
    """A node that did not run."""

    node_id: Annotated[int, About("id of the node")]
    metadata_offset: Annotated[int, About("end of the metadata that it knew", minimum=1)]
    has_stale_metadata: Annotated[bool, About("whether the metadata changed afterwards")]
    was_shut_down: Annotated[bool, About("whether it left by a controlled shutdown")]


@dataclass(frozen=True, slots=True)
class SavedImpairedNode:
    """A node that did not receive metadata or records."""

    node_id: Annotated[int, About("id of the node")]
    metadata_offset: Annotated[int, About("end of the metadata that it knew", minimum=1)]
    has_stale_metadata: Annotated[bool, About("whether the metadata changed afterwards")]
    is_metadata_frozen: Annotated[bool, About("whether it received no metadata")]
    is_replication_paused: Annotated[bool, About("whether it received no records")]
    metadata_fetched_ms: Annotated[
        int | None, About("when it last received the metadata", minimum=0, maximum=LATEST_MS)
    ]
    is_isolated: Annotated[bool, About("whether no other node reached it")] = False


_OFFSET: Final = About("an offset", minimum=0, maximum=_LATEST_OFFSET)


@dataclass(frozen=True, slots=True)
class SavedFormerLeader:
    """What a node knows that still leads a partition, although another one does."""

    leader: Annotated[int, About("id of the node")]
    first_lost_offset: Annotated[int, _OFFSET]
    end_offset: Annotated[int, _OFFSET]
    start_offset: Annotated[int, _OFFSET]
    high_watermark: Annotated[int, _OFFSET]
    last_stable_offset: Annotated[int, _OFFSET]
    low_watermark: Annotated[int, _OFFSET]
    has_enough_replicas: Annotated[bool, About("whether enough replicas are in sync")]
    producers: Annotated[str, About("its producers, as a snapshot file of Kafka, in hex")]


@dataclass(frozen=True, slots=True)
class SavedReplica:
    """A replica that did not follow its leader."""

    topic_id: Annotated[str, About("id of the topic, in hex")]
    partition: Annotated[int, About("index of the partition", minimum=0)]
    node_id: Annotated[int, About("id of the node")]
    replica_end: Annotated[int | None, About("end offset of the replica", minimum=0)]
    replica_start: Annotated[int, About("start offset of the replica", minimum=0)]
    caught_up_ms: Annotated[
        int, About("when it last had all records", minimum=0, maximum=LATEST_MS)
    ]
    led_isr: Annotated[
        tuple[int, ...] | None,
        About("the ISR of a node that leads without another leader", max_items=MAX_BROKERS),
    ] = None
    former_leader: Annotated[
        SavedFormerLeader | None, About("what a node knows that has led the partition")
    ] = None


@dataclass(frozen=True, slots=True)
class SavedTransactionEnd:
    """A transaction that ended above the high watermark."""

    first_offset: Annotated[int, About("its first offset", minimum=0)]
    end_offset: Annotated[int, About("end offset of its marker", minimum=0)]


@dataclass(frozen=True, slots=True)
class SavedUncommitted:
    """A partition with records above its high watermark."""

    topic_id: Annotated[str, About("id of the topic, in hex")]
    partition: Annotated[int, About("index of the partition", minimum=0)]
    high_watermark: Annotated[int, About("the high watermark", minimum=0)]
    transaction_ends: Annotated[tuple[SavedTransactionEnd, ...], About("transactions")]


@dataclass(frozen=True, slots=True)
class SavedMember:
    """A member of a group, and its client."""

    member_id: Annotated[str, About("id of the member")]
    client_id: Annotated[str, About("id of the client")]
    client_host: Annotated[str, About("address of the client")]


@dataclass(frozen=True, slots=True)
class SavedEntry:
    """An entry of `explain`; one of the first four fields is set."""

    number: Annotated[int, About("number", minimum=0, maximum=_LATEST_OFFSET)]
    group: Annotated[str | None, About("group")]
    transactional_id: Annotated[str | None, About("transactional id")]
    topic: Annotated[str | None, About("topic")]
    client: Annotated[str | None, About("address of a client")]
    kind: Annotated[str, About("kind")]
    text: Annotated[str, About("text")]
    facts: Annotated[dict[str, object], About("facts")]
    times: Annotated[int, About("number of events", minimum=1, maximum=_LATEST_OFFSET)]
    first_ms: Annotated[int, About("first time", minimum=0, maximum=LATEST_MS)]
    at_ms: Annotated[int, About("last time", minimum=0, maximum=LATEST_MS)]
    members: Annotated[tuple[SavedMember, ...], About("members")] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """The part of a snapshot that its data files do not have."""

    format: Annotated[str, About("kind of the file", choices=("kafkalite snapshot",))]
    version: Annotated[int, About("version of this format")]
    release: Annotated[str, About("release of kafkalite that wrote the file")]
    cluster_id: Annotated[str, About("id of the cluster")]
    settings: Annotated[SavedSettings, About("settings of the broker")]
    metadata_offset: Annotated[int, About("end offset of the metadata log", minimum=1)]
    initial_metadata_offset: Annotated[
        int, About("end offset of the metadata after the start, to which a reset leads", minimum=1)
    ]
    clock: Annotated[SavedClock | None, About("clock; null for one that cannot be set")]
    random_state: Annotated[
        tuple[int, ...] | None,
        About("state of Python's random.Random; null without a seed", max_items=_RANDOM_WORDS),
    ]
    last_fault: Annotated[int, About("number of the last fault", minimum=0, maximum=_LATEST_OFFSET)]
    faults: Annotated[tuple[SavedFault, ...], About("faults", max_items=MAX_FAULTS)]
    last_link: Annotated[int, About("number of the last link", minimum=0, maximum=_LATEST_OFFSET)]
    links: Annotated[tuple[SavedLink, ...], About("disturbed links", max_items=MAX_LINKS)]
    stopped_nodes: Annotated[
        tuple[SavedNode, ...], About("nodes that did not run", max_items=MAX_BROKERS)
    ]
    impaired_nodes: Annotated[
        tuple[SavedImpairedNode, ...],
        About("nodes that did not receive metadata or records", max_items=MAX_BROKERS),
    ]
    lagging_replicas: Annotated[
        tuple[SavedReplica, ...], About("replicas that did not follow their leaders")
    ]
    uncommitted: Annotated[
        tuple[SavedUncommitted, ...], About("partitions with records above the high watermark")
    ]
    history: Annotated[tuple[SavedEntry, ...], About("entries of explain")]
    files: Annotated[dict[str, int], About("sizes of the data files in bytes, by their paths")]


# Writing


def save_snapshot(snapshot: Snapshot, path: str, files: Files | None = None) -> None:
    """Write a snapshot to the file at `path`, which has the old or the new content after a crash.

    Raises SnapshotError if the path has a file that is no snapshot, or cannot be written.
    """
    files = OsFiles() if files is None else files
    path = abspath(path)  # noqa: PTH100 - a text; links remain
    # Other threads and processes may save to the same path.
    temporary_path = f"{path}.{SystemEntropy().uuid().hex()}.tmp"
    try:
        _check_replaced(files, path)
        try:
            _write_new(snapshot, files, temporary_path)
            files.rename(temporary_path, path)
        except BaseException:
            with suppress(OSError):
                files.remove(temporary_path)
            raise
        files.sync_directory(path.rpartition("/")[0] or "/")
    except OSError as error:
        raise SnapshotError(f"{path}: cannot write the snapshot: {error.strerror}") from error


def _write_new(snapshot: Snapshot, files: Files, path: str) -> None:
    """Write a snapshot to a new file, so that it survives a loss of power."""
    file = files.open(path, create=True)
    try:
        _write(snapshot, file)
    finally:
        file.close()
    files.sync(path)


def _check_replaced(files: Files, path: str) -> None:
    """Raise SnapshotError if a path has a file that is no snapshot."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return
    try:
        if file.pread(len(_LOCAL_FILE), 0) != _LOCAL_FILE:
            raise SnapshotError(f"{path} is not a snapshot, and is not replaced: use another name")
    finally:
        file.close()


class _Output:
    """A file that `zipfile` writes from its start to its end."""

    def __init__(self, file: File) -> None:
        self._file = file

    def write(self, data: bytes) -> int:
        self._file.append([data])
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is held back."""


def _write(snapshot: Snapshot, file: File) -> None:
    state = snapshot.cluster
    paths = list(_data_paths(state))
    sizes = {each: state.files.open(join(state.path, each)).size for each in paths}
    with zipfile.ZipFile(_Output(file), "w") as archive:  # type: ignore[call-overload] # as it needs
        manifest = json.dumps(to_json(_manifest(snapshot, sizes)), indent=1, ensure_ascii=False)
        _write_member(archive, MANIFEST, manifest.encode())
        for each in paths:
            _write_member(archive, f"{_DATA}{each}", state.files.read(join(state.path, each)))


def _write_member(archive: ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, _FIXED_TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content, compresslevel=_COMPRESSION_LEVEL)


def _data_paths(state: ClusterState) -> Iterator[str]:
    prefix = f"{state.path}/"
    for path in sorted(state.files.paths_below(state.path)):
        name = path.removeprefix(prefix)
        if name not in _OWN_FILES:
            yield name


def _manifest(snapshot: Snapshot, sizes: dict[str, int]) -> Manifest:
    state, clock = snapshot.cluster, snapshot.clock
    faults = snapshot.faults or FaultsState((), 0)
    links = snapshot.links or LinksState((), 0)
    return Manifest(
        format="kafkalite snapshot",
        version=FORMAT_VERSION,
        release=__version__,
        cluster_id=snapshot.cluster_id,
        settings=_saved_settings(snapshot.settings),
        metadata_offset=state.image.version,
        initial_metadata_offset=snapshot.initial_image.version,
        clock=None if clock is None else SavedClock(*clock),
        random_state=_saved_random_state(snapshot.random_state),
        last_fault=faults.number,
        faults=tuple(
            SavedFault(fault_id, to_json(rule, omits_defaults=True), matches, firings)
            for fault_id, rule, matches, firings in faults.faults
        ),
        last_link=links.number,
        links=tuple(
            SavedLink(link_id, to_json(rule, omits_defaults=True)) for link_id, rule in links.rules
        ),
        stopped_nodes=tuple(map(_saved_node, state.stopped_nodes)),
        impaired_nodes=tuple(
            SavedImpairedNode(each.node_id, each.image.version, *each[2:])
            for each in state.impaired_nodes
        ),
        lagging_replicas=tuple(
            SavedReplica(each.topic_id.hex(), *each[1:7], _saved_former_leader(each.former_leader))
            for each in state.lagging_replicas
        ),
        uncommitted=tuple(map(_saved_uncommitted, state.uncommitted)),
        history=tuple(map(_saved_entry, state.history.after(-1))),
        files=sizes,
    )


def _saved_settings(settings: Settings) -> SavedSettings:
    return SavedSettings(
        brokers=settings.brokers,
        config=shareable_config(settings.config),
        node_config={
            f"{node_id}": shareable_config(config)
            for node_id, config in settings.node_config.items()
        },
        as_version=settings.as_version,
        defaults=settings.defaults,
        seed=settings.seed,
        controller_id=settings.controller_id,
        keeps_history=settings.keeps_history,
        pace=settings.pace,
        topics=dict(settings.topics),
    )


def _saved_node(node: StoppedNode) -> SavedNode:
    return SavedNode(node.node_id, node.image.version, node.has_stale_metadata, node.was_shut_down)


def _saved_former_leader(state: FormerLeaderState | None) -> SavedFormerLeader | None:
    if state is None:
        return None
    return SavedFormerLeader(*state[:8], encode_snapshot(state.producers).hex())


def _saved_uncommitted(records: UncommittedRecords) -> SavedUncommitted:
    uncommitted = records.uncommitted
    return SavedUncommitted(
        records.topic_id.hex(),
        records.partition,
        uncommitted.high_watermark,
        tuple(SavedTransactionEnd(*end) for end in uncommitted.transaction_ends),
    )


def _saved_entry(entry: Entry) -> SavedEntry:
    members = tuple(SavedMember(*each) for each in entry.members)
    return SavedEntry(*entry[:7], dict(entry.facts), *entry[8:11], members)


def _saved_random_state(state: Any) -> tuple[int, ...] | None:  # noqa: ANN401 - of random.Random
    """Return the words of a state whose version is 3, and that has no Gaussian value."""
    return None if state is None else tuple(state[1])


# Reading


def load_snapshot(path: str, memory: Memory | None = None) -> Snapshot:
    """Return the snapshot in a file; its data uses `memory`, half of the machine's by default.

    Raises SnapshotError for a file that cannot be read; nothing else has changed.
    """
    if memory is None:
        memory = Memory(machine_bytes() // 2 or None)
    try:
        with open(path, "rb", opener=_open_regular) as file, zipfile.ZipFile(file) as archive:
            return _Reader(path, archive, memory).snapshot()
    except SnapshotError:
        raise
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror}") from error
    except _ZIP_ERRORS as error:
        raise SnapshotError(
            f"{path}: this is no complete snapshot: {f'{error}'.removesuffix('.')}"
        ) from error


def _open_regular(path: str, flags: int) -> int:
    """Return a descriptor of a regular file.

    Raises SnapshotError for a pipe, which would block, and for a device, which may have no end.
    """
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        os.close(descriptor)
        raise SnapshotError(f"{path} is no regular file")
    return descriptor


class _Reader:
    """Reads one snapshot file."""

    def __init__(self, path: str, archive: ZipFile, memory: Memory) -> None:
        self._path = path
        self._archive = archive
        self._memory = memory

    def _error(self, text: str, name: str = MANIFEST) -> SnapshotError:
        return SnapshotError(f"{self._path}: {name}: {printable(text, _MAX_ERROR_CHARACTERS)}")

    def snapshot(self) -> Snapshot:
        members = self._members()
        info = members.pop(MANIFEST, None)
        if info is None:
            raise self._error("the file is missing, so this is no snapshot of kafkalite")
        limit = _MAX_MANIFEST_BYTES + _MAX_BYTES_PER_FILE * len(members)
        if info.file_size > limit:
            raise self._error(f"it has {info.file_size} bytes; {limit} are possible")
        manifest = self._manifest(self._read_member(info), len(members))
        self._check_files(manifest, members)
        files = InMemoryFiles(self._memory)
        for name, member in members.items():
            path = join(MEMORY_PATH, name.removeprefix(_DATA))
            files.makedirs(path.rpartition("/")[0])
            files.write(path, self._read_member(member))
        return self._snapshot_of(manifest, files)

    def _members(self) -> dict[str, ZipInfo]:
        """Return the members by name; raises SnapshotError for names that a snapshot never has."""
        members: dict[str, ZipInfo] = {}
        infos = self._archive.infolist()
        if len(infos) > _MAX_FILES:
            raise SnapshotError(f"{self._path}: a snapshot has at most {_MAX_FILES} files")
        for info in infos:
            name = info.filename
            at = f"{quote(name)} at byte {info.header_offset}"
            if name in members:
                raise self._error("the name is there twice", at)
            parts = name.removeprefix(_DATA).split("/")
            is_plain = all(part not in {"", ".", ".."} for part in parts) and "\\" not in name
            if name != MANIFEST and not (name.startswith(_DATA) and is_plain):
                raise self._error(f"names must be {MANIFEST} or {_DATA}…, without '..'", at)
            if info.compress_type not in _COMPRESSIONS or info.flag_bits & 1:
                raise self._error("files must be stored or deflated, and not encrypted", at)
            members[name] = info
        return members

    def _read_member(self, info: ZipInfo) -> bytes:
        """Return the content of a member, whose size the caller has checked.

        No more is inflated, although the content may be larger. `ZipFile.read` inflates all of it.
        """
        try:
            with self._archive.open(info) as file:
                content = file.read(max(1, info.file_size))
        except (OSError, *_ZIP_ERRORS) as error:
            raise self._error(
                f"its content is damaged ({error or type(error).__name__})",
                f"{info.filename} at byte {info.header_offset}",
            ) from error
        if len(content) != info.file_size:
            raise self._error(f"it has {len(content)} bytes, not {info.file_size}", info.filename)
        return content

    def _manifest(self, content: bytes, files: int) -> Manifest:
        """Return the manifest of a snapshot with this number of data files."""
        limit = _MAX_MANIFEST_VALUES + 2 * files
        if content.count(b":") > limit:
            raise self._error(f"it has more than {limit} values")
        try:
            value = json.loads(content, parse_constant=_refuse_constant)
        except json.JSONDecodeError as error:
            raise self._error(f"line {error.lineno} column {error.colno}: {error.msg}") from error
        except ManifestError as error:
            raise self._error(str(error)) from error
        except (ValueError, RecursionError) as error:
            raise self._error("it is no JSON in UTF-8") from error
        if isinstance(value, dict):
            # Another version may have other fields.
            for name, own in (("version", FORMAT_VERSION), ("release", __version__)):
                given = value.get(name)
                if given != own:
                    raise self._error(
                        f"the snapshot has {name} {quote(given)}, but this kafkalite reads "
                        f"{name} {quote(own)}"
                    )
        return self._parse("", lambda: read(Manifest, value, "the manifest"))

    def _parse(self, where: str, parse: Callable[[], T]) -> T:
        try:
            return parse()
        except (JsonError, FaultError, LinkError, ConfigError, ValueError, TypeError) as error:
            raise self._error(f"{where}{error}") from error

    def _check_files(self, manifest: Manifest, members: Mapping[str, ZipInfo]) -> None:
        """Raise SnapshotError if there are other data files than the manifest lists."""
        for name, size in manifest.files.items():
            info = members.get(f"{_DATA}{name}")
            if info is None:
                raise self._error(
                    "the file is missing, but the manifest lists it", f"{_DATA}{name}"
                )
            if info.file_size != size:
                raise self._error(
                    f"it has {info.file_size} bytes, but the manifest says {size}", info.filename
                )
        for name in members:
            if name.removeprefix(_DATA) not in manifest.files:
                raise self._error("the manifest does not list this file", name)
        total = sum(manifest.files.values())
        limit = self._memory.limit_bytes
        if limit is not None and self._memory.used_bytes + total > limit:
            raise SnapshotError(
                f"{self._path}: its files have {total // _MIB} MiB, and the data in memory may "
                f"have {limit // _MIB} MiB, of which {self._memory.used_bytes // _MIB} are used "
                "(--memory-limit)"
            )

    def _snapshot_of(self, manifest: Manifest, files: InMemoryFiles) -> Snapshot:
        settings = self._parse("settings: ", lambda: settings_of(manifest.settings))
        state, initial_image = self._state_of(manifest, files, settings)
        clock = manifest.clock
        return Snapshot(
            manifest.cluster_id,
            state,
            initial_image,
            None if clock is None else ClockState(clock.now_ms, clock.rate, clock.skip_rate),
            self._random_state_of(manifest),
            self._faults_of(manifest),
            self._links_of(manifest),
            settings,
        )

    def _state_of(
        self, manifest: Manifest, files: InMemoryFiles, settings: Settings
    ) -> tuple[ClusterState, MetadataImage]:
        """Return the state of the cluster, and the metadata to which a reset leads."""
        DataDirectory.mark_clean_shutdown(files, MEMORY_PATH)
        try:
            config = _config_of(settings)
            directory, logs, images = read_state(files, MEMORY_PATH, _versions_of(manifest), config)
            directory.write_all(logs)
        except ConfigError as error:
            raise self._error(f"settings: {error}") from error
        except (OSError, UnreadableLogError) as error:
            text = getattr(error, "strerror", None) or error
            raise self._error(f"the files cannot be read: {text}", _DATA.rstrip("/")) from error
        if directory.properties.get("cluster.id") != manifest.cluster_id:
            raise self._error("cluster_id must be that in the file", f"{_DATA}{META_FILE}")
        self._check_offsets(manifest, images, end_of_metadata(logs))
        self._parse("", lambda: check_cluster(manifest, images[manifest.metadata_offset], logs))
        self._parse("", lambda: check_history(manifest.history))
        copy = files.copy()
        DataDirectory.mark_clean_shutdown(copy, MEMORY_PATH)
        state = ClusterState(
            copy,
            MEMORY_PATH,
            directory.copy_logs(logs, copy),
            None,
            images[manifest.metadata_offset],
            [_stopped_node_of(each, images) for each in manifest.stopped_nodes],
            list(map(_replica_of, manifest.lagging_replicas)),
            EventHistory.of(map(_entry_of, manifest.history)),
            list(map(_uncommitted_of, manifest.uncommitted)),
            [_impaired_node_of(each, images) for each in manifest.impaired_nodes],
        )
        return state, images[manifest.initial_metadata_offset]

    def _check_offsets(
        self, manifest: Manifest, images: Mapping[int, MetadataImage], end: int
    ) -> None:
        """Raise SnapshotError for offsets that the log of the metadata does not have."""
        if manifest.metadata_offset != end:
            raise self._error(
                f"metadata_offset must be the end of the metadata log, {end}, not "
                f"{manifest.metadata_offset}"
            )
        for version in _versions_of(manifest):
            if version not in images:
                raise self._error(
                    f"there is no metadata at offset {version}: the last one is {end}"
                )

    def _random_state_of(self, manifest: Manifest) -> object:
        words = manifest.random_state
        if words is None:
            return None
        from random import Random  # noqa: PLC0415 - only with a seed

        state = (Random.VERSION, words, None)
        self._parse("random_state: ", lambda: Random(0).setstate(state))  # noqa: S311 - a check
        return state

    def _check_ids(self, saved: Sequence[SavedFault | SavedLink], letter: str, last: int) -> None:
        """Raise SnapshotError unless ids are different ones of `letter` and a number to `last`."""
        earlier: set[str] = set()
        for each in (one.id for one in saved):
            number = each.removeprefix(letter)
            is_number = number.isascii() and number.isdigit() and each == f"{letter}{number}"
            if not is_number or not 0 < int(number[:_MAX_DIGITS]) <= last or each in earlier:
                raise self._error(
                    f"the ids must be different ones from {letter}1 to {letter}{last}, "
                    f"not {quote(each)}"
                )
            earlier.add(each)

    def _faults_of(self, manifest: Manifest) -> FaultsState | None:
        self._check_ids(manifest.faults, "f", manifest.last_fault)
        faults = tuple(
            (
                each.id,
                self._parse(f"fault {each.id}: ", lambda each=each: parse_rule(each.rule)),  # type: ignore[misc]
                each.matches,
                each.firings,
            )
            for each in manifest.faults
        )
        return FaultsState(faults, manifest.last_fault) if manifest.last_fault else None

    def _links_of(self, manifest: Manifest) -> LinksState | None:
        self._check_ids(manifest.links, "l", manifest.last_link)
        rules = tuple(
            (each.id, self._parse(f"link {each.id}: ", lambda each=each: parse_link(each.rule)))  # type: ignore[misc]
            for each in manifest.links
        )
        return LinksState(rules, manifest.last_link) if manifest.last_link else None


def _refuse_constant(name: str) -> object:
    """Raise ManifestError for a number that Python reads, but JSON does not have."""
    raise ManifestError(f"{name} is no number in JSON")


def _versions_of(manifest: Manifest) -> set[int]:
    """Return the offsets of all metadata in a manifest."""
    return {
        manifest.metadata_offset,
        manifest.initial_metadata_offset,
        *(each.metadata_offset for each in manifest.stopped_nodes),
        *(each.metadata_offset for each in manifest.impaired_nodes),
    }


def _config_of(settings: Settings) -> BrokerConfig:
    return BrokerConfig.from_text(
        settings.config,
        strict=False,
        as_version=settings.as_version,
        defaults=settings.defaults,
        node_count=settings.brokers,
        controller_id=settings.controller_id,
    )


def _stopped_node_of(saved: SavedNode, images: Mapping[int, MetadataImage]) -> StoppedNode:
    image = images[saved.metadata_offset]
    return StoppedNode(saved.node_id, image, saved.has_stale_metadata, saved.was_shut_down)


def _impaired_node_of(
    saved: SavedImpairedNode, images: Mapping[int, MetadataImage]
) -> ImpairedNode:
    return ImpairedNode(
        saved.node_id,
        images[saved.metadata_offset],
        saved.has_stale_metadata,
        saved.is_metadata_frozen,
        saved.is_replication_paused,
        saved.metadata_fetched_ms,
        saved.is_isolated,
    )


def _replica_of(saved: SavedReplica) -> LaggingReplica:
    return LaggingReplica(
        bytes.fromhex(saved.topic_id),
        saved.partition,
        saved.node_id,
        saved.replica_end,
        saved.replica_start,
        saved.caught_up_ms,
        saved.led_isr,
        _former_leader_of(saved.former_leader),
    )


def _former_leader_of(saved: SavedFormerLeader | None) -> FormerLeaderState | None:
    if saved is None:
        return None
    producers = producers_of(saved)
    assert producers is not None  # as `check_cluster` has found
    return FormerLeaderState(
        saved.leader,
        saved.first_lost_offset,
        saved.end_offset,
        saved.start_offset,
        saved.high_watermark,
        saved.last_stable_offset,
        saved.low_watermark,
        saved.has_enough_replicas,
        producers,
    )


def _uncommitted_of(saved: SavedUncommitted) -> UncommittedRecords:
    ends = tuple((each.first_offset, each.end_offset) for each in saved.transaction_ends)
    uncommitted = Uncommitted(saved.high_watermark, ends)
    return UncommittedRecords(bytes.fromhex(saved.topic_id), saved.partition, uncommitted)


def _entry_of(saved: SavedEntry) -> Entry:
    members = tuple(
        MemberClient(each.member_id, each.client_id, each.client_host) for each in saved.members
    )
    return Entry(
        saved.number,
        saved.group,
        saved.transactional_id,
        saved.topic,
        saved.client,
        saved.kind,
        saved.text,
        saved.facts,  # type: ignore[arg-type]  # JSON
        saved.times,
        saved.first_ms,
        saved.at_ms,
        members,
    )
