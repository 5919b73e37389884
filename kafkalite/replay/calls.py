"""The calls of this package, for tests and for the command line: `replay`, and what it takes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kafkalite.capture.reading import read
from kafkalite.control.access import OPEN
from kafkalite.control.address import control_url
from kafkalite.control.kafka_client import KafkaClient, UnreachableError
from kafkalite.replay.explained import EXPLAINED
from kafkalite.replay.pace import ControlledClock, DrivenPace, RealPace
from kafkalite.replay.paths import listed
from kafkalite.replay.patience import DEFAULT_S
from kafkalite.replay.plan import steps
from kafkalite.replay.player import Player, quiet
from kafkalite.replay.target import Target
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.control.access import Access
    from kafkalite.replay.findings import Explained
    from kafkalite.replay.pace import TargetClock
    from kafkalite.replay.paths import Paths
    from kafkalite.replay.plan import Step
    from kafkalite.replay.report import ReplayReport


class ReplayError(Exception):
    """A replay that cannot be; the text is one line for people."""


class NothingToReplayError(ReplayError):
    """Captures without a request to replay; most of all a path or pattern was meant otherwise."""


def replay(
    paths: Paths,
    *,
    to: str,
    speed: float | None = None,
    clients: str | None = None,
    clock: TargetClock | None = None,
    control: str | None = None,
    access: Access = OPEN,
    patience_s: float = DEFAULT_S,
    explained: Sequence[Explained] = EXPLAINED,
    progress: Callable[[ReplayReport, int], None] = quiet,
) -> ReplayReport:
    """Replay captures, files or directories, on the broker at `to`, `host:port`.

    `speed` is how many times as fast as it was recorded; by default as fast as the target answers.
    `clients` is a glob over client ids: only theirs is replayed. With `control`, the URL where a
    kafkalite is driven, or `clock`, the target's time is that of the capture, and days of it take
    seconds. `access` is what it takes to be let in. An answer is waited for `patience_s` longer
    than it took when it was recorded. `explained` are differences that are known, by default those
    between a real Kafka and kafkalite. `progress` is told now and then of the report so far, and
    of the time in the capture. ReplayError where the target is not there, and where there is
    nothing to replay.
    """
    return asyncio.run(
        replay_async(
            paths,
            to=to,
            speed=speed,
            clients=clients,
            clock=clock,
            control=control,
            access=access,
            patience_s=patience_s,
            explained=explained,
            progress=progress,
        )
    )


async def replay_async(
    paths: Paths,
    *,
    to: str,
    speed: float | None = None,
    clients: str | None = None,
    clock: TargetClock | None = None,
    control: str | None = None,
    access: Access = OPEN,
    patience_s: float = DEFAULT_S,
    explained: Sequence[Explained] = EXPLAINED,
    progress: Callable[[ReplayReport, int], None] = quiet,
) -> ReplayReport:
    """Do as `replay` does, within a loop that is running."""
    controlled = None if control is None else ControlledClock(control_url(control))
    clock = controlled or clock
    pace = RealPace(speed) if clock is None else DrivenPace(clock)
    bootstrap = Address.parse(to.partition(",")[0])
    try:
        async with KafkaClient([bootstrap], access, answer_s=2 * patience_s) as client:
            target = await Target.find(client, bootstrap)
            player = Player(
                target,
                pace,
                patience_s=patience_s,
                explained=explained,
                access=access,
                progress=progress,
            )
            report = await player.play(_steps(paths, player.report, clients))
    except UnreachableError as error:
        raise ReplayError(str(error)) from error
    finally:
        if controlled is not None:
            controlled.close()
    if report.broken_off is not None and not report.responses:
        raise ReplayError(f"the target at {to} is of no use: {report.broken_off}")
    if not report.requests and not report.skipped:
        raise NothingToReplayError(f"nothing to replay: {_why_nothing(paths, clients, report)}")
    return report


def _why_nothing(paths: Paths, clients: str | None, report: ReplayReport) -> str:
    if report.problems:
        first = report.problems[0]
        return f"{first.file}: {first.detail}"
    where = ", ".join(map(str, listed(paths)))
    whose = "" if clients is None else f" of clients {clients!r}"
    return f"there are no requests{whose} in {where}"


def _steps(paths: Paths, report: ReplayReport, clients: str | None) -> Iterator[Step]:
    return steps(read(listed(paths), report.problem), report.problem, clients=clients)
