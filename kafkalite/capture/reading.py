"""Captures read: files → what happened on every connection in them, in the order of time.

Nothing that a file holds raises: what is wrong is told as a `Problem`, and the rest goes on. Events
are held back only while something earlier may yet be told: bytes that a retransmission can bring,
a connection of which it is not known who is the broker.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from kafkalite.capture.dialogue import Setting
from kafkalite.capture.flows import Flows
from kafkalite.capture.framing import MAX_FRAME_BYTES
from kafkalite.capture.merging import segments
from kafkalite.capture.model import Frame
from kafkalite.capture.pairing import Pairing

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from kafkalite.capture.blocks import Reporter
    from kafkalite.capture.model import Event, Exchange, Problem

MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""How much is held back; beyond, what is missing is not waited for."""

_SWEEP_SEGMENTS: Final = 64
"""How often it is looked whether something has been waited for too long."""


def ignore(_: Problem) -> None:
    """Take a problem, and do nothing about it."""


def read(
    paths: Iterable[str | os.PathLike[str]],
    problems: Reporter,
    *,
    ports: Iterable[int] = (),
    max_frame_bytes: int = MAX_FRAME_BYTES,
) -> Iterator[Event]:
    """Yield the events of capture files, and of all files in directories.

    `ports` are those on which brokers listen; needed only where a capture starts within
    connections and so little follows that nothing else tells who the broker is.
    """
    setting = Setting(report=problems, ports=frozenset(ports), max_frame_bytes=max_frame_bytes)
    flows = Flows(setting)
    held = _Held()
    now_ns = 0
    for number, segment in enumerate(segments(paths, problems)):
        now_ns = segment.at_ns
        events = flows.take(segment)
        if events:
            if flows.low_ns is None and not held.is_any:
                # Nothing earlier can come: the usual case, and so there is no need to sort.
                yield from events if len(events) == 1 else sorted(events, key=_at_ns)
                continue
            held.add(events)
        if number % _SWEEP_SEGMENTS == 0 and flows.low_ns is not None:
            held.add(flows.sweep(now_ns, at_all=held.size > MAX_HELD_BYTES))
        if held.is_any:
            yield from held.up_to(flows.low_ns)
    held.add(flows.finish(now_ns))
    yield from held.up_to(None)


class _Held:
    """Events that wait for those before them."""

    __slots__ = ("_heap", "_number", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Event]] = []
        self._number = 0
        self.size = 0

    @property
    def is_any(self) -> bool:
        """Whether there are any."""
        return bool(self._heap)

    def add(self, events: Iterable[Event]) -> None:
        for event in events:
            heappush(self._heap, (event.at_ns, self._number, event))
            self._number += 1
            self.size += _size(event)

    def up_to(self, low_ns: int | None) -> Iterator[Event]:
        """Yield those before `low_ns`, all where it is None."""
        heap = self._heap
        while heap and (low_ns is None or heap[0][0] < low_ns):
            _, _, event = heappop(heap)
            self.size -= _size(event)
            yield event


def _at_ns(event: Event) -> int:
    return event.at_ns


def _size(event: Event) -> int:
    return len(event.body) if isinstance(event, Frame) else 0


def exchanges(events: Iterable[Event], problems: Reporter = ignore) -> Iterator[Exchange]:
    """Yield requests with their responses: when answered, or when no answer is due any more.

    What is neither, such as the bare tokens of SASL behind a SaslHandshake v0, is passed over.
    """
    pairing = Pairing(problems)
    for event in events:
        yield from pairing.take(event)
    yield from pairing.finish()
