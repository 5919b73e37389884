"""`replay` and `replay_async`: replay captures on a broker and return the report."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalite.capture.model import ProblemKind
from kafkalite.capture.reading.captures import read
from kafkalite.client.client import KafkaClient
from kafkalite.client.connection import UnreachableError
from kafkalite.control.endpoint import find_endpoint
from kafkalite.lab.replay.loading import path_list
from kafkalite.lab.replay.options import ReplayOptions
from kafkalite.lab.replay.player.pacing import ControlledClock, DrivenPace, RealPace
from kafkalite.lab.replay.player.player import Player
from kafkalite.lab.replay.player.steps import steps
from kafkalite.lab.replay.player.target import Target
from kafkalite.server.addresses import Address
from kafkalite.server.logging import Log
from kafkalite.server.loop import new_event_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.replay.loading import Paths
    from kafkalite.lab.replay.player.steps import Step
    from kafkalite.lab.replay.report import ReplayReport

DEFAULTS = ReplayOptions()
_WHOLE_FILE_PROBLEMS = frozenset((ProblemKind.UNREADABLE, ProblemKind.NOT_A_CAPTURE))


class ReplayError(Exception):
    """A replay failed; the text is one line for users."""


class NothingToReplayError(ReplayError):
    """The captures have no request to replay, often because a path or pattern is wrong."""


def replay(paths: Paths, *, to: str, options: ReplayOptions = DEFAULTS) -> ReplayReport:
    """Replay captures on the broker at the address `to`, given as `host:port`.

    `paths` are files or directories. Raises ReplayError if the target is not reachable, and
    NothingToReplayError if the captures have no requests to replay.
    """
    with asyncio.Runner(loop_factory=partial(new_event_loop, Log())) as runner:
        return runner.run(replay_async(paths, to=to, options=options))


async def replay_async(paths: Paths, *, to: str, options: ReplayOptions = DEFAULTS) -> ReplayReport:
    """Like `replay`, in a running event loop."""
    controlled_clock = (
        None
        if options.control is None
        else ControlledClock(
            find_endpoint(options.control, options.control_token, options.control_authority)
        )
    )
    clock = controlled_clock or options.clock
    pace = RealPace(options.speed) if clock is None else DrivenPace(clock)
    bootstrap = Address.parse(to.partition(",")[0])
    _check_paths(paths)
    response_timeout_s = 2 * options.timeout_s
    try:
        async with KafkaClient(
            [bootstrap], options.access, response_timeout_s=response_timeout_s
        ) as client:
            target = await Target.discover(client, bootstrap)
            player = Player(target, pace, options)
            report = await player.play(_steps(paths, player.report, options.clients))
    except UnreachableError as error:
        raise ReplayError(str(error)) from error
    finally:
        if controlled_clock is not None:
            controlled_clock.close()
    if report.abort_reason is not None and not report.responses:
        raise ReplayError(f"cannot replay on {to}: {report.abort_reason}")
    if not report.requests and not report.skipped:
        raise NothingToReplayError(
            f"nothing to replay: {_reason_if_empty(paths, options.clients, report)}"
        )
    return report


def _check_paths(paths: Paths) -> None:
    """Raise NothingToReplayError if none of the paths exists, before connecting to the target."""
    missing: list[str] = []
    for path in path_list(paths):
        try:
            Path(path).stat()
        except OSError as error:
            missing.append(f"{path}: {error.strerror or error}")
        else:
            return
    if missing:
        raise NothingToReplayError(f"nothing to replay: {missing[0]}")


def _reason_if_empty(paths: Paths, clients: str | None, report: ReplayReport) -> str:
    for problem in report.problems:
        # With a client filter, a problem of single requests is not the reason for an empty result.
        if clients is None or problem.kind in _WHOLE_FILE_PROBLEMS:
            return f"{problem.file}: {problem.detail}"
    locations = ", ".join(map(str, path_list(paths)))
    of_clients = "" if clients is None else f" of clients {clients!r}"
    return f"there are no requests{of_clients} in {locations}"


def _steps(paths: Paths, report: ReplayReport, clients: str | None) -> Iterator[Step]:
    return steps(read(path_list(paths), report.add_problem), report.add_problem, clients=clients)
