"""The options of `kafkalite serve` that make it a cluster that was recorded."""

from __future__ import annotations

from os.path import realpath
from typing import TYPE_CHECKING

from kafkalite.cli.ending import complain

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from kafkalite.replay.staging import Staged
    from kafkalite.server.logging import Log

_MATCHES = ("strict", "lenient", "seeded")
_ON_MISS = ("fail", "live")
"""As in `kafkalite.replay.staging`, which a broker without a capture does not import."""


def add_staging_options(parser: ArgumentParser) -> None:
    """Let `parser` take what is to be replayed, and how."""
    parser.add_argument(
        "--replay",
        metavar="DIR",
        action="append",
        help="be the cluster that this capture shows, a file or a directory; may be repeated [off]",
    )
    parser.add_argument(
        "--match",
        choices=_MATCHES,
        help="with --replay: answer by position on a connection, or by meaning; or begin with the "
        "capture's topics, records and commits, and then live [strict]",
    )
    parser.add_argument(
        "--on-miss",
        choices=_ON_MISS,
        help="with --replay: close the connection of a request that the capture has no answer to, "
        "or let the live broker answer [fail]",
    )


def told_of(asked: Namespace) -> str:
    """Say in a few words which capture is replayed, and how."""
    where = ", ".join(asked.replay)
    match = asked.match or _MATCHES[0]
    return f"begun with {where}" if match == "seeded" else f"answering from {where}, {match}"


def staged_from(asked: Namespace, log: Log) -> Staged | None:
    """Return what is asked to be replayed, if anything; SettingsError when that cannot be."""
    from kafkalite.server.settings import SettingsError  # noqa: PLC0415 - `--help` needs no broker

    if not asked.replay:
        for option, value in (("--match", asked.match), ("--on-miss", asked.on_miss)):
            if value is not None:
                raise SettingsError(f"{option} needs --replay, which says what to replay")
        return None
    if asked.match == "seeded" and asked.on_miss is not None:
        raise SettingsError("--on-miss: a seeded broker answers everything itself")
    recorded_to = getattr(asked, "capture", None)
    if recorded_to is not None and realpath(recorded_to) in map(realpath, asked.replay):
        raise SettingsError("--capture: what is recorded would be replayed the next time")
    from kafkalite.replay.staging import Match, OnMiss, StagingError, staged  # noqa: PLC0415

    match, on_miss = Match(asked.match or Match.STRICT), OnMiss(asked.on_miss or OnMiss.FAIL)
    try:
        return staged(asked.replay, match, on_miss, log, complain)
    except StagingError as error:
        raise SettingsError(f"--replay: {error}") from error
