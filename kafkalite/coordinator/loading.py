"""Loading: a machine's log, replayed from its start, record by record or by what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.protocol.codec import PARSE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalite.coordinator.contract import CoordinatorLog, CoordinatorRecord, RecordSerde


def replay_log(
    log: CoordinatorLog,
    serde: RecordSerde,
    replay: Callable[[CoordinatorRecord[object, object]], None],
) -> int:
    """Make every record of a log true, and return how many entries it has.

    Records of kinds not known here are passed over. OSError when the disk fails, UnreadableLogError
    for an entry that is no record: what was written after it cannot be understood without it.
    """
    return _replay(log.read_all(), log.name, serde, replay)


def replay_state(
    log: CoordinatorLog,
    serde: RecordSerde,
    replay: Callable[[CoordinatorRecord[object, object]], None],
) -> None:
    """Make true what a log comes to: as `replay_log`, without most of what was overwritten.

    For logs whose keys are what a compacted log keeps apart.
    """
    _replay(log.read_last(), log.name, serde, replay)


def _replay(
    entries: Iterable[tuple[bytes | None, bytes | None]],
    name: str,
    serde: RecordSerde,
    replay: Callable[[CoordinatorRecord[object, object]], None],
) -> int:
    count = 0
    for key, value in entries:
        try:
            record = serde.decode(key, value)
        except PARSE_ERRORS as error:
            raise UnreadableLogError(f"entry {count} is not a record", name) from error
        if record is not None:
            replay(record)
        count += 1
    return count
