"""Measures how many records per second one core delivers to share groups and acknowledges.

`python -m tests.perf.share_groups` fetches and acknowledges through the handlers, with logs and
share states on disk, but without sockets and codecs, to measure only the share groups.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.storage.batch import BatchView
from tests.cluster.shares import ACCEPT, LAST, ShareCluster, acquired
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    from tests.cluster.shares import Ack

_BATCHES, _BATCH = 2_000, 100


def measure(wire: ShareCluster, fetches: int, max_records: int, *, one_by_one: bool) -> str:
    """Fetch, acknowledge with each next fetch, and return a line with the speed."""
    member = f"{max_records}-{one_by_one}"
    acks: dict[int, list[Ack]] = {}
    records = 0
    started = time.perf_counter()
    for epoch in range(fetches):
        ranges = acquired(wire.fetch(epoch, member, acks=acks, max_records=max_records))[0]
        records += sum(last - first + 1 for first, last, _ in ranges)
        spans = [
            (offset, offset) if one_by_one else (first, last)
            for first, last, _ in ranges
            for offset in (range(first, last + 1) if one_by_one else (first,))
        ]
        acks = {0: [(first, last, ACCEPT) for first, last in spans]}
    wire.fetch(LAST, member, acks=acks)
    seconds = time.perf_counter() - started
    mode = "one by one" if one_by_one else "in ranges"
    return (
        f"{max_records} records per fetch, acknowledged {mode}: "
        f"{records / seconds:,.0f} records/s, {seconds / fetches * 1e3:.2f} ms a fetch"
    )


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as directory:
        wire = ShareCluster(Path(directory))
        batch = batch_of(*[b"v" * 100] * _BATCH)
        for _ in range(_BATCHES):
            wire.log().append(BatchView(batch), wire.clock.now_ms())
        for fetches, max_records, one_by_one in (
            (100, 500, False),
            (300, 100, False),
            (100, 500, True),
        ):
            print(measure(wire, fetches, max_records, one_by_one=one_by_one))  # noqa: T201


if __name__ == "__main__":
    main()
