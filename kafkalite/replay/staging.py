"""Staging: a capture, and how it is to be played, made into a stage for a broker."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NoReturn

from kafkalite.replay.library import READERS, Library
from kafkalite.replay.loading import known_at_ns, load, quiet
from kafkalite.replay.seeding import Seed
from kafkalite.replay.standin import Lenient, StandIn
from kafkalite.replay.strict import Strict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalite.capture.model import Exchange, Problem
    from kafkalite.server.logging import Log
    from kafkalite.server.stage import Stage

MOST_BYTES: Final = 1024 * 1024 * 1024
"""All requests and responses of a capture that is played as a broker: they are kept in memory."""


class StagingError(Exception):
    """A capture that cannot be played; the text is one line for people."""


class _Choice(StrEnum):
    """A word out of some; ValueError, which names them, for any other."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"{value!r} is none of {', '.join(cls)}")


class Match(_Choice):
    """How requests find their answers in a capture."""

    STRICT = "strict"
    """By position on a connection."""
    LENIENT = "lenient"
    """By meaning."""
    SEEDED = "seeded"
    """Not at all: a live broker begins with what the capture shows."""


class OnMiss(_Choice):
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
    paths: Iterable[str | os.PathLike[str]],
    match: Match,
    on_miss: OnMiss,
    log: Log,
    tell: Callable[[str], None] = quiet,
) -> Staged:
    """Read captures and make a stage of them; StagingError where there is nothing to play.

    `tell` is given a line now and then, where that takes long.
    """
    problems: list[Problem] = []
    # Nothing that is read here is garbage: to look for some would take longer and longer.
    with _without_collections():
        said = sorted(_bounded(load(paths, problems.append, tell)), key=_sent_ns)
        by_answer = sorted((each for each in said if each.api_key in READERS), key=known_at_ns)
        library = Library.of(by_answer)
    if not said:
        why = f": {problems[0].file}: {problems[0].detail}" if problems else ""
        raise StagingError(f"no requests to replay in {', '.join(map(str, paths))}{why}")
    if problems:
        log.warning("the capture has problems", count=len(problems), first=problems[0].detail)
    if len(library.clusters) > 1:
        # Topics, offsets and nodes of the same name are taken for the same.
        log.warning("the capture is of several clusters", clusters=sorted(library.clusters))
    nodes = sorted(library.nodes) or [0]
    if match is Match.SEEDED:
        seed = Seed(library, log)
        return Staged(seed, nodes, seed.topics(), len(said))
    source = Strict(said, library) if match is Match.STRICT else Lenient(said, library)
    stand_in = StandIn(source, nodes, log, is_live_on_miss=on_miss is OnMiss.LIVE)
    return Staged(stand_in, nodes, {}, len(said))


def _bounded(found: Iterable[Exchange]) -> Iterator[Exchange]:
    """Yield exchanges as they come; StagingError where they are too many to be kept."""
    size = 0
    for exchange in found:
        size += len(exchange.request) + len(exchange.response or b"")
        if size > MOST_BYTES:
            raise StagingError(
                f"the capture holds more than {MOST_BYTES >> 30} GiB of requests and responses, "
                "too much to be kept in memory: give fewer files"
            )
        yield exchange


@contextmanager
def _without_collections() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _sent_ns(exchange: Exchange) -> int:
    return exchange.sent_ns
