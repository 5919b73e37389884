"""Writes exchanges of a simulation as a capture, with the same bytes and times."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkalite.capture.recording.recorder import Recorder
from tests.spark.truth.simulation import BROKER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.capture.recording.recorder import Tap
    from tests.spark.truth.simulation import Exchange


def record(exchanges: Sequence[Exchange], directory: Path) -> list[Path]:
    """Write a capture of all exchanges; returns its files."""
    clock = [exchanges[0].start_us * 1000]
    recorder = Recorder(str(directory), lambda: clock[0])
    taps: dict[int, Tap] = {}
    events = [(exchange.start_us, 0, exchange.position, exchange) for exchange in exchanges]
    events += [
        (exchange.end_us, 1, exchange.position, exchange)
        for exchange in exchanges
        if exchange.end_us is not None
    ]
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
