"""A console over a running broker, as a browser sees it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from kafkalite.control.console.access import Endpoint
from kafkalite.control.console.app import ConsoleApp
from kafkalite.control.console.live_source import LiveSource
from kafkalite.control.internal_requests import answer_of
from kafkalite.gateway.call import ConnectionContext
from kafkalite.ports.clock import AdjustableClock
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.unit.control.asgi_client import ask_for_text
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT
from tests.unit.exchanges import end, new_exchange

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.unit.control.asgi_client import Answer

NOW_MS = 1_700_000_000_000
HOSTILE = "<script>alert(1)</script>\"'&\u202e\x00"
"""A name that must not become markup."""
ORIGIN = "http://127.0.0.1:9097"
FORM = {"content-type": "application/x-www-form-urlencoded", "origin": ORIGIN}


class ServedConsole:
    """The console of a broker."""

    def __init__(
        self,
        broker: Broker,
        clock: AdjustableClock,
        endpoint: Endpoint,
        schema_registry_url: str | None = None,
    ) -> None:
        self.broker = broker
        self.clock = clock
        self.members = Members(broker)
        self.source = LiveSource(broker)
        self.app = ConsoleApp(self.source, endpoint, schema_registry_url=schema_registry_url).app

    async def get(self, path: str, status: int = 200, **fields: object) -> str:
        """Return a page."""
        query = f"?{urlencode(fields)}" if fields else ""
        answer = await ask_for_text(self.app, f"/console{path}{query}")
        assert answer.status == status, answer
        text: str = answer.body
        return text

    def log(
        self,
        request: Any,  # noqa: ANN401 - of any API
        response: Any = None,  # noqa: ANN401 - as above
        client_id: str = "app",
        fault: str | None = None,
        version: int = 4,
        *,
        identity: str = "alice",
    ) -> None:
        """Log a request with its answer; `identity` is the user and the library of the client."""
        context = ConnectionContext(
            node=self.members.cluster.nodes[1],
            listener="PLAINTEXT",
            client_host="/127.0.0.1",
            client_id=client_id,
            principal=f"User:{identity}",
        )
        context.client_software = (identity, identity)
        exchange = new_exchange(context, request, version)
        if fault is not None:
            exchange.note_fault(fault)
        self.broker.request_log.observe(end(exchange, response))

    async def begin_transaction(self, name: str) -> None:
        """Initialize a producer, which then begins a transaction in a partition."""
        self.members.cluster.transactions.ensure_topic()
        producer = await answer_of(
            self.broker, InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        )
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
        transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[topic],
        )
        await answer_of(self.broker, AddPartitionsToTxnRequest(transactions=[transaction]))

    async def post(self, path: str, /, **fields: object) -> Answer:
        """Send a form."""
        body = urlencode(fields).encode()
        return await ask_for_text(
            self.app, f"/console{path}", method="POST", body=body, headers=FORM
        )


@asynccontextmanager
async def served_console(
    endpoint: Endpoint | None = None, *, brokers: int = 1, schema_registry_url: str | None = None
) -> AsyncIterator[ServedConsole]:
    """Serve a console over a broker in memory with the topic `orders`, at a stopped time."""
    clock = AdjustableClock(rate=0, now_ms=NOW_MS)
    settings = Settings(
        listen=ANY_PORT, topics={TOPIC: 2}, config=CONFIG, brokers=brokers, is_in_memory=True
    )
    broker = Broker(settings, clock=clock)
    await broker.start()
    try:
        yield ServedConsole(broker, clock, endpoint or Endpoint(), schema_registry_url)
    finally:
        await broker.stop(grace_s=0)
