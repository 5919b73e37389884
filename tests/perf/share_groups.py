"""Records per second that one core hands to share groups and settles; run by hand.

`python -m tests.perf.share_groups` fetches and acknowledges through the handlers, with logs and
kept states on disk, but without sockets and codecs: what share groups themselves cost.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.storage.batch import BatchView
from tests.unit.apis.share_wire import ACCEPT, LAST, ShareWire, acquired
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    from tests.unit.apis.share_wire import Ack

_BATCHES, _BATCH = 2_000, 100


def measure(wire: ShareWire, fetches: int, most: int, *, one_by_one: bool) -> str:
    """Fetch so often, acknowledge each time with the next fetch, and say how fast that was."""
    member = f"{most}-{one_by_one}"
    acks: dict[int, list[Ack]] = {}
    records = 0
    begun = time.perf_counter()
    for epoch in range(fetches):
        given = acquired(wire.fetch(epoch, member, acks=acks, max_records=most))[0]
        records += sum(last - first + 1 for first, last, _ in given)
        spans = [
            (offset, offset) if one_by_one else (first, last)
            for first, last, _ in given
            for offset in (range(first, last + 1) if one_by_one else (first,))
        ]
        acks = {0: [(first, last, ACCEPT) for first, last in spans]}
    wire.fetch(LAST, member, acks=acks)
    took_s = time.perf_counter() - begun
    how = "one by one" if one_by_one else "in ranges"
    return (
        f"{most} records a fetch, acknowledged {how}: {records / took_s:,.0f} records/s, "
        f"{took_s / fetches * 1e3:.2f} ms a fetch"
    )


def main() -> None:
    """Print what was measured."""
    with tempfile.TemporaryDirectory() as directory:
        wire = ShareWire(Path(directory))
        batch = batch_of(*[b"v" * 100] * _BATCH)
        for _ in range(_BATCHES):
            wire.log().append(BatchView(batch), wire.clock.now_ms())
        for fetches, most, one_by_one in ((100, 500, False), (300, 100, False), (100, 500, True)):
            print(measure(wire, fetches, most, one_by_one=one_by_one))  # noqa: T201


if __name__ == "__main__":
    main()
