"""Checks of a snapshot's manifest against the metadata and the logs of its cluster.

A file may have any numbers in its manifest, and a cluster would trust them: a high watermark after
the end of a log, for example, lets consumers wait forever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.config.typed_json import number_of, quote
from kafkalite.metadata.topic_names import METADATA_TOPIC, invalid_name_reason
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.server.settings import Settings, shareable_config
from kafkalite.storage.producer_snapshot import decode_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.metadata.image import MetadataImage, PartitionImage, TopicImage
    from kafkalite.server.snapshot_file import (
        Manifest,
        SavedEntry,
        SavedFormerLeader,
        SavedImpairedNode,
        SavedNode,
        SavedReplica,
        SavedSettings,
        SavedUncommitted,
    )
    from kafkalite.storage.data_directory import TopicPartition
    from kafkalite.storage.log import Log
    from kafkalite.storage.producer_state import ProducerStateTable

_UUID_BYTES: Final = 16
_MAX_LISTED: Final = 5
"""The maximum number of ids that an error lists."""
_SUBJECTS: Final = ("group", "transactional_id", "topic", "client")


class ManifestError(ValueError):
    """A value that a manifest cannot have; the text is one sentence with its position."""


def settings_of(saved: SavedSettings) -> Settings:
    """Return settings of a cluster in memory; raises ManifestError or SettingsError."""
    _check_config("config", saved.config)
    node_config: dict[int, Mapping[str, str]] = {}
    for text, config in saved.node_config.items():
        node_id = number_of(text)
        if not isinstance(node_id, int) or node_id in node_config:
            raise ManifestError(f"node_config must have different node ids, not {text!r}")
        _check_config(f"node_config.{node_id}", config)
        node_config[node_id] = config
    for name in saved.topics:
        if reason := invalid_name_reason(name):
            raise ManifestError(f"topics: {reason}")
    settings = Settings(
        brokers=saved.brokers,
        config=saved.config,
        node_config=node_config,
        as_version=saved.as_version,
        defaults=saved.defaults,
        seed=saved.seed,
        controller_id=saved.controller_id,
        keeps_history=saved.keeps_history,
        pace=saved.pace,
        topics=saved.topics,
        is_in_memory=True,
    )
    settings.check_node_config()
    settings.check_controller_id()
    return settings


def _check_config(where: str, config: Mapping[str, str]) -> None:
    foreign = config.keys() - shareable_config(config).keys()
    if foreign:
        raise ManifestError(
            f"{where} has {quote(min(foreign))}: a snapshot has no secrets, addresses and files"
        )


def check_cluster(
    manifest: Manifest, image: MetadataImage, logs: Mapping[TopicPartition, Log]
) -> None:
    """Raise ManifestError for nodes, replicas and offsets that a cluster cannot have.

    `image` is the last metadata of the cluster, and `logs` are all its logs.
    """
    if not image.brokers:
        raise ManifestError("the metadata has no node")
    _check_nodes("stopped_nodes", manifest.stopped_nodes, image)
    _check_nodes("impaired_nodes", manifest.impaired_nodes, image)
    partitions = _Partitions(image, logs)
    _check_replicas(manifest.lagging_replicas, partitions)
    _check_uncommitted(manifest.uncommitted, partitions)


def check_history(history: Sequence[SavedEntry]) -> None:
    """Raise ManifestError for entries without one subject, or that are not in their order."""
    last = -1
    for position, entry in enumerate(history):
        where = f"history[{position}]"
        count = sum(getattr(entry, name) is not None for name in _SUBJECTS)
        if count != 1:
            raise ManifestError(f"{where} must have one of {', '.join(_SUBJECTS)}, not {count}")
        if entry.number <= last:
            raise ManifestError(
                f"{where}.number must be larger than that of the entry before, {last}, not "
                f"{entry.number}"
            )
        if entry.at_ms < entry.first_ms:
            raise ManifestError(
                f"{where}.at_ms must not be before first_ms, {entry.first_ms}, but is {entry.at_ms}"
            )
        last = entry.number


def _check_nodes(
    field: str, nodes: Iterable[SavedNode | SavedImpairedNode], image: MetadataImage
) -> None:
    """Raise ManifestError for an unknown node, and for one that is there twice."""
    earlier: set[int] = set()
    for position, node in enumerate(nodes):
        where = f"{field}[{position}].node_id"
        _check_node(where, node.node_id, image)
        if node.node_id in earlier:
            raise ManifestError(f"{where}: node {node.node_id} is there twice")
        earlier.add(node.node_id)


def _check_node(where: str, node_id: int, image: MetadataImage) -> None:
    if node_id not in image.brokers:
        known = sorted(image.brokers)
        more = ", …" if len(known) > _MAX_LISTED else ""
        raise ManifestError(
            f"{where}: there is no node {node_id}; the nodes are "
            f"{', '.join(map(str, known[:_MAX_LISTED]))}{more}"
        )


class _Found(NamedTuple):
    """A partition that a manifest refers to."""

    name: str
    image: PartitionImage
    log: Log


class _Partitions:
    """The partitions of a cluster, by the ids of their topics in hex."""

    def __init__(self, image: MetadataImage, logs: Mapping[TopicPartition, Log]) -> None:
        self.image = image
        self._logs = logs
        self._topics: dict[bytes, TopicImage] = {
            each.topic_id: each for each in image.topics.values()
        }

    def find(self, where: str, saved: SavedReplica | SavedUncommitted) -> _Found:
        """Return the partition at a position of the manifest; raises ManifestError."""
        topic_id = _bytes_of(saved.topic_id)
        if topic_id is None:
            raise ManifestError(
                f"{where}.topic_id must be {_UUID_BYTES} bytes in hex, not {quote(saved.topic_id)}"
            )
        topic = self._topics.get(topic_id)
        if topic is None:
            raise ManifestError(f"{where}.topic_id: there is no topic {saved.topic_id}")
        if saved.partition >= len(topic.partitions):
            raise ManifestError(
                f"{where}.partition: {topic.name} has {len(topic.partitions)} partitions, and none "
                f"with the index {saved.partition}"
            )
        log = self._logs[topic.name, saved.partition]
        name = f"{topic.name}-{saved.partition}"
        return _Found(name, topic.partitions[saved.partition], log)


def _bytes_of(text: str) -> bytes | None:
    """Return the bytes of an id in hex; None for another text."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        return None
    return value if len(value) == _UUID_BYTES and value.hex() == text else None


def _check_replicas(replicas: Iterable[SavedReplica], partitions: _Partitions) -> None:
    earlier: set[tuple[str, int, int]] = set()
    for position, each in enumerate(replicas):
        where = f"lagging_replicas[{position}]"
        found = partitions.find(where, each)
        # A replica may be that of a node that was removed.
        if each.node_id not in found.image.replicas:
            _check_node(f"{where}.node_id", each.node_id, partitions.image)
        key = each.topic_id, each.partition, each.node_id
        if key in earlier:
            raise ManifestError(f"{where}: the replica of node {each.node_id} is there twice")
        earlier.add(key)
        end = found.log.end_offset
        if each.replica_end is not None:
            _check_offset(f"{where}.replica_end", each.replica_end, 0, end, found)
        _check_offset(f"{where}.replica_start", each.replica_start, 0, end, found)
        for node_id in each.led_isr or ():
            _check_node(f"{where}.led_isr", node_id, partitions.image)
        if each.former_leader is not None:
            _check_former_leader(f"{where}.former_leader", each, each.former_leader)


def _check_former_leader(where: str, replica: SavedReplica, saved: SavedFormerLeader) -> None:
    if saved.leader != replica.node_id or replica.led_isr is not None:
        raise ManifestError(
            f"{where}.leader must be node {replica.node_id}, without led_isr, not {saved.leader}"
        )
    if not saved.first_lost_offset <= saved.end_offset:
        raise ManifestError(
            f"{where}.end_offset must not be before first_lost_offset, {saved.first_lost_offset}, "
            f"but is {saved.end_offset}"
        )
    if producers_of(saved) is None:
        raise ManifestError(
            f"{where}.producers must be a snapshot file of Kafka in hex, not "
            f"{quote(saved.producers)}"
        )


def producers_of(saved: SavedFormerLeader) -> ProducerStateTable | None:
    """Return the producers of a former leader; None if they are damaged."""
    try:
        return decode_snapshot(bytes.fromhex(saved.producers))
    except ValueError:
        return None


def _check_uncommitted(saved: Iterable[SavedUncommitted], partitions: _Partitions) -> None:
    earlier: set[tuple[str, int]] = set()
    for position, each in enumerate(saved):
        where = f"uncommitted[{position}]"
        found = partitions.find(where, each)
        if (each.topic_id, each.partition) in earlier:
            raise ManifestError(f"{where}: {found.name} is there twice")
        earlier.add((each.topic_id, each.partition))
        end = found.log.end_offset
        _check_offset(f"{where}.high_watermark", each.high_watermark, 0, end, found)
        for number, transaction in enumerate(each.transaction_ends):
            at = f"{where}.transaction_ends[{number}]"
            _check_offset(f"{at}.end_offset", transaction.end_offset, 0, end, found)
            maximum = transaction.end_offset
            _check_offset(f"{at}.first_offset", transaction.first_offset, 0, maximum, found)


def _check_offset(where: str, offset: int, minimum: int, maximum: int, found: _Found) -> None:
    if not minimum <= offset <= maximum:
        raise ManifestError(
            f"{where} must be an offset of {found.name} from {minimum} to {maximum}, not {offset}"
        )


def end_of_metadata(logs: Mapping[TopicPartition, Log]) -> int:
    """Return the end offset of the log of the metadata."""
    return logs[METADATA_TOPIC, 0].end_offset
