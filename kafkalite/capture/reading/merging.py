"""Merges capture files by time, with few of them open at once.

Files of one rotation follow each other in time; files of several machines or interfaces overlap.
"""

from __future__ import annotations

import os
import stat
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from kafkalite.capture.formats import pcap, pcapng_reader
from kafkalite.capture.formats.capture_files import open_window
from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.reading.packets import Dissector
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.capture.formats.capture_files import Packet, Reporter, Window
    from kafkalite.capture.reading.packets import Segment

_MAGIC_BYTES: Final = 4


class _Source(NamedTuple):
    """An open capture file, with its next packet."""

    at_ns: int
    path: str
    packet: Packet
    remaining_packets: Iterator[Packet]
    dissector: Dissector


def segments(paths: Iterable[str | os.PathLike[str]], report: Reporter) -> Iterator[Segment]:
    """Yield the segments of capture files and directories of them, in time order."""
    unopened_files = sorted(
        _first_packet_times(find_capture_files(paths, report), report), reverse=True
    )
    open_sources: list[_Source] = []
    while unopened_files or open_sources:
        while unopened_files and (
            not open_sources or unopened_files[-1][0] <= open_sources[0].at_ns
        ):
            _, path = unopened_files.pop()
            _push_next(open_sources, path, packets(path, report), Dissector(path, report))
        if not open_sources:
            continue
        _, path, packet, remaining_packets, dissector = heappop(open_sources)
        segment = dissector.extract_segment(packet)
        if segment is not None:
            yield segment
        next_times = [open_sources[0].at_ns] if open_sources else []
        next_times += [unopened_files[-1][0]] if unopened_files else []
        until_ns = min(next_times, default=None)
        # Read on from this file while no other file has an earlier packet.
        for packet in remaining_packets:
            if until_ns is not None and packet.at_ns >= until_ns:
                heappush(
                    open_sources, _Source(packet.at_ns, path, packet, remaining_packets, dissector)
                )
                break
            segment = dissector.extract_segment(packet)
            if segment is not None:
                yield segment


def _push_next(
    open_sources: list[_Source],
    path: str,
    remaining_packets: Iterator[Packet],
    dissector: Dissector,
) -> None:
    packet = next(remaining_packets, None)
    if packet is not None:
        heappush(open_sources, _Source(packet.at_ns, path, packet, remaining_packets, dissector))


def packets(path: str, report: Reporter) -> Iterator[Packet]:
    """Return the packets of one capture file."""
    try:
        # Opening a pipe would block until a process opens it for writing.
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - paths are plain text here
            report(_unreadable_problem(path, "not a file but a pipe, a socket or a device"))
            return
        with open_window(path, report) as window:
            yield from _read_packets(window)
    except OSError as error:
        report(_unreadable_problem(path, error.strerror or str(error)))


def _unreadable_problem(path: str, detail: str) -> Problem:
    return Problem(
        kind=ProblemKind.UNREADABLE, file=path, offset=None, connection=None, detail=detail
    )


def _read_packets(window: Window) -> Iterator[Packet]:
    window.buffer_bytes(_MAGIC_BYTES)
    magic = window.buffer[:_MAGIC_BYTES]
    if magic == pcapng_reader.MAGIC:
        return pcapng_reader.packets(window)
    if magic in pcap.MAGICS:
        return pcap.packets(window)
    window.report(ProblemKind.NOT_A_CAPTURE, _reason_not_capture(magic))
    return iter(())


def _reason_not_capture(magic: bytes) -> str:
    return f"neither pcap nor pcapng: begins with {magic.hex()}" if magic else "an empty file"


def _first_packet_times(paths: Iterable[str], report: Reporter) -> Iterator[tuple[int, str]]:
    """Yield the time of the first packet and the path, for each file that has packets."""
    for path in paths:
        problems: list[Problem] = []
        first = next(packets(path, problems.append), None)
        if first is None:
            for problem in problems:
                report(problem)
        else:
            yield first.at_ns, path


def find_capture_files(paths: Iterable[str | os.PathLike[str]], report: Reporter) -> list[str]:
    """Return the given files and the files in the given directories, each once.

    Subdirectories are searched. Hidden files in directories are skipped.
    """
    files: dict[str, None] = {}

    def report_error(error: OSError) -> None:
        report(_unreadable_problem(os.fsdecode(error.filename), error.strerror or str(error)))

    for path in [os.fspath(each) for each in paths]:
        if not os.path.isdir(path):  # noqa: PTH112 - paths are plain text here
            files[path] = None
            continue
        for directory, subdirectories, names in os.walk(path, onerror=report_error):
            subdirectories[:] = sorted(name for name in subdirectories if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    files[f"{directory.rstrip('/')}/{name}"] = None
    return list(files)
