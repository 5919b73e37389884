"""The calls of this package, for tests and for the command line: `replay`, and what it takes."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.capture.model import ProblemKind
from kafkalite.capture.reading import read
from kafkalite.control.address import control_url
from kafkalite.control.kafka_client import KafkaClient, UnreachableError
from kafkalite.replay.options import ReplayOptions
from kafkalite.replay.pace import ControlledClock, DrivenPace, RealPace
from kafkalite.replay.paths import listed
from kafkalite.replay.plan import steps
from kafkalite.replay.player import Player
from kafkalite.replay.target import Target
from kafkalite.server.addresses import Address
from kafkalite.server.logging import Log
from kafkalite.server.loop import new_event_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.replay.paths import Paths
    from kafkalite.replay.plan import Step
    from kafkalite.replay.report import ReplayReport

DEFAULTS = ReplayOptions()
_WITHOUT_REQUESTS = frozenset((ProblemKind.UNREADABLE, ProblemKind.NOT_A_CAPTURE))


class ReplayError(Exception):
    """A replay that cannot be; the text is one line for people."""


class NothingToReplayError(ReplayError):
    """Captures without a request to replay; most of all a path or pattern was meant otherwise."""


def replay(paths: Paths, *, to: str, options: ReplayOptions = DEFAULTS) -> ReplayReport:
    """Replay captures, files or directories, on the broker at `to`, `host:port`.

    ReplayError where the target is not there, and where there is nothing to replay.
    """
    with asyncio.Runner(loop_factory=partial(new_event_loop, Log())) as runner:
        return runner.run(replay_async(paths, to=to, options=options))


async def replay_async(paths: Paths, *, to: str, options: ReplayOptions = DEFAULTS) -> ReplayReport:
    """Do as `replay` does, within a loop that is running."""
    controlled = None if options.control is None else ControlledClock(control_url(options.control))
    clock = controlled or options.clock
    pace = RealPace(options.speed) if clock is None else DrivenPace(clock)
    bootstrap = Address.parse(to.partition(",")[0])
    _check(paths)
    answer_s = 2 * options.patience_s
    try:
        async with KafkaClient([bootstrap], options.access, answer_s=answer_s) as client:
            target = await Target.find(client, bootstrap)
            player = Player(target, pace, options)
            report = await player.play(_steps(paths, player.report, options.clients))
    except UnreachableError as error:
        raise ReplayError(str(error)) from error
    finally:
        if controlled is not None:
            controlled.close()
    if report.broken_off is not None and not report.responses:
        raise ReplayError(f"the target at {to} is of no use: {report.broken_off}")
    if not report.requests and not report.skipped:
        raise NothingToReplayError(
            f"nothing to replay: {_why_nothing(paths, options.clients, report)}"
        )
    return report


def _check(paths: Paths) -> None:
    """Raise NothingToReplayError where none of the paths is there, before the target is asked."""
    missing: list[str] = []
    for path in listed(paths):
        try:
            Path(path).stat()
        except OSError as error:
            missing.append(f"{path}: {error.strerror or error}")
        else:
            return
    if missing:
        raise NothingToReplayError(f"nothing to replay: {missing[0]}")


def _why_nothing(paths: Paths, clients: str | None, report: ReplayReport) -> str:
    for problem in report.problems:
        # Where clients are picked, what is wrong with a request or two is not why there are none.
        if clients is None or problem.kind in _WITHOUT_REQUESTS:
            return f"{problem.file}: {problem.detail}"
    where = ", ".join(map(str, listed(paths)))
    whose = "" if clients is None else f" of clients {clients!r}"
    return f"there are no requests{whose} in {where}"


def _steps(paths: Paths, report: ReplayReport, clients: str | None) -> Iterator[Step]:
    return steps(read(listed(paths), report.problem), report.problem, clients=clients)
