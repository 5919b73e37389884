"""Loading: a machine's log, replayed from its start, record by record or by what is left of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.coordinator.transactional import OpenRecords, TransactionEnd
from kafkalite.protocol.codec import PARSE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalite.coordinator.contract import CoordinatorLog, CoordinatorRecord, RecordSerde
    from kafkalite.coordinator.transactional import KeyValue, TransactionalMachine


class Replaying(Protocol):
    """As much of a machine as a log needs that holds no transactions."""

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Make one record of the log true."""


def replay_log(log: CoordinatorLog, serde: RecordSerde, machine: Replaying) -> int:
    """Make every record of a log true, and return how many entries it has.

    Records of kinds not known here are passed over. OSError when the disk fails, UnreadableLogError
    for an entry that is no record: what was written after it cannot be understood without it.
    """
    return _replay(log.read_all(), log.name, serde, machine.replay)


def replay_state(log: CoordinatorLog, serde: RecordSerde, machine: Replaying) -> None:
    """Make true what a log comes to: as `replay_log`, without most of what was overwritten.

    For logs whose keys are what a compacted log keeps apart.
    """
    _replay(log.read_last(), log.name, serde, machine.replay)


def replay_transactions(
    log: CoordinatorLog, serde: RecordSerde, machine: TransactionalMachine
) -> None:
    """Make true what a log comes to, open transactions included: else as `replay_state`."""
    count = 0
    for run in log.read_runs():
        if isinstance(run, TransactionEnd):
            machine.end_transaction(run.producer_id, is_commit=run.is_commit)
        elif isinstance(run, OpenRecords):
            replay = partial(machine.replay_transactional, run.producer_id)
            count = _replay(run.records, log.name, serde, replay, count)
        else:
            count = _replay(run, log.name, serde, machine.replay, count)


def _replay(
    entries: Iterable[KeyValue],
    name: str,
    serde: RecordSerde,
    replay: Callable[[CoordinatorRecord[object, object]], None],
    count: int = 0,
) -> int:
    for key, value in entries:
        try:
            record = serde.decode(key, value)
        except PARSE_ERRORS as error:
            raise UnreadableLogError(f"entry {count} is not a record", name) from error
        if record is not None:
            replay(record)
        count += 1
    return count
