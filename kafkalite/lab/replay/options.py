"""`ReplayOptions`: the options for replaying a capture on a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.client.access import PLAINTEXT
from kafkalite.lab.replay.comparison.known_differences import EXPLAINED
from kafkalite.lab.replay.player.timeouts import DEFAULT_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.client.access import Access
    from kafkalite.lab.replay.comparison.findings import ExplainedDifference
    from kafkalite.lab.replay.player.pacing import TargetClock
    from kafkalite.lab.replay.report import ReplayReport


def ignore_progress(report: ReplayReport, at_ns: int) -> None:
    """Do nothing with the progress of a replay."""
    del report, at_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Options for replaying a capture; by default all of it, as fast as the target answers."""

    speed: float | None = None
    """Speed relative to the recording, such as 10.0; None for as fast as the target answers."""
    clients: str | None = None
    """A glob for client ids; requests of other clients are skipped."""
    control: str | None = None
    """The control URL of a kafkalite target. Its clock is set to the recorded times, so that a
    capture of days is replayed in seconds."""
    control_token: str | None = field(default=None, repr=False)
    """The token of the control API, or @FILE; None for that of a local broker, if it has one."""
    control_authority: str | None = None
    """File with the authorities that certify the control API; None for those of a local broker or
    of the system."""
    clock: TargetClock | None = None
    """The target's clock, used like `control` for a target in the same process."""
    access: Access = PLAINTEXT
    """TLS and SASL credentials for the target."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    """Maximum time in seconds that a response may take beyond its recorded duration."""
    explained: Sequence[ExplainedDifference] = EXPLAINED
    """Known differences with their reasons; by default those between Kafka and kafkalite."""
    progress: Callable[[ReplayReport, int], None] = ignore_progress
    """Called from time to time with the report so far and the time in the capture in ns."""
