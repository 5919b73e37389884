"""Requests that the broker makes to itself, for commands."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkalite.control.command_table import CommandError, refusals_as_errors, running_cluster
from kafkalite.gateway.call import ConnectionContext
from kafkalite.ports import turns
from kafkalite.ports.waiting import Waiting

if TYPE_CHECKING:
    from kafkalite.cluster.node import Node
    from kafkalite.server.broker import Broker

_CLIENT_ID = "kafkalite"


async def answer_of(broker: Broker, request: Any, node: Node | None = None) -> Any:  # noqa: ANN401 - any API's classes
    """Return the response to a request in the structure of the latest version.

    The request has no faults, quotas and ACLs. Raises CommandError if it is refused.
    """
    cluster = running_cluster(broker)
    node = node or cluster.nodes[min(cluster.nodes)]
    api = broker.gateway.find_api(type(request).API_KEY)
    if api is None:
        raise CommandError(f"{type(request).__name__} is not served by this broker")
    version = api.versions.highest
    context = ConnectionContext(
        node=node,
        listener=next(iter(node.endpoints), "PLAINTEXT"),
        client_host="/127.0.0.1",
        sender=node,
        client_id=_CLIENT_ID,
    )
    era = None if api.eras is None else api.eras.at(version)
    call = context.call(version, era, 0)
    with refusals_as_errors():
        answer = turns.without_pauses(partial(api.handler, call, request))
        return await result_of(answer) if isinstance(answer, Waiting) else answer


async def result_of(answer: Waiting[Any]) -> Any:  # noqa: ANN401 - as above
    """Return what a Waiting is resolved with; raises it if it is an exception."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def on_arrival(value: object) -> None:
        if not future.done():
            future.set_result(value)

    answer.then(on_arrival)
    try:
        value = await future
    except asyncio.CancelledError:
        answer.abandon()
        raise
    if isinstance(value, Exception):
        raise value
    return value
