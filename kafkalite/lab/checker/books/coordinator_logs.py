"""CoordinatorLogs: makes rows of the records of coordinators and of the controller."""

# ruff: noqa: ANN401 - records of any type
from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from kafkalite.lab.checker.books.model import LoggedCommit, LoggedShareState, LoggedTransaction
from kafkalite.lab.checker.fetched_batches import UnreadableBatchesError, is_commit_marker
from kafkalite.lab.checker.history import Range
from kafkalite.lab.checker.range_map import RangeMap
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.config import ConfigRecord
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey
from kafkalite.protocol._generated.records.share_snapshot import ShareSnapshotValue
from kafkalite.protocol._generated.records.topic import TopicRecord
from kafkalite.shares.state import ShareKey, StateBatch
from kafkalite.storage.record_format import MalformedRecordsError
from kafkalite.transactions.transaction_records import TransactionSerde

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.lab.checker.books.model import Books
    from kafkalite.lab.checker.history import LogProof
    from kafkalite.storage.batch import BatchView

_TOPIC_RESOURCE: Final = 2
_COMPACT: Final = "compact"


class _ShareState:
    """The state of a partition of a share group while its records are read."""

    def __init__(self, proof: LogProof) -> None:
        self.proof = proof
        """The latest record."""
        self.start_offset = -1
        self.batches: RangeMap[tuple[int, int]] = RangeMap()
        """Offsets → delivery state and delivery count."""


class CoordinatorLogs:
    """Adds the records of internal topics to the books, in the order of their logs."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._pending: dict[tuple[str, int], list[LoggedCommit]] = {}
        """Log of offsets and producer id → commits of its open transaction."""
        self._shares: dict[ShareKey, _ShareState] = {}

    def add(self, topic: str, view: BatchView, proof: LogProof) -> None:
        """Add a batch of an internal topic."""
        if view.is_control:
            self._end(view, proof)
            return
        try:
            records = view.records()
        except MalformedRecordsError:
            self._books.unreadable += view.record_count
            return
        for record in records:
            try:
                self._HANDLERS[topic](self, record, view, proof)
            except (*codec.PARSE_ERRORS, ValueError, KeyError):
                self._books.unreadable += 1

    def finish(self) -> None:
        """Add the states of share groups; commits of open transactions have no effect yet."""
        self._pending.clear()
        for key, state in self._shares.items():
            batches = tuple(StateBatch(*each, *value) for each, value in state.batches.items())
            self._books.shares[key] = LoggedShareState(
                key, state.start_offset, batches, state.proof
            )

    def _end(self, view: BatchView, proof: LogProof) -> None:
        commits = self._pending.pop((_directory(proof), view.producer_id), [])
        if logged_marker(view):
            self._books.commits += commits

    def _add_offset(self, record: Any, view: BatchView, proof: LogProof) -> None:
        key, value = codec.decode_record(record.key, record.value, "group")
        group = getattr(key, "group", None) or getattr(key, "group_id", None)
        if group:
            self._books.groups.add(group)
        if not isinstance(key, OffsetCommitKey):
            return
        commit = LoggedCommit(
            group=key.group,
            topic=key.topic,
            number=key.partition,
            offset=None if value is None else value.offset,
            at_ms=view.max_timestamp if value is None else value.commit_timestamp,
            proof=proof,
        )
        if view.is_transactional:
            pending = self._pending.setdefault((_directory(proof), view.producer_id), [])
            pending.append(commit)
        else:
            self._books.commits.append(commit)

    def _add_transaction(self, record: Any, _: BatchView, proof: LogProof) -> None:
        decoded = TransactionSerde(_no_version).decode(record.key, record.value)
        if decoded is None:
            return
        states = self._books.transactions.setdefault(str(decoded.key), [])
        if decoded.value is None:
            states.clear()
        else:
            states.append(LoggedTransaction(decoded.value, proof))  # type: ignore[arg-type]

    def _add_share_state(self, record: Any, _: BatchView, proof: LogProof) -> None:
        key, value = codec.decode_record(record.key, record.value, "share")
        if key is None:
            return
        share_key = ShareKey(key.group_id, key.topic_id, key.partition)
        if value is None:
            self._shares.pop(share_key, None)
            return
        state = self._shares.get(share_key)
        if state is None:
            state = self._shares[share_key] = _ShareState(proof)
        state.proof = proof
        if isinstance(value, ShareSnapshotValue):
            state.batches = RangeMap()
        for each in value.state_batches:
            if each.first_offset > each.last_offset:
                raise ValueError("a batch ends before it begins")
            state.batches[Range(each.first_offset, each.last_offset)] = (
                each.delivery_state, each.delivery_count,
            )  # fmt: skip
        if value.start_offset >= 0:  # an update may leave it as it is
            state.start_offset = value.start_offset
        state.batches.remove_below(state.start_offset)

    def _add_metadata(self, record: Any, _: BatchView, __: LogProof) -> None:
        decoded = codec.decode_metadata_record(record.value)
        if isinstance(decoded, TopicRecord):
            self._books.topic_names[decoded.topic_id] = decoded.name
        elif isinstance(decoded, ConfigRecord) and decoded.resource_type == _TOPIC_RESOURCE:
            if decoded.name != "cleanup.policy":
                return
            if _COMPACT in (decoded.value or ""):
                self._books.compacted_topics.add(decoded.resource_name)
            else:
                self._books.compacted_topics.discard(decoded.resource_name)

    _HANDLERS: ClassVar[
        Mapping[str, Callable[[CoordinatorLogs, Any, BatchView, LogProof], None]]
    ] = {
        OFFSETS_TOPIC: _add_offset,
        TRANSACTION_STATE_TOPIC: _add_transaction,
        SHARE_STATE_TOPIC: _add_share_state,
        METADATA_TOPIC: _add_metadata,
    }
    """Topic → method that adds a record of it."""


def logged_marker(view: BatchView) -> bool | None:
    """Return whether a control batch commits its transaction; None if it has no valid marker."""
    try:
        return is_commit_marker(view)
    except UnreadableBatchesError:
        return None


def _no_version() -> int:
    return 0  # nothing is encoded


def _directory(proof: LogProof) -> str:
    return proof.file.rpartition("/")[0]
