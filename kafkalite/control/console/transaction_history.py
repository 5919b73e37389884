"""The states that a transactional id had, from the log of its coordinator."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from kafkalite.control.console.source import TransactionMoment
from kafkalite.control.time_travel.points import LATEST
from kafkalite.control.time_travel.replay import needle_of, new_replay, partition_of_key
from kafkalite.control.time_travel.scan import Scan
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.control.time_travel.logs import LogSource
    from kafkalite.metadata.image import MetadataImage

MAX_MOMENTS: Final = 400
"""The maximum number of states, the latest, that are returned."""


async def read_moments(
    logs: LogSource, image: MetadataImage, transactional_id: str
) -> Sequence[TransactionMoment]:
    """Return the latest states, oldest first; raises TimeTravelError for a damaged log."""
    if TRANSACTION_STATE_TOPIC not in image.topics:
        return ()
    partition = partition_of_key(image, TRANSACTION_STATE_TOPIC, transactional_id)
    needles = (needle_of(transactional_id),)
    replay = new_replay(logs, TRANSACTION_STATE_TOPIC, partition, needles, image)
    found: deque[TransactionMoment] = deque(maxlen=MAX_MOMENTS)
    for batch in Scan(logs.log(TRANSACTION_STATE_TOPIC, partition), LATEST, needles):
        if batch is None:
            await asyncio.sleep(0)
            continue
        for applied in replay.apply(batch):
            for each in replay.machine.transactions():
                # The name of another id may contain this one.
                if each.transactional_id == transactional_id:
                    found.append(
                        TransactionMoment(
                            applied.timestamp_ms,
                            each.state.label,
                            each.producer_id,
                            each.producer_epoch,
                            len(each.partitions),
                        )
                    )
    return tuple(found)
