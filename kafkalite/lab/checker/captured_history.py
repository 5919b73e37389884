"""Histories from captures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Gap
from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.capture.reading.messages import parse_request, parse_response
from kafkalite.lab.checker.collecting import Collector, Observation
from kafkalite.lab.checker.history import Client, Event, Loss, Proof
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from kafkalite.capture.formats.capture_files import Reporter
    from kafkalite.capture.model import Event as CaptureEvent
    from kafkalite.capture.model import Exchange
    from kafkalite.lab.checker.history import History


def captured_history(
    paths: Iterable[str | os.PathLike[str]], problems: Reporter, *, ports: Iterable[int] = ()
) -> History:
    """Return the history that captures have; `ports` are those of brokers, as for `show`."""
    collector = Collector()
    losses: list[Loss] = []
    events = _noting_losses(read(paths, problems, ports=ports), losses)
    for exchange in exchanges(events, problems):
        collector.add(observation(exchange))
    return replace(collector.finish(), losses=losses)


def _noting_losses(events: Iterable[CaptureEvent], losses: list[Loss]) -> Iterator[CaptureEvent]:
    """Yield the events, and add the missing bytes of each connection to `losses`."""
    latest_ns: dict[int, int] = {}
    for event in events:
        number = event.connection.number
        if isinstance(event, Gap):
            losses.append(Loss(latest_ns.get(number, 0), event.at_ns))
        else:
            latest_ns[number] = event.at_ns
        yield event


def observation(exchange: Exchange) -> Observation:
    """Return an exchange with decoded messages."""
    connection = exchange.connection
    return Observation(
        exchange.api_key,
        _decoded(parse_request, exchange),
        _decoded(parse_response, exchange),
        Event(
            client=Client(exchange.client_id or "", connection.client.host),
            connection=connection.number,
            sent_ns=exchange.sent_ns,
            answered_ns=exchange.answered_ns,
            broker=str(connection.broker),
            proof=Proof(
                exchange.file,
                exchange.offset,
                str(connection),
                exchange.position,
                exchange.correlation_id,
                exchange.sent_ns,
            ),
        ),
    )


def _decoded(parse: Callable[[Exchange], Any], exchange: Exchange) -> Any:  # noqa: ANN401 - any message
    try:
        return parse(exchange)
    except ProtocolViolation:
        return None
