"""Comparison of fetched records by partition and offset, independent of their grouping.

If two Fetch responses differ, a digest of each of their records is stored by offset. At the end of
a replay, records that the target has not returned yet are fetched from it. Then both sides must
have returned the same records.
"""

from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import split_batches
from kafkalite.storage.compression import OversizedDataError
from kafkalite.storage.record_format import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.replay.rewriting.id_mapping import IdMapping, Scope
    from kafkalite.storage.batch import BatchView

MAX_RECORDS = 5_000_000
"""Maximum number of stored digests of records; later differing responses are not compared."""

_DIGEST_BYTES = 8


class Partition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    number: int


class FetchedRecords:
    """Digests of the records of both sides, from responses that differ."""

    def __init__(self, mapping: IdMapping) -> None:
        self._mapping = mapping
        self._recorded: defaultdict[Partition, dict[int, bytes]] = defaultdict(dict)
        self._target: defaultdict[Partition, dict[int, bytes]] = defaultdict(dict)
        self._stored_count = 0
        self.uncompared_batches = 0
        """Number of batches that were not compared: malformed, or received after `MAX_RECORDS`."""

    def add(self, scope: Scope, recorded: bytes | None, target: bytes | None) -> None:
        """Store the records of one partition from two responses, if they differ."""
        if recorded == target or not isinstance(scope.topic, str) or scope.partition is None:
            return
        partition = Partition(scope.topic, scope.partition)
        shift = self._mapping.offset_shift(partition)
        self._store_digests(self._recorded[partition], recorded, shift)
        self._store_digests(self._target[partition], target, 0)

    def _store_digests(self, digests: dict[int, bytes], data: bytes | None, shift: int) -> None:
        if not data:
            return
        if self._stored_count > MAX_RECORDS:
            self.uncompared_batches += 1
            return
        before = len(digests)
        for offset, digest in self.digests(data):
            digests[offset + shift] = digest
        self._stored_count += len(digests) - before

    def digests(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield offset and digest of each record; count batches that cannot be decoded."""
        try:
            batches = split_batches(data)
        except KafkaError:
            self.uncompared_batches += 1
            return
        for batch in batches:
            try:
                yield from _digests(batch)
            except (MalformedRecordsError, OversizedDataError):
                self.uncompared_batches += 1

    def missing_offsets(self) -> dict[Partition, list[int]]:
        """Return the offsets that the target has not returned, by partition, in order."""
        return {
            partition: missing
            for partition, recorded in self._recorded.items()
            if (missing := sorted(recorded.keys() - self._target[partition].keys()))
        }

    def add_from_target(self, partition: Partition, data: bytes) -> None:
        """Store record batches that the target returned for a partition afterwards."""
        self._store_digests(self._target[partition], data, 0)

    def differing_offsets(self) -> Iterator[tuple[Partition, int, bool]]:
        """Yield (partition, offset, whether the target has no record there) for each difference."""
        for partition, recorded in self._recorded.items():
            target = self._target[partition]
            for offset, digest in sorted(recorded.items()):
                target_digest = target.get(offset)
                if target_digest != digest:
                    yield partition, offset, target_digest is None


def _digests(batch: BatchView) -> Iterator[tuple[int, bytes]]:
    kind = (batch.is_transactional, batch.is_control)
    has_own_times = not batch.is_log_append_time and not batch.is_control
    for record in batch.records():
        content = (
            kind,
            record.timestamp if has_own_times else None,
            record.key,
            # The value of a control record has the epoch of the cluster's own coordinator.
            None if batch.is_control else record.value,
            record.headers,
        )
        digest = blake2b(repr(content).encode(), digest_size=_DIGEST_BYTES).digest()
        yield record.offset, digest
