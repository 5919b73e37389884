"""Loading: a machine's log, replayed from its start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import UnreadableLogError
from kafkalite.protocol.codec import PARSE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable

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
    count = 0
    for key, value in log.read_all():
        try:
            record = serde.decode(key, value)
        except PARSE_ERRORS as error:
            raise UnreadableLogError(f"entry {count} is not a record", log.name) from error
        if record is not None:
            replay(record)
        count += 1
    return count
