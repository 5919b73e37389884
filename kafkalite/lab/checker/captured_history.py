"""Histories from captures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.capture.reading.captures import exchanges, read
from kafkalite.capture.reading.messages import parse_request, parse_response
from kafkalite.lab.checker.collecting import Collector, Observation
from kafkalite.lab.checker.history import Client, Event, Proof
from kafkalite.protocol.errors import ProtocolViolation

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from kafkalite.capture.formats.capture_files import Reporter
    from kafkalite.capture.model import Exchange
    from kafkalite.lab.checker.history import History


def captured_history(
    paths: Iterable[str | os.PathLike[str]], problems: Reporter, *, ports: Iterable[int] = ()
) -> History:
    """Return the history that captures have; `ports` are those of brokers, as for `show`."""
    collector = Collector()
    for exchange in exchanges(read(paths, problems, ports=ports), problems):
        collector.add(observation(exchange))
    return collector.finish()


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
            ),
        ),
    )


def _decoded(parse: Callable[[Exchange], Any], exchange: Exchange) -> Any:  # noqa: ANN401 - any message
    try:
        return parse(exchange)
    except ProtocolViolation:
        return None
