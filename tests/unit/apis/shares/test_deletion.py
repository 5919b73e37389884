"""DeleteGroups of share groups: their share state is deleted first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.share_groups import ShareGroupCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[ShareGroupCluster]:
    wire = ShareGroupCluster(tmp_path)
    yield wire
    wire.end()


def deleted(wire: ShareGroupCluster, *groups: str) -> list[int]:
    response = wire.ask(DeleteGroupsRequest(groups_names=list(groups)), 2)
    return [row.error_code for row in response.results]


def test_a_group_is_deleted_with_its_share_state(wire: ShareGroupCluster) -> None:
    topic_id = wire.create("t")
    wire.beat(topics=["t"])
    assert deleted(wire, "g") == [ErrorCode.NON_EMPTY_GROUP]
    wire.beat(epoch=-1)
    assert wire.cluster.shares.summary("g", topic_id, 0).state_epoch == 2
    assert deleted(wire, "g", "missing") == [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND]
    assert wire.cluster.shares.summary("g", topic_id, 0).state_epoch == 0
    assert wire.beat(epoch=1).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_without_share_state_is_deleted(wire: ShareGroupCluster) -> None:
    wire.join_and_leave("later")
    assert deleted(wire, "g") == [ErrorCode.NONE]


def test_a_group_remains_while_its_share_state_cannot_be_deleted(
    wire: ShareGroupCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create("t")
    wire.join_and_leave("t")

    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    monkeypatch.setattr(wire.cluster.shares, "delete_state", refuse)
    assert deleted(wire, "g") == [ErrorCode.NOT_COORDINATOR]
    monkeypatch.undo()
    assert deleted(wire, "g") == [ErrorCode.NONE]
