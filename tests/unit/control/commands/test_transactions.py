"""Transactions over HTTP."""

from __future__ import annotations

import io

from kafkalite.config.typed_json import to_json
from kafkalite.control.commands.transactions import ListTransactions
from kafkalite.control.http import ControlApp
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.unit.control.asgi_client import ask
from tests.unit.control.ports import ANY_PORT
from tests.unit.control.test_transaction_reader import CONFIG, begin


async def test_transactions_are_listed_over_http() -> None:
    broker = Broker(Settings(listen=ANY_PORT, topics={"orders": 2}, config=CONFIG))
    await broker.start()
    try:
        await begin(broker, "shop")
        app = ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app
        answer = (await ask(app, "/v1/transactions")).body
        (shop,) = answer["transactions"]
        assert shop["partitions"] == [{"topic": "orders", "partitions": [0, 1]}]
        listed = to_json(await ListTransactions().perform(broker))
        assert [{**shop, "age_ms": 0}] == [{**listed["transactions"][0], "age_ms": 0}]
    finally:
        await broker.stop(grace_s=0)
