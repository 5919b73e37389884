"""The calls of this package, for tests and for the command line: `replay`, and what it takes."""

from __future__ import annotations

import asyncio
from os import PathLike
from typing import TYPE_CHECKING

from kafkalite.capture.reading import read
from kafkalite.control.address import control_url
from kafkalite.control.kafka_client import UnreachableError
from kafkalite.replay.explained import EXPLAINED
from kafkalite.replay.pace import ControlledClock, DrivenPace, RealPace
from kafkalite.replay.plan import steps
from kafkalite.replay.player import Player
from kafkalite.replay.target import Target
from kafkalite.server.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.replay.findings import Explained
    from kafkalite.replay.pace import TargetClock
    from kafkalite.replay.plan import Step
    from kafkalite.replay.report import ReplayReport

    Paths = str | PathLike[str] | Iterable[str | PathLike[str]]

DEFAULT_PATIENCE_S = 30.0


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
    patience_s: float = DEFAULT_PATIENCE_S,
    explained: Sequence[Explained] = EXPLAINED,
) -> ReplayReport:
    """Replay captures, files or directories, on the broker at `to`, `host:port`.

    `speed` is how many times as fast as it was recorded; by default as fast as the target answers.
    `clients` is a glob over client ids: only theirs is replayed. With `control`, the URL where a
    kafkalite is driven, or `clock`, the target's time is that of the capture, and days of it take
    seconds. An answer is waited for `patience_s` at most. `explained` are differences that are
    known, by default those between a real Kafka and kafkalite. ReplayError where the target is
    not there, or goes, and where there is nothing to replay.
    """
    return asyncio.run(
        replay_async(
            paths,
            to=to,
            speed=speed,
            clients=clients,
            clock=clock,
            control=control,
            patience_s=patience_s,
            explained=explained,
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
    patience_s: float = DEFAULT_PATIENCE_S,
    explained: Sequence[Explained] = EXPLAINED,
) -> ReplayReport:
    """Do as `replay` does, within a loop that is running."""
    controlled = None if control is None else ControlledClock(control_url(control))
    clock = controlled or clock
    pace = RealPace(speed) if clock is None else DrivenPace(clock)
    try:
        target = await Target.find(Address.parse(to.partition(",")[0]))
        player = Player(target, pace, patience_s=patience_s, explained=explained)
        report = await player.play(_steps(paths, player.report, clients))
    except UnreachableError as error:
        raise ReplayError(str(error)) from error
    except (OSError, TimeoutError) as error:
        told = getattr(error, "strerror", None) or str(error) or "it does not answer"
        raise ReplayError(f"the target at {to} is gone: {told.lower()}") from error
    finally:
        if controlled is not None:
            controlled.close()
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


def listed(paths: Paths) -> list[str | PathLike[str]]:
    """Return one path, or several, as a list."""
    return [paths] if isinstance(paths, str | PathLike) else list(paths)
