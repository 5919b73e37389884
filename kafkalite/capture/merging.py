"""Several capture files as one: in the order of time, with few of them open at once.

The files of one ring follow each other; those of several machines, or interfaces, overlap.
"""

from __future__ import annotations

import os
import stat
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.capture import classic, sections
from kafkalite.capture.blocks import window
from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.packets import Dissector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.capture.blocks import Packet, Reporter, Window
    from kafkalite.capture.packets import Segment

_MAGIC_BYTES: Final = 4


class _Source(NamedTuple):
    """A capture file that is being read, by its next packet."""

    at_ns: int
    path: str
    packet: Packet
    rest: Iterator[Packet]
    dissector: Dissector


def segments(paths: Iterable[str | os.PathLike[str]], report: Reporter) -> Iterator[Segment]:
    """Return the segments of capture files, directories of them included, in order of time."""
    waiting = sorted(_dated(capture_files(paths, report), report), reverse=True)
    opened: list[_Source] = []
    while waiting or opened:
        while waiting and (not opened or waiting[-1][0] <= opened[0].at_ns):
            _, path = waiting.pop()
            _continue(opened, path, packets(path, report), Dissector(path, report))
        if not opened:
            continue
        _, path, packet, rest, dissector = heappop(opened)
        segment = dissector.segment(packet)
        if segment is not None:
            yield segment
        others = [opened[0].at_ns] if opened else []
        others += [waiting[-1][0]] if waiting else []
        until = min(others, default=None)
        # As long as no other file has anything earlier, this one goes on alone.
        for packet in rest:
            if until is not None and packet.at_ns >= until:
                heappush(opened, _Source(packet.at_ns, path, packet, rest, dissector))
                break
            segment = dissector.segment(packet)
            if segment is not None:
                yield segment


def _continue(
    opened: list[_Source], path: str, rest: Iterator[Packet], dissector: Dissector
) -> None:
    packet = next(rest, None)
    if packet is not None:
        heappush(opened, _Source(packet.at_ns, path, packet, rest, dissector))


def packets(path: str, report: Reporter) -> Iterator[Packet]:
    """Return the packets of one capture file."""
    try:
        # To open a pipe is to wait for somebody who may never come.
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - paths are plain text here
            report(_unreadable(path, "not a file but a pipe, a socket or a device"))
            return
        with window(path, report) as view:
            yield from _container(view)
    except OSError as error:
        report(_unreadable(path, error.strerror or str(error)))


def _unreadable(path: str, detail: str) -> Problem:
    return Problem(
        kind=ProblemKind.UNREADABLE, file=path, offset=None, connection=None, detail=detail
    )


def _container(view: Window) -> Iterator[Packet]:
    view.has(_MAGIC_BYTES)
    magic = view.buffer[:_MAGIC_BYTES]
    if magic == sections.MAGIC:
        return sections.packets(view)
    if magic in classic.MAGICS:
        return classic.packets(view)
    view.tell(ProblemKind.NOT_A_CAPTURE, _what_instead(magic))
    return iter(())


def _what_instead(magic: bytes) -> str:
    return f"neither pcap nor pcapng: begins with {magic.hex()}" if magic else "an empty file"


def _dated(files: Iterable[str], report: Reporter) -> Iterator[tuple[int, str]]:
    """Return the files by the time of their first packet; those without a packet are left out."""
    for path in files:
        found: list[Problem] = []
        first = next(packets(path, found.append), None)
        if first is None:
            for problem in found:
                report(problem)
        else:
            yield first.at_ns, path


def capture_files(paths: Iterable[str | os.PathLike[str]], report: Reporter) -> list[str]:
    """Return every file once, those below directories included; hidden ones are none of ours."""
    found: dict[str, None] = {}

    def tell(error: OSError) -> None:
        report(_unreadable(os.fsdecode(error.filename), error.strerror or str(error)))

    for path in [os.fspath(each) for each in paths]:
        if not os.path.isdir(path):  # noqa: PTH112 - paths are plain text here
            found[path] = None
            continue
        for directory, below, names in os.walk(path, onerror=tell):
            below[:] = sorted(name for name in below if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    found[f"{directory.rstrip('/')}/{name}"] = None
    return list(found)
