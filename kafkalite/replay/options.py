"""How a capture is replayed on a broker: what may be chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.control.access import OPEN
from kafkalite.replay.explained import EXPLAINED
from kafkalite.replay.patience import DEFAULT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.control.access import Access
    from kafkalite.replay.findings import Explained
    from kafkalite.replay.pace import TargetClock
    from kafkalite.replay.report import ReplayReport


def quiet(report: ReplayReport, at_ns: int) -> None:
    """Tell nobody how far a replay is."""
    del report, at_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How a capture is replayed; by default all of it, as fast as the target answers."""

    speed: float | None = None
    """How many times as fast as it was recorded; None for as fast as the target answers."""
    clients: str | None = None
    """A glob over client ids: only theirs is replayed."""
    control: str | None = None
    """The URL where a kafkalite is driven: its time becomes the capture's, days take seconds."""
    clock: TargetClock | None = None
    """The target's clock, to the same end, where it is at hand."""
    access: Access = OPEN
    """What it takes to be let in."""
    patience_s: float = DEFAULT_S
    """How many seconds longer than recorded an answer may take."""
    explained: Sequence[Explained] = EXPLAINED
    """Differences that are known; by default those between a real Kafka and kafkalite."""
    progress: Callable[[ReplayReport, int], None] = quiet
    """Told now and then of the report so far, and of the time in the capture, in ns."""
