"""Forms of commands."""

from __future__ import annotations

import pytest

from kafkalite.control.command_table import rows
from kafkalite.control.commands.clock import ChangeClock
from kafkalite.control.commands.faults import AddFault
from kafkalite.control.commands.nodes import AddNode, ChangeNode
from kafkalite.control.commands.topics import CreateTopic
from kafkalite.control.console.command_forms import inputs_of, sender
from kafkalite.control.console.forms import Query
from kafkalite.gateway.fault_rules import Action, Disconnect, Match, Trigger
from kafkalite.protocol.api_keys import ApiKey


def test_each_field_has_an_input() -> None:
    inputs = {each.name: each for each in inputs_of(AddFault)}
    assert inputs["match.api"].kind == "text"
    assert "Produce" in inputs["match.api"].choices
    assert inputs["action.disconnect"].kind == "choice"
    assert inputs["action.hold"].kind == "check"
    assert inputs["action.delay_ms"].label == "delay"
    assert inputs["trigger.times"].kind == "number"
    (name, *_) = inputs_of(CreateTopic)
    assert (name.label, name.is_required) == ("name", True)
    assert [each.name for each in inputs_of(AddFault, {"match.topic"})] == ["match.topic"]


def test_inputs_of_all_commands_are_described() -> None:
    for row in rows():
        for each in inputs_of(row.kind):
            assert each.about, (row.kind, each.name)
            assert each.label


def test_texts_become_a_command() -> None:
    form = Query(
        {
            "match.api": "Produce",
            "match.partition": "1",
            "action.delay_ms": "2s",
            "action.disconnect": "after",
            "trigger.probability": "0.5",
        }.items()
    )
    assert sender(AddFault)(form) == AddFault(
        Match(api=ApiKey.PRODUCE, partition=1),
        Trigger(probability=0.5),
        Action(delay_ms=2_000, disconnect=Disconnect.AFTER),
    )
    assert sender(ChangeClock)(Query([("rate", "60x")])) == ChangeClock(rate=60)
    assert sender(ChangeNode, state="stopped")(
        Query([("node_id", "2"), ("controlled", "1")])
    ) == ChangeNode(2, state="stopped", controlled=True)
    assert sender(AddNode)(Query([("config", "broker.rack = b\r\n\r\nx=")])) == AddNode(
        None, {"broker.rack": "b", "x": ""}
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"match.api": "Produse"}, "match.api 'Produse' is not an API of Kafka"),
        ({"match.partition": "x"}, "match.partition must be a whole number"),
        ({"trigger.probability": "x"}, "trigger.probability must be a number, not 'x'"),
        ({"action.delay_ms": "x"}, "action.delay: 'x' is not a duration"),
        ({}, "action needs at least one of these"),
    ],
)
def test_a_wrong_text_is_named(fields: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sender(AddFault)(Query(fields.items()))
    with pytest.raises(ValueError, match="config has the line 'x': write KEY=VALUE"):
        sender(AddNode)(Query([("config", "x")]))
