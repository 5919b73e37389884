"""Common parts of the recorder's tests: endpoints, and captures read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.capture.model import Endpoint, Frame
from kafkalite.capture.reading.captures import read

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.capture.model import Event, Problem

CLIENT = Endpoint("127.0.0.1", 40_000)
BROKER = Endpoint("127.0.0.1", 9092)


def events_of(directory: Path) -> list[Event]:
    """Return the events of a capture without problems."""
    problems: list[Problem] = []
    found = list(read([str(directory)], problems.append))
    assert problems == []
    return found


def frames_of(directory: Path) -> list[bytes]:
    """Return the bodies of a capture's frames in time order."""
    return [event.body for event in events_of(directory) if isinstance(event, Frame)]
