"""Fetched records: those of a partition compared as a whole, however answers grouped them.

Where two answers to a Fetch differ, what each held is kept, record by record, by its offset. At the
end both must have had the same; what the target has not shown by then it is asked for.
"""

from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import split_batches
from kafkalite.storage.compression import OversizedDataError
from kafkalite.storage.records import MalformedRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.replay.mapping import Mapping, Scope
    from kafkalite.storage.batch import BatchView

MOST_RECORDS = 5_000_000
"""Records that are kept; beyond, those of answers that differ are no longer compared."""

_DIGEST_BYTES = 8


class Partition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    number: int


class Fetched:
    """What both sides have shown of each partition, where their answers differed."""

    def __init__(self, meaning: Mapping) -> None:
        self._meaning = meaning
        self._recorded: defaultdict[Partition, dict[int, bytes]] = defaultdict(dict)
        self._target: defaultdict[Partition, dict[int, bytes]] = defaultdict(dict)
        self._kept = 0
        self.unread = 0
        """Batches that could not be opened, or were too many."""

    def take(self, scope: Scope, recorded: bytes | None, target: bytes | None) -> None:
        """Keep what two answers hold of a partition."""
        if recorded == target or not isinstance(scope.topic, str) or scope.partition is None:
            return
        partition = Partition(scope.topic, scope.partition)
        shift = self._meaning.offset_shift(partition)
        self._keep(self._recorded[partition], recorded, shift)
        self._keep(self._target[partition], target, 0)

    def _keep(self, kept: dict[int, bytes], data: bytes | None, shift: int) -> None:
        if not data:
            return
        if self._kept > MOST_RECORDS:
            self.unread += 1
            return
        before = len(kept)
        for offset, digest in self.digests(data):
            kept[offset + shift] = digest
        self._kept += len(kept) - before

    def digests(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield offset and digest of every record; batches that cannot be read are counted."""
        try:
            batches = split_batches(data)
        except KafkaError:
            self.unread += 1
            return
        for batch in batches:
            try:
                yield from _digests(batch)
            except (MalformedRecordsError, OversizedDataError):
                self.unread += 1

    def missing(self) -> dict[Partition, list[int]]:
        """Return the offsets that the target has not shown, by partition, in order."""
        return {
            partition: missing
            for partition, recorded in self._recorded.items()
            if (missing := sorted(recorded.keys() - self._target[partition].keys()))
        }

    def show(self, partition: Partition, data: bytes) -> None:
        """Keep what the target has of a partition when it is asked for."""
        self._keep(self._target[partition], data, 0)

    def differing(self) -> Iterator[tuple[Partition, int, bool]]:
        """Yield the offsets at which the two differ; True: the target has no record there."""
        for partition, recorded in self._recorded.items():
            target = self._target[partition]
            for offset, digest in sorted(recorded.items()):
                shown = target.get(offset)
                if shown != digest:
                    yield partition, offset, shown is None


def _digests(batch: BatchView) -> Iterator[tuple[int, bytes]]:
    kind = (batch.is_transactional, batch.is_control)
    has_own_times = not batch.is_log_append_time and not batch.is_control
    for record in batch.records():
        content = (
            kind,
            record.timestamp if has_own_times else None,
            record.key,
            # What a marker says of its coordinator is that coordinator's own.
            None if batch.is_control else record.value,
            record.headers,
        )
        digest = blake2b(repr(content).encode(), digest_size=_DIGEST_BYTES).digest()
        yield record.offset, digest
