"""Loading: replay a machine's log, completely or without overwritten records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.coordinator.transactional_records import OpenRecords, TransactionEnd
from kafkalite.protocol.codec import PARSE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalite.coordinator.contract import CoordinatorLog, CoordinatorRecord, RecordSerde
    from kafkalite.coordinator.transactional_records import KeyValue, TransactionalMachine


ReplayEncoded: TypeAlias = "Callable[[bytes | None, bytes | None], bool]"
"""Applies a record, given as key and value bytes, or returns False if it must be decoded."""


def _decode_all(key: bytes | None, value: bytes | None) -> bool:
    """Return False: every record is decoded."""
    del key, value
    return False


class Replayable(Protocol):
    """The part of a machine that a log without transactions needs."""

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Apply one record of the log to the state."""


def replay_log(log: CoordinatorLog, serde: RecordSerde, machine: Replayable) -> int:
    """Apply every record of a log, and return the number of its entries.

    Records of unknown types are skipped. Raises OSError when the disk fails. Raises
    UnreadableLogError for an entry that is not a record, because later records may depend on it.
    """
    return _replay(log.read_all(), log.name, serde, machine.replay)


def replay_latest(log: CoordinatorLog, serde: RecordSerde, machine: Replayable) -> None:
    """Apply the latest records of a log: as `replay_log`, but without most overwritten records.

    For logs whose state depends only on the last record of each key.
    """
    _replay(log.read_latest(), log.name, serde, machine.replay)


def replay_transactions(
    log: CoordinatorLog,
    serde: RecordSerde,
    machine: TransactionalMachine,
    replay_encoded: ReplayEncoded = _decode_all,
) -> None:
    """Do the same as `replay_latest` for a log with transactions.

    Records of a transaction are stored by the machine until the end of the transaction is replayed.
    Other records are first passed to `replay_encoded`, which returns whether it has applied a
    record without its objects.
    """
    count = 0
    for section in log.read_sections():
        if isinstance(section, TransactionEnd):
            machine.end_transaction(section.producer_id, is_commit=section.is_commit)
        elif isinstance(section, OpenRecords):
            replay = partial(machine.replay_transactional, section.producer_id)
            count = _replay(section.records, log.name, serde, replay, count)
        else:
            count = _replay(section, log.name, serde, machine.replay, count, replay_encoded)


def _replay(  # noqa: PLR0917 - the log, and what its entries are passed to
    entries: Iterable[KeyValue],
    name: str,
    serde: RecordSerde,
    replay: Callable[[CoordinatorRecord[object, object]], None],
    count: int = 0,
    replay_encoded: ReplayEncoded = _decode_all,
) -> int:
    for key, value in entries:
        try:
            if replay_encoded(key, value):
                count += 1
                continue
            record = serde.decode(key, value)
        except PARSE_ERRORS as error:
            raise UnreadableLogError(f"entry {count} is not a record", name) from error
        if record is not None:
            replay(record)
        count += 1
    return count
