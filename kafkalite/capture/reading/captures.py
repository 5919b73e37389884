"""Reading of captures: the events of all connections in time order, and exchanges.

Malformed files raise no exception: problems are reported as `Problem`, and reading continues.
Events are buffered only while an earlier event may still follow, because a retransmission may fill
a gap or the client side of a connection is unknown.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from kafkalite.capture.model import Frame
from kafkalite.capture.reading.conversation import CaptureContext
from kafkalite.capture.reading.flows import Flows
from kafkalite.capture.reading.framing import MAX_FRAME_BYTES
from kafkalite.capture.reading.merging import segments
from kafkalite.capture.reading.pairing import Pairing

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from kafkalite.capture.formats.capture_files import Reporter
    from kafkalite.capture.model import Event, Exchange, Problem

MAX_BUFFERED_BYTES: Final = 64 * 1024 * 1024
"""Maximum buffered bytes; beyond it, missing bytes are skipped."""

_SWEEP_SEGMENTS: Final = 64
"""Number of segments between checks for overdue gaps."""


def ignore(_: Problem) -> None:
    """Ignore a problem."""


def read(
    paths: Iterable[str | os.PathLike[str]],
    problems: Reporter,
    *,
    ports: Iterable[int] = (),
    max_frame_bytes: int = MAX_FRAME_BYTES,
) -> Iterator[Event]:
    """Yield the events of capture files, and of all files in directories.

    `ports` are those on which brokers listen. They are needed only if a capture starts within
    connections and has too few requests to recognise the broker's side.
    """
    context = CaptureContext(
        report=problems, ports=frozenset(ports), max_frame_bytes=max_frame_bytes
    )
    flows = Flows(context)
    buffered = _EventBuffer()
    now_ns = 0
    for number, segment in enumerate(segments(paths, problems)):
        now_ns = segment.at_ns
        events = flows.process(segment)
        if events:
            if flows.earliest_buffered_ns is None and not buffered.has_events:
                # Nothing earlier can follow, which is the usual case.
                yield from events if len(events) == 1 else sorted(events, key=_at_ns)
                continue
            buffered.add(events)
        if number % _SWEEP_SEGMENTS == 0 and flows.earliest_buffered_ns is not None:
            buffered.add(
                flows.skip_overdue_gaps(now_ns, is_forced=buffered.size > MAX_BUFFERED_BYTES)
            )
        if buffered.has_events:
            yield from buffered.pop_until(flows.earliest_buffered_ns)
    buffered.add(flows.finish(now_ns))
    yield from buffered.pop_until(None)


class _EventBuffer:
    """Events that wait for earlier ones, in time order."""

    __slots__ = ("_heap", "_number", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Event]] = []
        self._number = 0
        self.size = 0

    @property
    def has_events(self) -> bool:
        """Whether there are buffered events."""
        return bool(self._heap)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            heappush(self._heap, (event.at_ns, self._number, event))
            self._number += 1
            self.size += _size(event)

    def pop_until(self, until_ns: int | None) -> Iterator[Event]:
        """Yield the events before `until_ns`, all if it is None."""
        heap = self._heap
        while heap and (until_ns is None or heap[0][0] < until_ns):
            _, _, event = heappop(heap)
            self.size -= _size(event)
            yield event


def _at_ns(event: Event) -> int:
    return event.at_ns


def _size(event: Event) -> int:
    return len(event.body) if isinstance(event, Frame) else 0


def exchanges(events: Iterable[Event], problems: Reporter = ignore) -> Iterator[Exchange]:
    """Yield requests with their responses, in the order in which they are answered or expire.

    Frames that are neither, such as bare SASL tokens after SaslHandshake v0, are skipped.
    """
    pairing = Pairing(problems)
    for event in events:
        yield from pairing.process(event)
    yield from pairing.finish()
