"""What was said on a stage, written as a capture: the same bytes at the same times."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkalite.capture.recorder import Recorder
from tests.spark.truth.stage import BROKER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.capture.recorder import Tap
    from tests.spark.truth.stage import Said


def record(said: Sequence[Said], directory: Path) -> list[Path]:
    """Write a capture of it all, and return its files."""
    clock = [said[0].start_us * 1000]
    recorder = Recorder(str(directory), lambda: clock[0])
    taps: dict[int, Tap] = {}
    events = [(each.start_us, 0, each.position, each) for each in said]
    events += [(each.end_us, 1, each.position, each) for each in said if each.end_us is not None]
    for at_us, is_answer, _, each in sorted(events, key=lambda event: event[:3]):
        clock[0] = at_us * 1000
        line = each.line
        if line.number not in taps:
            taps[line.number] = recorder.open(
                client=line.client, broker=BROKER, node_id=0, listener="PLAINTEXT"
            )
        tap = taps[line.number]
        if is_answer:
            assert each.response is not None
            tap.sent([struct.pack(">i", len(each.response)), each.response])
        else:
            tap.received(struct.pack(">i", len(each.request)) + each.request)
    for tap in taps.values():
        tap.close()
    recorder.close()
    return sorted(directory.glob("*.pcapng*"))
