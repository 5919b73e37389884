"""Measures the generated codec compared with a hand-written one and with construct.

`python -m tests.perf.codec_speed` prints the times; with `--check` it fails if a target is missed.
All run in alternating rounds in one process. The result is the median of the CPU time of the
thread, so that other load on the machine has little effect.
"""

from __future__ import annotations

import statistics
import sys
from time import thread_time_ns
from typing import TYPE_CHECKING, Final

from kafkalite.protocol import codec
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from tests.perf import other_codecs

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_SHARE_OF_HAND_WRITTEN: Final = 0.45
"""The largest permitted time of parse and build, relative to the hand-written codec."""

MIN_SPEEDUP_OVER_CONSTRUCT: Final = 80
"""The minimum speedup compared with construct."""

ROUNDS: Final = 41
_API_KEY: Final = 8
_VERSION: Final = 8
_PARTITIONS: Final = 10


def message() -> OffsetCommitRequest:
    """Return a typical OffsetCommit: ten partitions of one topic, no metadata."""
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(
        name="orders-and-returns",
        partitions=[
            partition(partition_index=index, committed_offset=1_000_000 + index)
            for index in range(_PARTITIONS)
        ],
    )
    return OffsetCommitRequest(
        group_id="billing-service",
        generation_id_or_member_epoch=17,
        member_id="consumer-billing-service-1-8a5f7d6e-0000-4000-8000-123456789abc",
        topics=[topic],
    )


def benchmarks() -> dict[str, Callable[[], object]]:
    """Return the benchmarks by name; all process the same bytes."""
    request = message()
    build_into = codec.request_builder(_API_KEY, _VERSION)
    parse = codec.request_parser(_API_KEY, _VERSION)

    def build() -> bytes:
        out: codec.Out = []
        build_into(request, out)
        return b"".join(out)

    frame = build()
    hand_written = other_codecs.read_request(frame)
    construct_message = other_codecs.CONSTRUCT_REQUEST.parse(frame)
    if (
        not frame
        == other_codecs.write_request(hand_written)
        == other_codecs.CONSTRUCT_REQUEST.build(construct_message)
    ):
        raise AssertionError("the three codecs do not write the same bytes")
    return {
        "generated parse": lambda: parse(frame, 0, len(frame)),
        "generated build": build,
        "hand-written parse": lambda: other_codecs.read_request(frame),
        "hand-written build": lambda: other_codecs.write_request(hand_written),
        "construct parse": lambda: other_codecs.CONSTRUCT_REQUEST.parse(frame),
        "construct build": lambda: other_codecs.CONSTRUCT_REQUEST.build(construct_message),
    }


def measure() -> dict[str, float]:
    """Run the benchmarks in alternating rounds, and return microseconds per message."""
    runs = benchmarks()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            repeats = 20 if name.startswith("construct") else 400
            started = thread_time_ns()
            for _ in range(repeats):
                run()
            times[name].append((thread_time_ns() - started) / repeats / 1000)
    return {name: statistics.median(rounds) for name, rounds in times.items()}


def main(arguments: list[str]) -> int:
    """Print the times; with `--check`, return exit status 1 if a target is missed."""
    times = measure()
    for name, time in times.items():
        sys.stdout.write(f"{name:20} {time:8.2f} µs\n")
    generated_us, hand_written_us, construct_us = (
        times[f"{codec_name} parse"] + times[f"{codec_name} build"]
        for codec_name in ("generated", "hand-written", "construct")
    )
    share, factor = generated_us / hand_written_us, construct_us / generated_us
    sys.stdout.write(
        f"of hand-written      {share:8.2f}     (at most {MAX_SHARE_OF_HAND_WRITTEN})\n"
    )
    sys.stdout.write(
        f"times construct      {factor:8.1f}     (at least {MIN_SPEEDUP_OVER_CONSTRUCT})\n"
    )
    missed = share > MAX_SHARE_OF_HAND_WRITTEN or factor < MIN_SPEEDUP_OVER_CONSTRUCT
    return int(missed and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
