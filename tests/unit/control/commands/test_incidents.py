"""Commands that cause incidents: their errors, and what a shell prints."""

from __future__ import annotations

import pytest

from kafkalite.control.command_table import CommandError, row_of
from kafkalite.control.commands.incidents import (
    BegunRebalance,
    ExpelledMember,
    ExpelMember,
    FencedProducer,
    FenceProducer,
    RebalanceGroup,
    ReloadCoordinator,
    ReloadedCoordinator,
)
from kafkalite.control.group_reader import UnknownGroupError
from tests.unit.control.three_nodes import three_nodes


async def test_unknown_names_are_refused_with_one_sentence() -> None:
    async with three_nodes() as broker:
        with pytest.raises(UnknownGroupError, match=r"^there is no group 'shop'$"):
            await RebalanceGroup("shop").perform(broker)
        with pytest.raises(UnknownGroupError, match=r"^there is no group 'shop'$"):
            await ExpelMember("m", "shop").perform(broker)
        with pytest.raises(CommandError, match=r"^there is no member 'm' in any group$"):
            await ExpelMember("m").perform(broker)
        with pytest.raises(CommandError, match=r"^'t' has no coordinator: the topic __tr"):
            await FenceProducer("t").perform(broker)
        with pytest.raises(CommandError, match=r"^'shop' has no coordinator: the topic __"):
            await ReloadCoordinator("group", "shop").perform(broker)
        assert (await ReloadCoordinator("share").perform(broker)).partitions == ()


def test_a_share_coordinator_has_no_part_for_an_id() -> None:
    with pytest.raises(CommandError, match=r"^the share coordinator is loaded as a whole: omit id"):
        ReloadCoordinator("share", "g")


@pytest.mark.parametrize(
    ("command", "answer", "line"),
    [
        (ExpelMember("m"), ExpelledMember("g", "m"), "g: member m expelled"),
        (FenceProducer("t"), FencedProducer("t", 7, 2), "t: fenced by epoch 2 of producer 7"),
        (RebalanceGroup("g"), BegunRebalance("g", 1), "g: rebalances with 1 member"),
        (
            ReloadCoordinator("group"),
            ReloadedCoordinator("group", (0, 1)),
            "group coordinator: 2 partitions loaded again",
        ),
    ],
)
def test_a_shell_prints_one_line(command: object, answer: object, line: str) -> None:
    assert [*row_of(command).lines(answer, {})] == [line]
