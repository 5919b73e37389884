"""The states that a transactional id had, from the log of its coordinator."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.console.source import TransactionMoment
from kafkalite.control.time_travel.replay import MachineReplay, needle_of
from kafkalite.transactions.state import Transaction
from kafkalite.transactions.transaction_records import TransactionSerde

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.control.console.log_tail import LogTail
    from kafkalite.coordinator.contract import CoordinatorRecord

MAX_MOMENTS: Final = 400
"""The maximum number of states, the latest, that are returned."""


class _Collector:
    """The states of a transactional id, as the machine of a log of `__transaction_state`."""

    def __init__(self, transactional_id: str) -> None:
        self._transactional_id = transactional_id
        self.latest: Transaction | None = None

    def replay(self, record: CoordinatorRecord[Any, Any]) -> None:
        """Note the state in a record; None for one of another id, and for the removal."""
        is_own = record.key == self._transactional_id
        self.latest = record.value if is_own and isinstance(record.value, Transaction) else None


async def read_moments(tail: LogTail, transactional_id: str) -> Sequence[TransactionMoment]:
    """Return the latest states, oldest first; raises TimeTravelError for a damaged log."""
    collector, needle = _Collector(transactional_id), needle_of(transactional_id)
    replay = MachineReplay(tail.name, (needle,), collector, TransactionSerde(lambda: 0))
    found: deque[TransactionMoment] = deque(maxlen=MAX_MOMENTS)
    async for batch in tail.batches(needle):
        for applied in replay.apply(batch):
            latest = collector.latest
            if latest is not None:
                found.append(
                    TransactionMoment(
                        applied.timestamp_ms,
                        latest.state.label,
                        latest.producer_id,
                        latest.producer_epoch,
                        len(latest.partitions),
                    )
                )
    return tuple(found)
