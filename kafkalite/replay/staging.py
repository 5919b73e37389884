"""Staging: a capture, and how it is to be played, made into a stage for a broker."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from kafkalite.capture.reading import exchanges, read
from kafkalite.replay.library import Library
from kafkalite.replay.seeding import Seed
from kafkalite.replay.standin import Lenient, StandIn, Strict

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.capture.model import Exchange, Problem
    from kafkalite.server.logging import Log
    from kafkalite.server.stage import Stage

MOST_BYTES: Final = 1024 * 1024 * 1024
"""All requests and responses of a capture that is played as a broker: they are kept in memory."""


class StagingError(Exception):
    """A capture that cannot be played; the text is one line for people."""


class Match(StrEnum):
    """How requests find their answers in a capture."""

    STRICT = "strict"
    """By position on a connection."""
    LENIENT = "lenient"
    """By meaning."""
    SEEDED = "seeded"
    """Not at all: a live broker begins with what the capture shows."""


class OnMiss(StrEnum):
    """What befalls a request that the capture has no answer to."""

    FAIL = "fail"
    """Its connection is closed, and the log says why."""
    LIVE = "live"
    """The live broker answers."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A stage, and the broker that it needs."""

    stage: Stage
    nodes: Sequence[int]
    """The recorded nodes, each of which needs one of ours to stand behind."""
    topics: Mapping[str, int]
    """Topics to have, name → partitions."""
    exchanges: int

    @property
    def topic_options(self) -> list[str]:
        """The topics as options say them."""
        return [f"{name}:{partitions}" for name, partitions in self.topics.items()]


def staged(
    paths: Iterable[str | os.PathLike[str]], match: Match, on_miss: OnMiss, log: Log
) -> Staged:
    """Read captures and make a stage of them; StagingError where there is nothing to play."""
    problems: list[Problem] = []
    said = _kept(exchanges(read(paths, problems.append), problems.append))
    if not said:
        why = f": {problems[0].file}: {problems[0].detail}" if problems else ""
        raise StagingError(f"no requests to replay in {', '.join(map(str, paths))}{why}")
    if problems:
        log.warning("the capture has problems", count=len(problems), first=problems[0].detail)
    said.sort(key=lambda each: each.sent_ns)
    library = Library.of(sorted(said, key=_known_at))
    nodes = sorted(library.nodes) or [0]
    if match is Match.SEEDED:
        seed = Seed(library, log)
        return Staged(seed, nodes, seed.topics(), len(said))
    source = Strict(said) if match is Match.STRICT else Lenient(said, library)
    stand_in = StandIn(source, nodes, log, is_live_on_miss=on_miss is OnMiss.LIVE)
    return Staged(stand_in, nodes, {}, len(said))


def _kept(found: Iterable[Exchange]) -> list[Exchange]:
    kept = []
    size = 0
    for exchange in found:
        size += len(exchange.request) + len(exchange.response or b"")
        if size > MOST_BYTES:
            raise StagingError(
                f"the capture holds more than {MOST_BYTES >> 30} GiB of requests and responses, "
                "too much to be kept in memory: give fewer files"
            )
        kept.append(exchange)
    return kept


def _known_at(exchange: Exchange) -> int:
    """Return when an exchange told what it tells: with its answer, where there was one."""
    return exchange.sent_ns if exchange.answered_ns is None else exchange.answered_ns
