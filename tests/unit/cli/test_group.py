"""`kafkalite group`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker
from tests.unit.control.group_members import CONFIG, Members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.unit.cli.command import Shell


@pytest.fixture(scope="module")
def cluster() -> Iterator[Broker]:
    """Return a broker with the group `readers`, which has a member, and `shop` without one."""
    with Broker(topics={"orders": 2}, config=CONFIG) as running:
        for _ in range(3):
            running.produce("orders", "value", partition=0)
        running._run_on_loop(join_and_commit(running))
        yield running


async def join_and_commit(broker: Broker) -> None:
    members = Members(broker._running_broker())
    epoch = await members.join_consumer("readers", "member")
    await members.commit("readers", 1, member=("member", epoch))
    await members.commit("shop", 2)


def test_groups_are_listed(shell: Shell) -> None:
    listed = shell.run("group", "list")
    assert listed.lines == [
        "GROUP    TYPE      PROTOCOL  STATE   COORDINATOR",
        "readers  consumer  consumer  Stable            1",
        "shop     classic   -         Empty             1",
    ]
    assert shell.run("group", "list", "--state", "empty", "--json").json == [
        {
            "group_id": "shop",
            "type": "classic",
            "protocol_type": "",
            "state": "Empty",
            "coordinator": 1,
        }
    ]
    assert len(shell.run("group", "list", "--type", "consumer").lines) == 2


def test_an_unknown_state_is_an_error_with_the_states(shell: Shell) -> None:
    result = shell.run("group", "list", "--state", "stabel")
    assert (result.status, result.output) == (2, "")
    assert "argument --state: 'stabel' is no state of a group; similar names are Stable" in (
        result.error
    )
    assert "the states are Stable, Empty, PreparingRebalance" in result.error


def test_groups_are_described(shell: Shell) -> None:
    described = shell.run("group", "describe", "readers", "shop")
    assert described.lines == [
        "readers (consumer group, Stable, coordinator 1, epoch 2, assignor uniform)",
        "MEMBER  CLIENT     HOST       EPOCH  PARTITIONS",
        "member  kafkalite  127.0.0.1      2  orders-0,1",
        "TOPIC   PARTITION  OFFSET  END  LAG  CLIENT",
        "orders          0       1    3    2  kafkalite",
        "orders          1       -    0    -  kafkalite",
        "",
        "shop (classic group, Empty, coordinator 1)",
        "TOPIC   PARTITION  OFFSET  END  LAG  CLIENT",
        "orders          0       2    3    1  -",
    ]
    (shape,) = shell.run("group", "describe", "readers", "--json").json
    (member,) = shape["members"]
    assert member["assignment"] == [{"topic": "orders", "partitions": [0, 1]}]
    assert shape["offsets"][0] == {
        "topic": "orders",
        "partition": 0,
        "offset": 1,
        "end_offset": 3,
        "lag": 2,
        "member_id": "member",
    }


def test_reset_is_shown_before_it_is_executed(shell: Shell) -> None:
    arguments = ["group", "reset", "new", "--topic", "orders", "--to", "latest"]
    planned = shell.run(*arguments)
    assert planned.lines == [
        "TOPIC   PARTITION  OFFSET  NEW-OFFSET",
        "orders          0  -                3",
        "orders          1  -                0",
    ]
    assert planned.error == "kafkalite: nothing is changed yet; --execute sets the new offsets\n"
    assert shell.run("group", "describe", "new").status == 1
    assert shell.run(*arguments, "--execute") == (0, planned.output, "")
    shifted = shell.run("group", "reset", "new", "--shift", "-1", "--execute", "--json")
    assert shifted.json == {
        "group_id": "new",
        "executed": True,
        "offsets": [
            {"topic": "orders", "partition": 0, "offset": 3, "new_offset": 2},
            {"topic": "orders", "partition": 1, "offset": 0, "new_offset": 0},
        ],
    }
    some = shell.run("group", "reset", "new", "--topic", "orders:1,0", "--to", "earliest")
    assert some.cells[1:] == [["orders", "0", "2", "0"], ["orders", "1", "0", "0"]]
    assert shell.run("group", "delete", "new") == (0, "deleted group new\n", "")


def test_deletion_can_be_json(shell: Shell) -> None:
    reset = ["--topic", "orders", "--to", "0", "--execute"]
    assert shell.run("group", "reset", "old", *reset).status == 0
    assert shell.run("group", "delete", "old", "--json").json == {"deleted": ["old"]}


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["describe", "reader"], 1, "there is no group 'reader'; similar names are readers"),
        (["delete", "reader"], 1, "there is no group 'reader'; similar names are readers"),
        (["delete", "readers"], 1, "(NON_EMPTY_GROUP)"),
        (["reset", "reader", "--to", "0"], 1, "there is no group 'reader'; similar names are"),
        (["reset", "readers", "--to", "0", "--execute"], 1, "stop them before its offsets are"),
        (["reset", "shop", "--to", "soon"], 2, "'soon' is not earliest, latest, an offset"),
        (["reset", "shop", "--to", "0", "--topic", "ordres"], 1, "similar names are orders"),
        (["reset", "shop", "--to", "0", "--topic", "orders:x"], 2, "write TOPIC or TOPIC:0,1"),
        (["reset", "shop", "--to", "0", "--topic", "orders:2"], 1, "has no partition 2"),
        (["reset", "shop", "--to", "0", "--shift", "1"], 2, "not allowed with argument"),
        (["reset", "shop"], 2, "one of the arguments --to --shift is required"),
    ],
)
def test_error_is_one_sentence(shell: Shell, arguments: list[str], status: int, error: str) -> None:
    result = shell.run("group", *arguments)
    assert (result.status, result.output) == (status, "")
    (line,) = result.error.splitlines()
    assert error in line
