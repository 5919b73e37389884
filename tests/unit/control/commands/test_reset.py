"""The reset of a broker over HTTP."""

from __future__ import annotations

import io

import pytest

from kafkalite.control.command_table import CommandError, row_of
from kafkalite.control.commands.reset import ResetAnswer, ResetBroker
from kafkalite.control.http import ControlApp
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.unit.control.asgi_client import ask
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT

HEADERS = {"content-type": "application/json"}


async def test_a_broker_is_reset_over_http() -> None:
    broker = Broker(Settings(listen=ANY_PORT, topics={TOPIC: 1}, config=CONFIG))
    await broker.start()
    try:
        app = ControlApp(broker, Log(Level.ERROR, "json", io.StringIO()), None).app
        await Members(broker).commit("shop", 1)
        answers = [
            await ask(app, "/v1/reset", method="POST", headers=HEADERS, body=body)
            for body in (b'{"groups": "x*"}', b"{}")
        ]
        assert [each.body for each in answers] == [
            {
                "deleted_topics": [],
                "created_topics": [],
                "deleted_groups": [],
                "deleted_transactional_ids": [],
            },
            {
                "deleted_topics": [TOPIC],
                "created_topics": [TOPIC],
                "deleted_groups": ["shop"],
                "deleted_transactional_ids": [],
            },
        ]
        refused = await ask(
            app, "/v1/reset", method="POST", headers=HEADERS, body=b'{"topic": "a"}'
        )
        assert refused.body == {
            "error": "the body has no field 'topic'; its fields are topics, groups"
        }
    finally:
        await broker.stop(grace_s=0)


@pytest.mark.parametrize("name", ["topics", "groups"])
def test_a_pattern_has_a_limited_length(name: str) -> None:
    ResetBroker(**{name: "*" * 249})
    with pytest.raises(CommandError, match=f"^the pattern of {name} has more than 249 characters$"):
        ResetBroker(**{name: "*" * 250})


def test_a_shell_prints_what_was_deleted() -> None:
    lines = row_of(ResetBroker()).lines(ResetAnswer(("a", "b"), ("a",), (), ("t",)), {})
    assert list(lines) == ["deleted 2 topics, 0 groups, 1 transactional id; created 1 topic"]
