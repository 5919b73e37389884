"""Reads captures, and prepares a stand-in or a seeded broker from them."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NoReturn

from kafkalite.lab.replay.loading import end_ns, ignore_progress, load
from kafkalite.lab.replay.standin.recorded_cluster import LEARN_METHODS, RecordedCluster
from kafkalite.lab.replay.standin.seeding import Seed
from kafkalite.lab.replay.standin.standin import LenientMatcher, StandIn
from kafkalite.lab.replay.standin.strict import StrictMatcher

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafkalite.capture.model import Exchange, Problem
    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log

MAX_BYTES: Final = 1024 * 1024 * 1024
"""Maximum total size of a capture's messages, because a stand-in holds them in memory."""


class PreparationError(Exception):
    """A capture cannot be used; the text is one line for users."""


class _Choice(StrEnum):
    """An enum of option values. An unknown value raises ValueError with the allowed values."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"{value!r} is not one of {', '.join(cls)}")


class Match(_Choice):
    """The way in which a broker uses a capture."""

    STRICT = "strict"
    """A request gets the response to the recorded request at the same position on a connection."""
    LENIENT = "lenient"
    """A request gets the response to a similar recorded request."""
    SEEDED = "seeded"
    """A live broker starts with the topics, records and committed offsets of the capture."""


class OnMiss(_Choice):
    """The handling of a request that has no response in the capture."""

    FAIL = "fail"
    """Its connection is closed, and the reason is logged."""
    LIVE = "live"
    """The live broker answers it."""


@dataclass(frozen=True, slots=True)
class PreparedCapture:
    """The contents of a capture, and the nodes and topics that a broker needs for them."""

    source: StandIn | Seed
    nodes: Sequence[int]
    """Ids of the recorded nodes; the broker needs as many nodes."""
    topics: Mapping[str, int]
    """Topics to create, name → number of partitions."""
    exchanges: int

    def prepare(self, broker: Broker) -> None:
        """Prepare a broker that does not accept clients yet."""
        if isinstance(self.source, Seed):
            assert broker.cluster is not None
            self.source.fill(broker.cluster)
        else:
            broker.gateway.install_responder(self.source)

    @property
    def topic_options(self) -> list[str]:
        """The topics as values of the option for topics, `name:partitions`."""
        return [f"{name}:{partitions}" for name, partitions in self.topics.items()]


def prepare_capture(
    paths: Iterable[str | os.PathLike[str]],
    match: Match,
    on_miss: OnMiss,
    log: Log,
    progress: Callable[[str], None] = ignore_progress,
) -> PreparedCapture:
    """Read captures; raises PreparationError if they have no requests or too many for memory.

    `progress` is called with a line of text from time to time.
    """
    problems: list[Problem] = []
    # All objects created here stay in use, so garbage collection would be slow and free nothing.
    with _without_garbage_collection():
        exchanges = sorted(_check_size(load(paths, problems.append, progress)), key=_sent_ns)
        in_response_order = sorted(
            (exchange for exchange in exchanges if exchange.api_key in LEARN_METHODS),
            key=end_ns,
        )
        recorded_cluster = RecordedCluster.from_exchanges(in_response_order)
    if not exchanges:
        reason = f": {problems[0].file}: {problems[0].detail}" if problems else ""
        raise PreparationError(f"no requests to replay in {', '.join(map(str, paths))}{reason}")
    if problems:
        log.warning("the capture has problems", count=len(problems), first=problems[0].detail)
    if len(recorded_cluster.cluster_ids) > 1:
        # Topics, groups and nodes of the same name are treated as one.
        log.warning(
            "the capture is of several clusters", clusters=sorted(recorded_cluster.cluster_ids)
        )
    nodes = sorted(recorded_cluster.node_ids) or [0]
    if match is Match.SEEDED:
        seed = Seed(recorded_cluster, log)
        return PreparedCapture(seed, nodes, seed.topics(), len(exchanges))
    matcher: StrictMatcher | LenientMatcher
    if match is Match.STRICT:
        matcher = StrictMatcher(exchanges, recorded_cluster)
    else:
        matcher = LenientMatcher(exchanges, recorded_cluster)
    stand_in = StandIn(matcher, nodes, log, is_live_on_miss=on_miss is OnMiss.LIVE)
    return PreparedCapture(stand_in, nodes, {}, len(exchanges))


def _check_size(exchanges: Iterable[Exchange]) -> Iterator[Exchange]:
    """Yield exchanges; raises PreparationError if they are too large for memory."""
    size = 0
    for exchange in exchanges:
        size += len(exchange.request) + len(exchange.response or b"")
        if size > MAX_BYTES:
            raise PreparationError(
                f"the capture holds more than {MAX_BYTES >> 30} GiB of requests and responses, "
                "too much to hold in memory; use fewer files"
            )
        yield exchange


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _sent_ns(exchange: Exchange) -> int:
    return exchange.sent_ns
