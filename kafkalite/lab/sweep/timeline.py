"""Time lines: requests, refusals, rebalances and other events of one run, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.capture.reading.messages import error_name
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.catalogue import row
from kafkalite.protocol.codec import api_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalite.gateway.exchanges import Exchange
    from kafkalite.lab.sweep.requests import RequestRecorder
    from kafkalite.testing.broker import Broker

_MAX_MOMENTS: Final = 400
"""The number of moments of a time line, the latest ones."""
REQUEST: Final = "request"
_AFTER: Final = " after "
_MS_PER_S: Final = 1000
_NAMED: Final = (Entity.GROUP, Entity.TRANSACTIONAL_ID, Entity.TOPIC)


class Moment(NamedTuple):
    """A request, or an event."""

    at_ms: int
    """Milliseconds since the first request, by the clock of the broker."""
    kind: str
    """"request", "failure" for the one that failed, or the kind of an event of `explain`."""
    text: str


def timeline(
    cluster: Broker, recorder: RequestRecorder, count: int | None = None
) -> tuple[Moment, ...]:
    """Return what happened in a cluster, with `count` requests, at most the latest 400 moments."""
    exchanges = recorder.exchanges()[:count]
    moments = [*_without_repeated_polls(exchanges)]
    moments += [Moment(each.at_ms, each.kind, each.text) for each in cluster.explain(limit=1000)]
    moments.sort(key=lambda each: each.at_ms)
    return since_first(moments[-_MAX_MOMENTS:], exchanges[0].received_ms if exchanges else 0)


def _without_repeated_polls(exchanges: Iterable[Exchange]) -> Iterator[Moment]:
    """Yield a moment for each request, and for equal polls without another request one together.

    A client that waits sends nothing but polls.
    """
    polls: dict[str, list[Moment]] = {}
    for exchange in exchanges:
        moment = _moment(exchange)
        if row(exchange.api_key).is_polled and moment.kind == REQUEST:
            polls.setdefault(moment.text.partition(_AFTER)[0], []).append(moment)
        else:
            yield from _joined(polls)
            polls = {}
            yield moment
    yield from _joined(polls)


def _joined(polls: Mapping[str, Sequence[Moment]]) -> Iterator[Moment]:
    for text, equal in polls.items():
        first, last = equal[0], equal[-1]
        if len(equal) == 1:
            yield first
        else:
            seconds = (last.at_ms - first.at_ms) / _MS_PER_S
            yield first._replace(text=f"{text} ({len(equal)} times in {seconds:.1f} s)")


def since_first(moments: Iterable[Moment], first_ms: int) -> tuple[Moment, ...]:
    """Return moments with their time after another one."""
    return tuple(each._replace(at_ms=max(0, each.at_ms - first_ms)) for each in moments)


def _moment(exchange: Exchange) -> Moment:
    names = [name for entity in _NAMED for name in exchange.names(entity)]
    errors = [error_name(code) for code in exchange.error_codes() or ()]
    outcome = " ".join(errors) or exchange.closing_reason or "ok"
    if exchange.answered_ms is None:
        outcome = "no answer"
    elif exchange.answered_ms > exchange.received_ms:
        outcome += f"{_AFTER}{exchange.answered_ms - exchange.received_ms} ms"
    words = [
        exchange.client_id or "a client without id",
        f"{api_name(exchange.api_key)} v{exchange.version} to node {exchange.node.id}",
        *names,
    ]
    kind = REQUEST if exchange.fault is None else "failure"
    return Moment(exchange.received_ms, kind, f"{' '.join(words)}: {outcome}")
